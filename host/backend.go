package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/keyring"
	"assay/host/lineup"
	"assay/host/postgres"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
)

// backend is what every command works on: the secrets and the database, the private one included.
type backend struct {
	keys    *keyring.Ring
	store   *store.Store
	cluster *postgres.Cluster // nil with an outside database
}

// openBackend opens the database that a host with the same settings uses, and starts the private one if none runs.
func openBackend(ctx context.Context, cfg *Config, t *terminal, log *slog.Logger) (*backend, error) {
	if err := cfg.makeDataDir(); err != nil {
		return nil, err
	}
	keys, err := keyring.Load(cfg.secretFile())
	if err != nil {
		return nil, err
	}
	b := &backend{keys: keys}
	url := cfg.DatabaseURL
	if url == "" {
		b.cluster, err = postgres.Open(ctx, postgres.Config{Dir: cfg.DataDir, Logger: log, Progress: t.stage})
		if err != nil {
			return nil, fmt.Errorf("opening the private Postgres: %w", err)
		}
		url = b.cluster.URL()
	}
	if b.store, err = store.Open(ctx, store.Config{URL: url, Keys: keys, Logger: log}); err != nil {
		return nil, errors.Join(err, b.close())
	}
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

// withBackend runs fn on the backend and closes it after.
func withBackend(ctx context.Context, cfg *Config, t *terminal, fn func(*backend) error) error {
	b, err := openBackend(ctx, cfg, t, quietLog(t))
	if err != nil {
		return err
	}
	return errors.Join(fn(b), b.close())
}

// quietLog is the log of commands other than serve: what an operator must see, and no more.
func quietLog(t *terminal) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// openSandbox returns the sandbox, its compiled code kept in the data directory.
func (b *backend) openSandbox(cfg *Config, log *slog.Logger) *sandbox.Sandbox {
	return sandbox.New(sandbox.Config{CacheDir: cfg.path("compiled"), CacheKey: b.keys.Cache, Logger: log})
}

// buildLayers returns the first-party modules, built from the source around the working directory. Outside a checkout
// there is none, and a host lives on what is published in its database.
func buildLayers(ctx context.Context, cfg *Config, t *terminal) ([]registry.Module, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	source, err := registry.FindSource(dir, cfg.path("layers"))
	if errors.Is(err, registry.ErrNoSource) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return source.BuildAll(ctx, t.progress("building layers"))
}

// errNoLayers means that there is nothing to score with.
var errNoLayers = errors.New("no lineup is in the database, and no source to build layers from around the working directory: run once from a checkout of assay, or publish layers with `assay plugin push` and `assay lineup set`")

// install publishes the built layers and makes sure that a lineup is active.
func (b *backend) install(ctx context.Context, modules []registry.Module, log *slog.Logger) error {
	if len(modules) == 0 {
		if active, err := b.store.ActiveRevision(ctx); err != nil || active == 0 {
			return errors.Join(errNoLayers, err)
		}
		return nil
	}
	newer, err := lineup.Install(ctx, b.store, modules)
	if newer {
		log.Warn("newer first-party layers are published than the lineup in force names: see `assay layers list --all`")
	}
	return err
}

// explainer opens the active lineup in this process, to score without recording.
func (b *backend) openChecker(ctx context.Context, cfg *Config, t *terminal) (*check.Checker, func() error, error) {
	log := quietLog(t)
	if active, err := b.store.ActiveRevision(ctx); err != nil {
		return nil, nil, err
	} else if active == 0 {
		modules, err := buildLayers(ctx, cfg, t)
		if err != nil {
			return nil, nil, err
		}
		if err := b.install(ctx, modules, log); err != nil {
			return nil, nil, err
		}
	}
	box, live := b.openSandbox(cfg, log), &check.Live{}
	follower := lineup.NewFollower(b.store, box, live, log)
	looked, err := b.openLookups(cfg, log)
	stop := func() error {
		follower.Close()
		return errors.Join(looked.close(), box.Close())
	}
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	if err := errors.Join(looked.similar.Load(ctx), follower.Follow(ctx)); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	checker := newChecker(live, nil, complaints{t})
	checker.Collector = looked
	return checker, stop, nil
}

// complaints is an observer that prints why a layer was lost, and nothing else.
type complaints struct{ *terminal }

var _ check.Observer = complaints{}

// LayerRan implements check.Observer.
func (c complaints) LayerRan(_ entity.Type, o check.Outcome, lost *check.Failure) {
	if lost != nil {
		fmt.Fprintf(c.err, "layer %s@%s: %v\n%s", o.Layer, o.Version, lost, lost.Output)
	}
}

// CheckDone implements check.Observer.
func (complaints) CheckDone(*check.Decision, time.Duration) {}
