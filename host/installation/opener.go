package installation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/entity"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
	"assay/registry/fault"
)

// Opener opens lineups in this process, to measure them or to score values without recording them. Layers without a
// version are the built-in ones.
type Opener struct {
	Backend  *Backend // nil: there is no installation, so layers, facts and overrides of the database are absent
	cfg      *Config
	terminal *terminal.Terminal
	sandbox  sandbox.Config
	build    func() ([]registry.Module, error) // returns the built-in layers
}

// NewOpener returns an opener for a command that can do without an installation. Without one, it keeps no files, and
// prints which lineup the command uses: that of the file or, if there is no file, the built-in one.
func NewOpener(ctx context.Context, c *Command, file string) (*Opener, error) {
	installed, err := c.HasInstallation()
	if err != nil {
		return nil, err
	}
	if installed {
		s, err := c.Open(ctx)
		if err != nil {
			return nil, err
		}
		return s.Opener(ctx, c.Config, c.Terminal), nil
	}
	modules, err := BuiltInLayers(ctx, c.Config, c.Terminal)
	if err != nil {
		return nil, err
	}
	if len(modules) == 0 {
		return nil, fmt.Errorf("%w; %w", c.noInstallation(), ErrNoBuiltIn)
	}
	fmt.Fprintf(c.Err, "%s, no database: there is no installation in %s\n", cmp.Or(file, "built-in lineup"), c.DataDir)
	// The layers are part of this program, so they are compiled in this process, which may use all processors.
	box := sandbox.Config{Logger: QuietLog(c.Terminal)}
	box.CacheDir, box.CacheKey = UserCache("compiled", box.Logger)
	return NewBuiltInOpener(c, modules, box), nil
}

// NewBuiltInOpener returns an opener of built-in layers, without an installation.
func NewBuiltInOpener(c *Command, modules []registry.Module, box sandbox.Config) *Opener {
	return &Opener{cfg: c.Config, terminal: c.Terminal, sandbox: box,
		build: func() ([]registry.Module, error) { return modules, nil }}
}

// Opener returns an opener for published layers.
func (b *Backend) Opener(ctx context.Context, cfg *Config, t *terminal.Terminal) *Opener {
	return &Opener{Backend: b, cfg: cfg, terminal: t, sandbox: b.SandboxConfig(cfg, QuietLog(t)),
		build: sync.OnceValues(func() ([]registry.Module, error) { return BuiltInLayers(ctx, cfg, t) })}
}

// Candidate opens the layers of a lineup.
func (o *Opener) Candidate(ctx context.Context, l registry.LineupDocument) (*lineup.Candidate, error) {
	var source lineup.Source = unpublished{}
	if o.Backend != nil {
		source = o.Backend.Store
	}
	return lineup.OpenCandidate(ctx, source, sandbox.New(o.sandbox), l, o.build)
}

// Lineup opens a lineup. The function that it returns closes it.
func (o *Opener) Lineup(ctx context.Context, l registry.LineupDocument) (*check.Lineup, func() error, error) {
	candidate, err := o.Candidate(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	return check.NewLineup(0, lineup.ByType(l.Bias), check.Bands(l.Bands), candidate.Members), candidate.Close, nil
}

// Checker opens a lineup to score entities of a type: that of a file or, if there is no file, the one in force or the
// built-in one. It looks facts up as a host does and records nothing. The function that Checker returns closes it.
func (o *Opener) Checker(ctx context.Context, file string, kind entity.Type) (*check.Checker, func() error, error) {
	live, closeLineup, err := o.live(ctx, file, kind)
	if err != nil {
		return nil, nil, err
	}
	lookups, err := OpenLookups(ctx, o.cfg, o.database(), QuietLog(o.terminal))
	if err != nil {
		return nil, nil, errors.Join(err, closeLineup())
	}
	closeAll := func() error { return errors.Join(closeLineup(), lookups.Close()) }
	checker := NewChecker(live, nil, FailurePrinter{Terminal: o.terminal})
	checker.Collector = lookups
	if o.Backend == nil {
		return checker, closeAll, nil
	}
	s := o.Backend.Store
	overrides := override.NewIndex(s, s.OverrideKeys(), s.Now, QuietLog(o.terminal))
	if err = lookups.Similar.Load(ctx); err == nil {
		err = overrides.Load(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	checker.Overrides = overrides
	return checker, closeAll, nil
}

// UseLookups opens the sources of facts, calls do, and closes them.
func (o *Opener) UseLookups(ctx context.Context, do func(*Lookups) error) error {
	return UseLookups(ctx, o.cfg, o.database(), o.terminal, do)
}

// database returns nil without an installation.
func (o *Opener) database() *store.Store {
	if o.Backend == nil {
		return nil
	}
	return o.Backend.Store
}

// live opens the lineup for Checker.
func (o *Opener) live(ctx context.Context, file string, kind entity.Type) (*check.Live, func() error, error) {
	if o.Backend != nil && file == "" {
		return o.inForce(ctx)
	}
	l, err := ReadDocument(file)
	if err != nil {
		return nil, nil, err
	}
	if o.Backend == nil {
		if l.Layers, err = o.scoring(l.Layers, kind); err != nil {
			return nil, nil, err
		}
	}
	opened, closeLineup, err := o.Lineup(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	live := &check.Live{}
	live.Swap(opened)
	return live, closeLineup, nil
}

// inForce opens the lineup in force.
func (o *Opener) inForce(ctx context.Context) (*check.Live, func() error, error) {
	a, err := o.Backend.Authority(ctx, o.cfg)
	if err != nil {
		return nil, nil, err
	}
	live := &check.Live{}
	follower := lineup.NewFollower(&a.Verifier, o.Backend.Store, sandbox.New(o.sandbox), live, QuietLog(o.terminal))
	closeLineup := func() error { follower.Close(); return nil }
	if err := follower.Follow(ctx); err != nil {
		return nil, nil, errors.Join(err, closeLineup())
	}
	return live, closeLineup, nil
}

// scoring returns the layers that score a type. Checks of the type do not use the others, and without a cache,
// compiling them would take seconds.
func (o *Opener) scoring(layers []registry.LineupLayer, kind entity.Type) ([]registry.LineupLayer, error) {
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

// ReadDocument reads the lineup of a file, or the built-in one if there is no file.
func ReadDocument(file string) (registry.LineupDocument, error) {
	if file == "" {
		return registry.DefaultLineup()
	}
	data, err := ReadFileOrStdin(file)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	l, err := registry.DecodeLineup(data) // validated when its layers have versions
	return l, fault.Wrap(err, "reading lineup")
}

// ReadFileOrStdin reads a file, or the standard input if its name is "-".
func ReadFileOrStdin(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
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
