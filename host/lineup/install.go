package lineup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"assay/host/sandbox"
	"assay/registry"
)

// Catalog stores published plugins and lineup revisions.
type Catalog interface {
	PublishPlugin(ctx context.Context, m registry.Module, version string, firstParty bool) error
	ActivateLineup(ctx context.Context, l registry.LineupDocument, origin registry.LineupOrigin, note string) (
		revision int64, err error)
	ActiveLineup(ctx context.Context) (registry.LineupRevision, error)
	// LineupHistory lists all revisions, newest first.
	LineupHistory(ctx context.Context) ([]registry.LineupRevision, error)
}

// Install publishes the built-in layers and, unless an operator chose the active lineup, activates the default lineup
// of these layers. It reports whether the operator's lineup lacks built-in layers or uses other versions of them.
func Install(ctx context.Context, catalog Catalog, modules []registry.Module) (updatable bool, err error) {
	lineup, err := registry.DefaultLineup()
	if err != nil {
		return false, err
	}
	versions := map[string]string{}
	for _, m := range modules {
		if versions[m.Manifest.Name], err = publish(ctx, catalog, m); err != nil {
			return false, err
		}
	}
	for i, layer := range lineup.Layers {
		version, ok := versions[layer.Layer]
		if !ok {
			return false, fmt.Errorf("installing layers: the default lineup names %q, which was not built", layer.Layer)
		}
		lineup.Layers[i].Layer += "@" + version
	}
	if err := lineup.Validate(); err != nil {
		return false, fmt.Errorf("installing layers: %w", err)
	}
	active, err := catalog.ActiveLineup(ctx)
	switch {
	case errors.Is(err, registry.ErrNoRevision):
	case err != nil:
		return false, err
	case equal(active.Lineup, lineup):
		return false, nil
	default:
		chosen, err := chosenByOperator(ctx, catalog, active)
		if err != nil || chosen {
			return err == nil && !hasLayers(active.Lineup, lineup), err
		}
	}
	_, err = catalog.ActivateLineup(ctx, lineup, registry.OriginBuiltIn, lineup.Note)
	return false, err
}

// chosenByOperator reports whether an operator set the active lineup or rolled back to it.
func chosenByOperator(ctx context.Context, catalog Catalog, active registry.LineupRevision) (bool, error) {
	if active.Origin != registry.OriginBuiltIn {
		return true, nil
	}
	history, err := catalog.LineupHistory(ctx)
	if err != nil {
		return false, err
	}
	return history[0].Revision != active.Revision, nil
}

// publish publishes a first-party module under its manifest's version. If that version was published with other code,
// which happens between releases, publish appends a prefix of the digest as build metadata.
func publish(ctx context.Context, catalog Catalog, m registry.Module) (version string, err error) {
	version = m.Manifest.Version
	err = catalog.PublishPlugin(ctx, m, version, true)
	if errors.Is(err, registry.ErrVersionTaken) {
		version += "+" + strings.TrimPrefix(m.Digest.String(), "sha256:")[:12]
		err = catalog.PublishPlugin(ctx, m, version, true)
	}
	return version, err
}

func equal(a, b registry.LineupDocument) bool {
	x, errX := a.Encode()
	y, errY := b.Encode()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// hasLayers reports whether l has every layer of wanted in the same version.
func hasLayers(l, wanted registry.LineupDocument) bool {
	has := map[string]bool{}
	for _, layer := range l.Layers {
		has[layer.Layer] = true
	}
	for _, layer := range wanted.Layers {
		if !has[layer.Layer] {
			return false
		}
	}
	return true
}

// Try opens every module of a lineup in this process, runs its test cases in the lineup's configuration, and closes it
// again. It returns the layers' manifests, or all errors, so that an operator does not activate a lineup that no host
// can load or whose layers do not do what they promise.
func Try(
	ctx context.Context, source Source, box *sandbox.Sandbox, l registry.LineupDocument,
) ([]registry.Manifest, error) {
	f := NewFollower(source, box, nil, slog.New(slog.DiscardHandler))
	plugins, err := f.acquire(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("trying lineup: %w", err)
	}
	var errs []error
	manifests := make([]registry.Manifest, len(plugins))
	for i, p := range plugins {
		manifests[i] = p.Manifest()
		errs = append(errs, tryCases(ctx, source, p, l.Layers[i]), p.Close(ctx))
	}
	return manifests, errors.Join(errs...)
}

// tryCases runs the test cases that came with a layer's module.
func tryCases(ctx context.Context, source Source, p *openPlugin, item registry.LineupLayer) error {
	name, version, _ := item.Ref()
	published, err := source.Plugin(ctx, name, version)
	if err != nil {
		return err
	}
	module, err := source.Module(ctx, published.Digest)
	if err != nil {
		return err
	}
	cases, err := module.Cases()
	if err == nil {
		err = RunCases(ctx, p.Plugin, item.Config, cases)
	}
	if err != nil {
		return fmt.Errorf("running the cases of %s: %w", item.Layer, err)
	}
	return nil
}
