package installation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/builtin"
	"assay/registry/sealed"
)

var ErrNoBuiltIn = errors.New("there are no built-in layers: this program is not a release, and the working " +
	"directory is not in a checkout of assay")

// layerCacheBytes bounds the built layers on disk.
const layerCacheBytes = 256 << 20

// BuiltInLayers returns the first-party modules: those in the release, even in a checkout, or those built from the
// source around the working directory. Without either it returns none.
func BuiltInLayers(ctx context.Context, cfg *Config, t *terminal.Terminal) ([]registry.Module, error) {
	if builtin.Embedded {
		return builtin.Modules()
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	source, err := LayerSource(dir, cfg, QuietLog(t))
	if errors.Is(err, registry.ErrNoSource) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return source.BuildAll(ctx, t.Progress("building layers"))
}

// LayerSource finds the source of the first-party layers around folder dir. It caches built layers in the data
// directory of the installation, if there is one.
func LayerSource(dir string, cfg *Config, log *slog.Logger) (registry.Source, error) {
	keys, err := cfg.LoadInstallation()
	if errors.Is(err, ErrNoInstallation) {
		return registry.FindSource(dir, nil, log)
	}
	if err != nil {
		return registry.Source{}, err
	}
	cache, err := sealed.Open(cfg.Path("layers"), keys.Cache, layerCacheBytes)
	if err != nil {
		log.Warn("built layers cannot be cached", "error", err)
	}
	return registry.FindSource(dir, cache, log)
}

// Opener opens lineups in this process, to measure them or to score values without recording them.
type Opener struct {
	Source  lineup.Source
	Sandbox sandbox.Config
	Build   func() ([]registry.Module, error) // for layers that the source does not have
}

// Open opens the layers of a lineup. A layer that fails often is not suspended, so that each score depends only on its
// value.
func (o Opener) Open(ctx context.Context, l registry.LineupDocument) (*lineup.Candidate, error) {
	o.Sandbox.NeverSuspend = true
	return lineup.OpenCandidate(ctx, o.Source, sandbox.New(o.Sandbox), l, o.Build)
}

// Opener returns an opener for published layers. Layers without a version are the built-in ones.
func (b *Backend) Opener(ctx context.Context, cfg *Config, t *terminal.Terminal) Opener {
	return Opener{b.Store, b.SandboxConfig(cfg, QuietLog(t)),
		sync.OnceValues(func() ([]registry.Module, error) { return BuiltInLayers(ctx, cfg, t) })}
}

// BuiltInOpener returns an opener of the built-in layers, for a command without an installation. It keeps no files, and
// prints a line about what the command uses.
func BuiltInOpener(ctx context.Context, cfg *Config, t *terminal.Terminal, file string) (Opener, error) {
	modules, err := BuiltInLayers(ctx, cfg, t)
	if err != nil {
		return Opener{}, err
	}
	if len(modules) == 0 {
		return Opener{}, fmt.Errorf("%w; %w", cfg.noInstallation(), ErrNoBuiltIn)
	}
	fmt.Fprintf(t.Err, "%s, no database: there is no installation in %s\n", cmp.Or(file, "built-in lineup"),
		cfg.DataDir)
	// They are part of this program, so they are compiled in this process, which may use all processors.
	return Opener{Unpublished{}, sandbox.Config{Logger: QuietLog(t)},
		func() ([]registry.Module, error) { return modules, nil }}, nil
}

// ReadDocument reads the lineup of a file, or the built-in one if there is no file.
func ReadDocument(file string) (registry.LineupDocument, error) {
	if file == "" {
		return registry.DefaultLineup()
	}
	data, err := ReadFile(file)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	l, err := registry.DecodeLineup(data) // validated when its layers have versions
	if err != nil {
		return l, fmt.Errorf("reading lineup: %w", err)
	}
	return l, nil
}

// OpenBuiltIn opens the lineup of a file, or the built-in one, without an installation, to score entities of a type.
// Facts from the database are absent.
func OpenBuiltIn(
	ctx context.Context, o Opener, cfg *Config, t *terminal.Terminal, file string, kind entity.Type,
) (*check.Checker, func() error, error) {
	l, err := ReadDocument(file)
	if err != nil {
		return nil, nil, err
	}
	if l.Layers, err = o.scoring(l.Layers, kind); err != nil {
		return nil, nil, err
	}
	candidate, err := o.Open(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	collector, err := openLookups(ctx, cfg, nil, QuietLog(t))
	if err != nil {
		return nil, nil, errors.Join(err, candidate.Close())
	}
	live := &check.Live{}
	live.Swap(check.NewLineup(0, lineup.ByType(l.Bias), check.Bands(l.Bands), candidate.Members))
	checker := NewChecker(live, nil, FailurePrinter{Terminal: t})
	checker.Collector = collector
	return checker, func() error { return errors.Join(candidate.Close(), collector.Close()) }, nil
}

// scoring returns the layers without those that do not score a type. Its checks do not use them, and without a cache,
// compiling them would take seconds.
func (o Opener) scoring(layers []registry.LineupLayer, kind entity.Type) ([]registry.LineupLayer, error) {
	modules, err := o.Build()
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

// Unpublished is a source of layers without a database: none is published.
type Unpublished struct{}

var _ lineup.Source = Unpublished{}

// Plugin implements lineup.Source.
func (Unpublished) Plugin(context.Context, string, string) (registry.PublishedPlugin, error) {
	return registry.PublishedPlugin{}, registry.ErrNoPlugin
}

// Plugins implements lineup.Source.
func (Unpublished) Plugins(context.Context) ([]registry.PublishedPlugin, error) { return nil, nil }

// Module implements lineup.Source.
func (Unpublished) Module(context.Context, registry.Digest) (registry.Module, error) {
	return registry.Module{}, registry.ErrNoPlugin
}

// OpenDocument opens the layers of a lineup in this process. Layers without a version are the built-in ones.
func (b *Backend) OpenDocument(
	ctx context.Context, cfg *Config, t *terminal.Terminal, l registry.LineupDocument,
) (*check.Lineup, func() error, error) {
	candidate, err := b.Opener(ctx, cfg, t).Open(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	return check.NewLineup(0, lineup.ByType(l.Bias), check.Bands(l.Bands), candidate.Members), candidate.Close, nil
}

// OpenCandidate opens the lineup of a file in this process, to score values without recording them.
func OpenCandidate(
	ctx context.Context, b *Backend, cfg *Config, t *terminal.Terminal, file string,
) (*check.Checker, func() error, error) {
	l, err := ReadDocument(file)
	if err != nil {
		return nil, nil, err
	}
	candidate, closeLineup, err := b.OpenDocument(ctx, cfg, t, l)
	if err != nil {
		return nil, nil, err
	}
	live := &check.Live{}
	live.Swap(candidate)
	return b.newExplainer(ctx, cfg, t, live, closeLineup)
}

func ReadFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}
