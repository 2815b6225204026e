package lineup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
)

// Install publishes the layers that the host was built with and, as long as no operator has set a lineup, puts the
// default lineup of them in force. It says whether newer built-in layers than those in force are there for an operator
// to take.
func Install(ctx context.Context, s *store.Store, modules []registry.Module) (newer bool, err error) {
	lineup, err := registry.DefaultLineup()
	if err != nil {
		return false, err
	}
	versions := map[string]string{}
	for _, m := range modules {
		if versions[m.Manifest.Name], err = publish(ctx, s, m); err != nil {
			return false, err
		}
	}
	for i, item := range lineup.Layers {
		version, ok := versions[item.Layer]
		if !ok {
			return false, fmt.Errorf("installing layers: the default lineup names %q, which was not built", item.Layer)
		}
		lineup.Layers[i].Layer += "@" + version
	}
	if err := lineup.Validate(); err != nil {
		return false, fmt.Errorf("installing layers: %w", err)
	}
	active, err := s.ActiveLineup(ctx)
	switch {
	case errors.Is(err, store.ErrNoRevision):
	case err != nil:
		return false, err
	case same(active.Lineup, lineup):
		return false, nil
	default:
		operated, err := operated(ctx, s, active)
		if err != nil || operated {
			return err == nil && !sameLayers(active.Lineup, lineup), err
		}
	}
	_, err = s.ActivateLineup(ctx, lineup, store.BuiltIn, lineup.Note)
	return false, err
}

// operated says whether an operator chose the active lineup: set it, or rolled back to it from a later one.
func operated(ctx context.Context, s *store.Store, active store.Revision) (bool, error) {
	if active.Origin != store.BuiltIn {
		return true, nil
	}
	history, err := s.LineupHistory(ctx)
	if err != nil {
		return false, err
	}
	return history[0].Revision != active.Revision, nil
}

// publish publishes a first-party module. Its version is the manifest's; when that was published with other code, as
// happens between two releases, the code's digest is added as build metadata.
func publish(ctx context.Context, s *store.Store, m registry.Module) (version string, err error) {
	version = m.Manifest.Version
	err = s.PublishPlugin(ctx, m, version, true)
	if errors.Is(err, store.ErrVersionTaken) {
		version += "+" + strings.TrimPrefix(m.Digest.String(), "sha256:")[:12]
		err = s.PublishPlugin(ctx, m, version, true)
	}
	return version, err
}

func same(a, b registry.LineupDocument) bool {
	x, errX := a.Encode()
	y, errY := b.Encode()
	return errX == nil && errY == nil && string(x) == string(y)
}

func sameLayers(a, b registry.LineupDocument) bool {
	names := map[string]bool{}
	for _, item := range a.Layers {
		names[item.Layer] = true
	}
	for _, item := range b.Layers {
		if !names[item.Layer] {
			return false
		}
	}
	return true
}

// Try opens every module of a lineup in this process, and says what is wrong with any: what cannot be loaded here is
// not to be put in force anywhere.
func Try(ctx context.Context, s *store.Store, box *sandbox.Sandbox, l registry.LineupDocument) error {
	f := NewFollower(s, box, nil, slog.New(slog.DiscardHandler))
	plugins, err := f.acquire(ctx, l)
	if err != nil {
		return fmt.Errorf("trying lineup: %w", err)
	}
	var errs []error
	for _, p := range plugins {
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(errs...)
}
