package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/eval"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
)

// trial is a lineup opened in this process to be measured.
type trial struct {
	document registry.LineupDocument // as it was given
	active   registry.LineupRevision // what is in force; nothing (revision 0) when a document is measured and nothing is
	lineup   eval.Model
	checker  *check.Checker
	closers  []func() error
	box      *sandbox.Sandbox
}

// trialOptions says what is opened.
type trialOptions struct {
	lineup  string // a document's file; "" for the lineup in force
	lookups bool   // facts are looked up too
}

// lookupWorkers is how many rows wait for lookups at once.
const lookupWorkers = 32

// A measurement must be the same on every machine, so its layers may take far longer than a check's; [eval.Run] counts
// those that take longer than their budgets.
const (
	trialBudget   = 10 * time.Second
	trialDeadline = time.Minute
)

// withTrial opens a lineup, runs fn on it, and closes it.
func withTrial(ctx context.Context, cfg *Config, t *terminal, o trialOptions, fn func(*trial) error) error {
	return withBackend(ctx, cfg, t, func(b *backend) (err error) {
		tr := &trial{box: b.openSandbox(cfg, quietLog(t))}
		defer func() { err = errors.Join(err, tr.close()) }()
		if err := tr.open(ctx, b, cfg, t, o.lineup); err != nil {
			return err
		}
		if o.lookups {
			looked, err := b.openLookups(cfg, quietLog(t))
			if err != nil {
				return err
			}
			tr.closers = append(tr.closers, looked.close)
			if err := looked.similar.Load(ctx); err != nil {
				return err
			}
			tr.checker.Collector = looked
		}
		return fn(tr)
	})
}

func (tr *trial) close() error {
	var errs []error
	for _, c := range slices.Backward(tr.closers) {
		errs = append(errs, c())
	}
	return errors.Join(append(errs, tr.box.Close())...)
}

func (tr *trial) open(ctx context.Context, b *backend, cfg *Config, t *terminal, file string) (err error) {
	tr.active, err = b.store.ActiveLineup(ctx)
	nothing := errors.Is(err, registry.ErrNoRevision)
	if err != nil && !nothing {
		return err
	}
	layers := layerSource{store: b.store, build: func() ([]registry.Module, error) { return buildLayers(ctx, cfg, t) }}
	switch {
	case file != "":
		tr.document, err = readCandidate(file)
	case nothing: // install what a host would start with
		if layers.built, err = layers.build(); err == nil {
			err = b.install(ctx, layers.built, quietLog(t))
		}
		if err == nil {
			tr.active, err = b.store.ActiveLineup(ctx)
		}
		fallthrough
	default:
		tr.document, tr.lineup.Revision = tr.active.Lineup, tr.active.Revision
	}
	if err != nil {
		return err
	}
	l := tr.document
	tr.lineup.Bias, tr.lineup.Bands = l.Bias, check.Bands{Review: l.Bands.Review, Block: l.Bands.Block}
	members := make([]check.Member, len(l.Layers))
	resolved := l
	resolved.Layers = slices.Clone(l.Layers)
	for i := range resolved.Layers {
		if members[i], err = tr.openLayer(ctx, &layers, &resolved.Layers[i]); err != nil {
			return err
		}
	}
	if err := resolved.Validate(); err != nil {
		return fmt.Errorf("reading lineup: %w", err)
	}
	live := &check.Live{}
	live.Swap(check.NewLineup(tr.lineup.Revision, l.Bias, tr.lineup.Bands, members))
	tr.checker = newChecker(live, nil, unobserved{})
	tr.checker.Deadline = trialDeadline
	return nil
}

// openLayer opens one layer, and completes its item's name with the version.
func (tr *trial) openLayer(ctx context.Context, layers *layerSource, item *registry.LineupLayer) (check.Member, error) {
	module, version, firstParty, err := layers.find(ctx, *item)
	if err != nil {
		return check.Member{}, err
	}
	m := module.Manifest
	item.Layer = m.Name + "@" + version
	module.Manifest.BudgetMS = int(trialBudget.Milliseconds())
	open := tr.box.Open
	if item.Shares(firstParty) {
		open = tr.box.OpenShared
	}
	plugin, err := open(ctx, module)
	if err != nil {
		return check.Member{}, err
	}
	tr.closers = append(tr.closers, func() error { return plugin.Close(context.Background()) })
	types := make([]entity.Type, len(m.Entities))
	for i, e := range m.Entities {
		types[i] = entity.Type(e)
	}
	tr.lineup.Layers = append(tr.lineup.Layers, eval.Layer{Name: m.Name, Version: version, Weight: item.Weight,
		Types: types, Budget: m.Budget()})
	return check.Member{
		Name: m.Name, Version: version, Weight: item.Weight, Required: item.Required, Entities: types, Facts: m.Facts,
		Config: item.Config, Layer: plugin,
	}, nil
}

// layerSource finds modules: published ones in the store, others in the source around the working directory.
type layerSource struct {
	store *store.Store
	build func() ([]registry.Module, error)
	built []registry.Module // once they are
}

// find returns an item's module. Name@version is what was published so, else the source's of that very version; a name
// alone is the source's.
func (s *layerSource) find(ctx context.Context, item registry.LineupLayer) (m registry.Module, version string,
	firstParty bool, err error) {
	name, version, versioned := item.Ref()
	if versioned {
		published, err := s.store.Plugin(ctx, name, version)
		if err == nil {
			m, err = s.store.Module(ctx, published.Digest)
			return m, version, published.FirstParty, err
		}
		if !errors.Is(err, registry.ErrNoPlugin) {
			return m, version, false, err
		}
	}
	if s.built == nil {
		if s.built, err = s.build(); err != nil {
			return m, version, false, err
		}
	}
	for _, m := range s.built {
		if m.Manifest.Name == name && (!versioned || m.Manifest.Version == version) {
			return m, m.Manifest.Version, true, nil
		}
	}
	return m, version, false, fmt.Errorf(
		"looking up %s: it is neither published nor in the source around the working directory", item.Layer)
}

// readCandidate reads a lineup whose layers may lack a version. It is checked once they have one.
func readCandidate(file string) (l registry.LineupDocument, err error) {
	data, err := readFile(file)
	if err != nil {
		return l, err
	}
	if l, err = registry.DecodeLineup(data); err != nil {
		return l, fmt.Errorf("reading lineup: %w", err)
	}
	return l, nil
}

// unobserved is an observer that tells nobody: what happened is in the report.
type unobserved struct{}

var _ check.Observer = unobserved{}

// LayerRan implements check.Observer.
func (unobserved) LayerRan(entity.Type, check.Outcome, *check.Failure) {}

// CheckDone implements check.Observer.
func (unobserved) CheckDone(*check.Decision, time.Duration) {}
