package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/fleet"
	"assay/host/keyring"
	"assay/host/lineup"
	"assay/host/override"
	"assay/host/postgres"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
	"assay/registry/activation"
)

// backend holds the secrets and the database that commands use.
type backend struct {
	keys    *keyring.Ring
	store   *store.Store
	cluster *postgres.Cluster // the private Postgres; nil if another database is configured
}

// openBackend opens the database of the installation that the settings name. It starts the private Postgres if it is
// not running. With store.CreateSchema, for a starting host, it creates missing parts; otherwise it creates nothing.
func openBackend(
	ctx context.Context, cfg *Config, t *terminal, log *slog.Logger, schema store.Schema,
) (*backend, error) {
	create, load := schema == store.CreateSchema, cfg.loadInstallation
	if create {
		load = cfg.createInstallation
	}
	keys, err := load()
	if err != nil {
		return nil, err
	}
	b := &backend{keys: keys}
	url := cfg.DatabaseURL
	if url == "" {
		b.cluster, err = postgres.Open(ctx, postgres.Config{Dir: cfg.DataDir, Logger: log, Progress: t.stage,
			Existing: !create})
		if errors.Is(err, postgres.ErrNone) {
			return nil, cfg.noPrivateDatabase()
		}
		if err != nil {
			return nil, fmt.Errorf("opening the private Postgres: %w", err)
		}
		url = b.cluster.URL()
	}
	if b.store, err = store.Open(ctx, store.Config{URL: url, DirectURL: cfg.DatabaseDirectURL,
		Connections: cfg.DatabaseConnections, Chains: cfg.Chains, Keys: keys, Logger: log, Now: cfg.now,
		Schema: schema}); err != nil {
		if errors.Is(err, store.ErrOtherSecret) && cfg.fresh {
			err = cfg.withoutSecret()
		}
		return nil, errors.Join(err, b.close())
	}
	err = cfg.holdCheckpointKey(ctx, b.store.Signer())
	if err == nil {
		err = b.store.Signer().Ready(audit.Records) // otherwise it cannot read values that others encrypt
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.store.Probe(ctx) // reads the database's clock
	return b, nil
}

// close closes what openBackend opened. The private Postgres stops when no other process uses it.
func (b *backend) close() error {
	var errs []error
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		errs = append(errs, b.cluster.Close(ctx))
	}
	return errors.Join(errs...)
}

// withBackend opens the backend of an installation, calls fn with it, and closes it.
func withBackend(ctx context.Context, cfg *Config, t *terminal, fn func(*backend) error) error {
	b, err := openBackend(ctx, cfg, t, quietLog(t), store.RequireSchema)
	if err != nil {
		return err
	}
	return errors.Join(fn(b), b.close())
}

// quietLog returns the log of commands other than serve, which shows only warnings and errors.
func quietLog(t *terminal) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// openSandbox returns a sandbox that compiles in a process of its own and caches compiled code in the data directory.
func (b *backend) openSandbox(cfg *Config, log *slog.Logger) *sandbox.Sandbox {
	return sandbox.New(b.sandboxConfig(cfg, log))
}

func (b *backend) sandboxConfig(cfg *Config, log *slog.Logger) sandbox.Config {
	return sandbox.Config{CacheDir: cfg.path("compiled"), CacheKey: b.keys.Cache, Compiler: compilerCommand(),
		Logger: log}
}

var errNoLayers = errors.New("the database has no lineup, this program is not a release with built-in layers, and " +
	"the working directory is not in a checkout of assay to build them from: start a release once, or a host from a " +
	"checkout")

// install publishes the built layers and makes sure that a signed lineup is active.
func (b *backend) install(ctx context.Context, a *authority, modules []registry.Module, log *slog.Logger) error {
	if len(modules) == 0 {
		if _, ok, err := b.store.LastActivation(ctx); err != nil || !ok {
			return cmp.Or(err, errNoLayers)
		}
	}
	installer := lineup.Installer{Catalog: b.store, Verifier: &a.Verifier, Operator: a.operator, Adopt: a.adopt,
		Log: log, Now: time.Now, Prepare: func(ctx context.Context, next activation.Activation) (func() error, error) {
			rollout := &fleet.Rollout{Store: b.store, Observe: func(e fleet.Event) {
				log.Info("preparing the built-in lineup", "host", e.Host.Name, "state", e.What, "reason", e.Reason)
			}}
			prepared, err := b.prepare(ctx, a, rollout, next)
			if err != nil {
				return nil, err
			}
			return prepared.Close, nil
		}}
	newer, err := installer.Install(ctx, modules)
	if err != nil {
		return err
	}
	if newer {
		log.Warn("newer first-party layers than the active lineup's are published: see `assay layers list --all`")
	}
	return a.save()
}

// errNoLineup means that the database has no signed lineup.
var errNoLineup = errors.New("the database has no signed lineup yet: start a host on it first")

// authority returns the authority of this data directory's host, for a command next to it. It changes nothing: only a
// host signs the first lineup.
func (b *backend) authority(ctx context.Context, cfg *Config) (*authority, error) {
	signed, _, err := b.store.LastActivation(ctx)
	if err != nil {
		return nil, err
	}
	if signed == "" {
		return nil, errNoLineup
	}
	a, err := b.verifying(ctx, cfg)
	if err != nil || a.operator != nil {
		return a, err
	}
	if _, err := os.Stat(a.file); errors.Is(err, fs.ErrNotExist) {
		return nil, a.noTrustFile() // otherwise nothing would be trusted
	}
	return a, nil
}

// openChecker opens the active lineup in this process, to score values without recording them.
func (b *backend) openChecker(ctx context.Context, cfg *Config, t *terminal) (*check.Checker, func() error, error) {
	log := quietLog(t)
	a, err := b.authority(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	box, live := b.openSandbox(cfg, log), &check.Live{}
	follower := lineup.NewFollower(&a.Verifier, b.store, box, live, log)
	closeLineup := func() error { follower.Close(); return nil }
	if err := follower.Follow(ctx); err != nil {
		return nil, nil, errors.Join(err, closeLineup())
	}
	return b.newExplainer(ctx, cfg, t, live, closeLineup)
}

// newExplainer returns a checker that looks facts up as a host does and records nothing. The function that it returns
// also closes the lineup.
func (b *backend) newExplainer(
	ctx context.Context, cfg *Config, t *terminal, live *check.Live, closeLineup func() error,
) (*check.Checker, func() error, error) {
	log := quietLog(t)
	collector, err := b.openLookups(ctx, cfg, log)
	stop := func() error { return errors.Join(closeLineup(), collector.close()) }
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	if err := collector.similar.Load(ctx); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	overrides := override.NewIndex(b.store, b.store.OverrideKeys(), b.store.Now, log)
	if err := overrides.Load(ctx); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	checker := newChecker(live, nil, failurePrinter{t})
	checker.Collector, checker.Overrides = collector, overrides
	return checker, stop, nil
}

// failurePrinter is an observer that prints why layers failed.
type failurePrinter struct{ *terminal }

var _ check.Observer = failurePrinter{}

// LayerRan implements check.Observer.
func (p failurePrinter) LayerRan(_ entity.Type, o check.Outcome, failure *check.Failure) {
	if failure != nil {
		fmt.Fprintf(p.err, "layer %s@%s: %s: %v\n%s", o.Layer, o.Version, failure.Reason, failure.Err,
			failure.Output.Text)
	}
}

// CheckDone implements check.Observer.
func (failurePrinter) CheckDone(*check.Decision, time.Duration) {}
