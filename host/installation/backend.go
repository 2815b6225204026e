package installation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"assay/host/access/keyring"
	"assay/host/audit"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/fleet"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/host/store/postgres"
	"assay/registry"
	"assay/registry/activation"
)

// Backend holds the secrets and the database that commands use.
type Backend struct {
	Keys    *keyring.Ring
	Store   *store.Store
	Cluster *postgres.Cluster // the private Postgres; nil if another database is configured
}

// Open opens the database of the installation that the settings name. It starts the private Postgres if it is
// not running. With store.CreateSchema, for a starting host, it creates missing parts; otherwise it creates nothing.
func Open(ctx context.Context, cfg *Config, t *terminal.Terminal, log *slog.Logger, schema store.Schema) (
	*Backend, error) {
	create, load, wait := schema == store.CreateSchema, cfg.LoadInstallation, time.Duration(0)
	if create {
		load, wait = cfg.CreateInstallation, cfg.Wait
	}
	keys, err := load()
	if err != nil {
		return nil, err
	}
	b := &Backend{Keys: keys}
	url := cfg.DatabaseURL
	if url == "" {
		b.Cluster, err = postgres.Open(ctx, postgres.Config{Dir: cfg.DataDir, Logger: log, Progress: t.Stage,
			Existing: !create, Supervise: create})
		if errors.Is(err, postgres.ErrNone) {
			return nil, cfg.NoPrivateDatabase()
		}
		if err != nil {
			return nil, fmt.Errorf("opening the private Postgres: %w", err)
		}
		url = b.Cluster.URL()
	}
	if b.Store, err = store.Open(ctx, store.Config{URL: url, DirectURL: cfg.DatabaseDirectURL,
		Connections: cfg.DatabaseConnections, Chains: cfg.Chains, Keys: keys, Logger: log, Now: cfg.Now,
		Schema: schema, Wait: wait}); err != nil {
		if errors.Is(err, store.ErrOtherSecret) && cfg.fresh {
			err = cfg.withoutSecret()
		}
		return nil, errors.Join(err, b.Close())
	}
	err = cfg.HoldCheckpointKey(ctx, b.Store.Signer())
	if err == nil {
		err = b.Store.Signer().Ready(audit.Records) // otherwise it cannot read values that others encrypt
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.Store.Probe(ctx) // reads the database's clock
	return b, nil
}

// Close closes what Open opened. The private Postgres stops when no other process uses it.
func (b *Backend) Close() error {
	var errs []error
	if b.Store != nil {
		errs = append(errs, b.Store.Close())
	}
	if b.Cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), StopTimeout)
		defer cancel()
		errs = append(errs, b.Cluster.Close(ctx))
	}
	return errors.Join(errs...)
}

// QuietLog returns the log of commands other than serve, which shows only warnings and errors.
func QuietLog(t *terminal.Terminal) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// OpenSandbox returns a sandbox as SandboxConfig configures it.
func (b *Backend) OpenSandbox(cfg *Config, log *slog.Logger) *sandbox.Sandbox {
	return sandbox.New(b.SandboxConfig(cfg, log))
}

// SandboxConfig configures a sandbox that compiles in a process of its own and caches compiled code in the data
// directory.
func (b *Backend) SandboxConfig(cfg *Config, log *slog.Logger) sandbox.Config {
	return sandbox.Config{CacheDir: cfg.Path("compiled"), CacheKey: b.Keys.Cache, Compiler: CompilerCommand(),
		Logger: log}
}

var errNoLayers = errors.New("the database has no lineup, this program is not a release with built-in layers, and " +
	"the working directory is not in a checkout of assay to build them from: start a release once, or a host from a " +
	"checkout")

// Install publishes the built layers and makes sure that a signed lineup is active.
func (b *Backend) Install(ctx context.Context, a *Authority, modules []registry.Module, log *slog.Logger) error {
	if len(modules) == 0 {
		if _, ok, err := b.Store.LastActivation(ctx); err != nil || !ok {
			return cmp.Or(err, errNoLayers)
		}
	}
	installer := lineup.Installer{Catalog: b.Store, Verifier: &a.Verifier, Operator: a.Operator,
		Log: log, Now: time.Now, Prepare: func(ctx context.Context, next activation.Activation) (func() error, error) {
			rollout := &fleet.Rollout{Store: b.Store, Observe: func(e fleet.Event) {
				log.Info("preparing the built-in lineup", "host", e.Host.Name, "state", e.What, "reason", e.Reason)
			}}
			candidate, err := b.operator(a).Candidate(ctx, next)
			if err != nil {
				return nil, err
			}
			prepared, err := rollout.Prepare(ctx, candidate)
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

// Authority returns the authority of this data directory's host, for a command next to it. It changes nothing: only a
// host signs the first lineup.
func (b *Backend) Authority(ctx context.Context, cfg *Config) (*Authority, error) {
	signed, _, err := b.Store.LastActivation(ctx)
	if err != nil {
		return nil, err
	}
	if signed == "" {
		return nil, errNoLineup
	}
	a, err := b.Verifying(ctx, cfg)
	if err != nil || a.Operator != nil {
		return a, err
	}
	if _, err := os.Stat(a.file); errors.Is(err, fs.ErrNotExist) {
		return nil, a.noTrustFile() // otherwise nothing would be trusted
	}
	return a, nil
}

// LastActivation returns the activation that was stored last, unverified and for display only. It is the zero value if
// none can be read.
func (b *Backend) LastActivation(ctx context.Context) (activation.Activation, error) {
	signed, _, err := b.Store.LastActivation(ctx)
	if err != nil {
		return activation.Activation{}, err
	}
	last, _ := activation.Unverified(signed)
	return last, nil
}
