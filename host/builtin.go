package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/builtin"
	"assay/registry/sealed"
)

var errNoBuiltIn = errors.New("there are no built-in layers: this program is not a release, and the working " +
	"directory is not in a checkout of assay")

// layerCacheBytes bounds the built layers on disk.
const layerCacheBytes = 256 << 20

// builtInLayers returns the first-party modules: those in the release, even in a checkout, or those built from the
// source around the working directory. Without either it returns none.
func builtInLayers(ctx context.Context, cfg *Config, t *terminal) ([]registry.Module, error) {
	if builtin.Embedded {
		return builtin.Modules()
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	source, err := layerSource(dir, cfg, quietLog(t))
	if errors.Is(err, registry.ErrNoSource) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return source.BuildAll(ctx, t.progress("building layers"))
}

// layerSource finds the source of the first-party layers around folder dir. It caches built layers in the data
// directory of the installation, if there is one.
func layerSource(dir string, cfg *Config, log *slog.Logger) (registry.Source, error) {
	keys, err := cfg.loadInstallation()
	if errors.Is(err, errNoInstallation) {
		return registry.FindSource(dir, nil, log)
	}
	if err != nil {
		return registry.Source{}, err
	}
	cache, err := sealed.Open(cfg.path("layers"), keys.Cache, layerCacheBytes)
	if err != nil {
		log.Warn("built layers cannot be cached", "error", err)
	}
	return registry.FindSource(dir, cache, log)
}

// opener opens lineups in this process, to measure them or to score values without recording them.
type opener struct {
	source  lineup.Source
	sandbox sandbox.Config
	build   func() ([]registry.Module, error) // for layers that the source does not have
}

// open opens the layers of a lineup. A layer that fails often is not suspended, so that each score depends only on its
// value.
func (o opener) open(ctx context.Context, l registry.LineupDocument) (*lineup.Candidate, error) {
	o.sandbox.NeverSuspend = true
	return lineup.OpenCandidate(ctx, o.source, sandbox.New(o.sandbox), l, o.build)
}

// opener returns an opener for published layers. Layers without a version are the built-in ones.
func (b *backend) opener(ctx context.Context, cfg *Config, t *terminal) opener {
	return opener{b.store, b.sandboxConfig(cfg, quietLog(t)),
		sync.OnceValues(func() ([]registry.Module, error) { return builtInLayers(ctx, cfg, t) })}
}

// builtInOpener returns an opener of the built-in layers, for a command without an installation. It keeps no files, and
// prints a line about what the command uses.
func builtInOpener(ctx context.Context, cfg *Config, t *terminal, file string) (opener, error) {
	modules, err := builtInLayers(ctx, cfg, t)
	if err != nil {
		return opener{}, err
	}
	if len(modules) == 0 {
		return opener{}, fmt.Errorf("%w; %w", cfg.noInstallation(), errNoBuiltIn)
	}
	fmt.Fprintf(t.err, "%s, no database: there is no installation in %s\n", cmp.Or(file, "built-in lineup"),
		cfg.DataDir)
	// They are part of this program, so they are compiled in this process, which may use all processors.
	return opener{unpublished{}, sandbox.Config{Logger: quietLog(t)},
		func() ([]registry.Module, error) { return modules, nil }}, nil
}

// readDocument reads the lineup of a file, or the built-in one if there is no file.
func readDocument(file string) (registry.LineupDocument, error) {
	if file == "" {
		return registry.DefaultLineup()
	}
	data, err := readFile(file)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	l, err := registry.DecodeLineup(data) // validated when its layers have versions
	if err != nil {
		return l, fmt.Errorf("reading lineup: %w", err)
	}
	return l, nil
}

// openBuiltIn opens the lineup of a file, or the built-in one, without an installation, to score entities of a type.
// Facts from the database are absent.
func openBuiltIn(
	ctx context.Context, o opener, cfg *Config, t *terminal, file string, kind entity.Type,
) (*check.Checker, func() error, error) {
	l, err := readDocument(file)
	if err != nil {
		return nil, nil, err
	}
	if l.Layers, err = o.scoring(l.Layers, kind); err != nil {
		return nil, nil, err
	}
	candidate, err := o.open(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	collector, err := openLookups(ctx, cfg, nil, quietLog(t))
	if err != nil {
		return nil, nil, errors.Join(err, candidate.Close())
	}
	live := &check.Live{}
	live.Swap(check.NewLineup(0, lineup.ByType(l.Bias), check.Bands(l.Bands), candidate.Members))
	checker := newChecker(live, nil, failurePrinter{t})
	checker.Collector = collector
	return checker, func() error { return errors.Join(candidate.Close(), collector.close()) }, nil
}

// scoring returns the layers without those that do not score a type. Its checks do not use them, and without a cache,
// compiling them would take seconds.
func (o opener) scoring(layers []registry.LineupLayer, kind entity.Type) ([]registry.LineupLayer, error) {
	modules, err := o.build()
	if err != nil {
		return nil, err
	}
	others := map[string]bool{}
	for _, m := range modules {
		others[m.Manifest.Name] = !slices.Contains(m.Manifest.Entities, string(kind))
	}
	return slices.DeleteFunc(slices.Clone(layers), func(item registry.LineupLayer) bool {
		name, _, _ := item.Ref()
		return others[name]
	}), nil
}

// unpublished is a source of layers without a database: none is published.
type unpublished struct{}

var _ lineup.Source = unpublished{}

// Plugin implements lineup.Source.
func (unpublished) Plugin(context.Context, string, string) (registry.PublishedPlugin, error) {
	return registry.PublishedPlugin{}, registry.ErrNoPlugin
}

// Plugins implements lineup.Source.
func (unpublished) Plugins(context.Context) ([]registry.PublishedPlugin, error) { return nil, nil }

// Module implements lineup.Source.
func (unpublished) Module(context.Context, registry.Digest) (registry.Module, error) {
	return registry.Module{}, registry.ErrNoPlugin
}
