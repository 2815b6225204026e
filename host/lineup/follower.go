// Package lineup keeps a host on the active lineup. It publishes the built-in layers, loads the revision that the
// database names as active, and swaps it in while checks run. Lineup documents are in package registry, scoring is in
// package check, and storage implements [Source] and [Catalog].
package lineup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
)

const (
	pollInterval = time.Second
	retryDelay   = 15 * time.Second // before loading a refused revision again
	loadTimeout  = 30 * time.Minute
)

// Source provides lineup revisions and published plugins.
type Source interface {
	// ActiveRevision returns the number of the revision in force, or 0 before the first activation.
	ActiveRevision(ctx context.Context) (int64, error)
	LineupRevision(ctx context.Context, revision int64) (registry.LineupRevision, error)
	Plugins(ctx context.Context) ([]registry.PublishedPlugin, error)
	Plugin(ctx context.Context, name, version string) (registry.PublishedPlugin, error)
	Module(ctx context.Context, digest registry.Digest) (registry.Module, error)
}

// Follower keeps one host on the active revision. It loads a revision completely (every module vetted, compiled and
// warmed) before swapping it in. If loading fails, the previous revision stays in force.
type Follower struct {
	source       Source
	sandbox      *sandbox.Sandbox
	live         *check.Live
	log          *slog.Logger
	changed      chan struct{} // holds an element after a notification that another lineup may be active
	published    chan struct{} // holds an element after a notification that plugins may have been published
	pollInterval time.Duration
	retryDelay   time.Duration

	mu       sync.Mutex // guards the fields below
	state    State
	inForce  []*openPlugin // of the lineup in force
	open     map[openKey]*openPlugin
	kept     map[*openPlugin]bool     // opened by abandoned loads, for the next one
	prepared map[registry.Digest]bool // published modules that were opened, prepared or refused
	draining sync.WaitGroup
}

// State is a host's progress in following the active revision.
type State struct {
	Revision int64  // in force on this host; 0 before the first
	Refused  int64  // the active revision if this host could not load it, else 0
	Reason   string // why it was refused
}

// openKey identifies an open plugin. Lineups share plugins with the same key.
type openKey struct {
	digest registry.Digest
	shared bool // opened with [sandbox.Sandbox.OpenShared]
}

// openPlugin is a plugin and the number of lineups that use it.
type openPlugin struct {
	*sandbox.Plugin
	users int
}

// NewFollower returns a follower that swaps lineups into live.
func NewFollower(source Source, box *sandbox.Sandbox, live *check.Live, log *slog.Logger) *Follower {
	return &Follower{
		source: source, sandbox: box, live: live, log: log,
		changed: make(chan struct{}, 1), published: make(chan struct{}, 1),
		pollInterval: pollInterval, retryDelay: retryDelay,
		open: map[openKey]*openPlugin{}, kept: map[*openPlugin]bool{}, prepared: map[registry.Digest]bool{},
	}
}

// LineupChanged notifies the follower that another lineup may be active. It never blocks.
func (f *Follower) LineupChanged() { notify(f.changed) }

// PluginsPublished notifies the follower that plugins may have been published. It never blocks.
func (f *Follower) PluginsPublished() { notify(f.published) }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // The receiver has not acted on an earlier notification, and will see both changes.
	}
}

// State returns the revisions in force and refused on this host.
func (f *Follower) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Degraded lists the lineup's problems that do not keep the host from answering, a sentence each.
func (f *Follower) Degraded() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var problems []string
	if f.state.Refused != 0 {
		problems = append(problems, fmt.Sprintf(
			"lineup revision %d could not be loaded here; revision %d stays in force", f.state.Refused,
			f.state.Revision))
	}
	for _, p := range f.inForce {
		if p.Suspended() {
			problems = append(problems, fmt.Sprintf("layer %s is suspended after repeated failures", p.Manifest().Name))
		}
	}
	return problems
}

// Run follows the active revision until ctx ends. It acts on notifications at once and polls in between. Preparing
// published plugins does not delay it.
func (f *Follower) Run(ctx context.Context) {
	var preparing sync.WaitGroup
	preparing.Go(func() { f.preparePublished(ctx) })
	defer preparing.Wait()
	tick := time.NewTicker(f.pollInterval)
	defer tick.Stop()
	var failed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		case <-tick.C:
			if time.Since(failed) < f.retryDelay && f.stillRefused(ctx) {
				continue
			}
		}
		if err := f.Follow(ctx); err != nil && ctx.Err() == nil {
			failed = time.Now()
			f.log.Error("following the lineup failed; the previous revision stays in force", "error", err)
		}
	}
}

// stillRefused reports whether the active revision is the one that could not be loaded.
func (f *Follower) stillRefused(ctx context.Context) bool {
	refused := f.State().Refused
	if refused == 0 {
		return false
	}
	active, err := f.source.ActiveRevision(ctx)
	return err == nil && active == refused
}

// Follow loads the active revision and swaps it in, unless it is already in force. If another revision becomes active
// meanwhile, Follow abandons the load, so that a rollback does not wait for a lineup that takes long to compile.
func (f *Follower) Follow(ctx context.Context) error {
	for {
		active, err := f.source.ActiveRevision(ctx)
		if err != nil {
			return err
		}
		if active == 0 || f.isInForce(active) {
			return nil
		}
		if err := f.follow(ctx, active); !errors.Is(err, errSuperseded) {
			return err
		}
	}
}

// errSuperseded means that another revision became active while one was being loaded.
var errSuperseded = errors.New("another revision is active")

func (f *Follower) follow(ctx context.Context, active int64) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	ctx, abandon := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { f.watch(ctx, active, func() { abandon(errSuperseded) }) })
	began := time.Now()
	revision, err := f.source.LineupRevision(ctx, active)
	if err == nil {
		err = f.load(ctx, revision)
		returnMemory()
	}
	abandon(nil)
	watching.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.state = State{Revision: active}
		f.log.Info("lineup in force", "revision", active, "layers", len(revision.Lineup.Layers), "ms",
			time.Since(began).Milliseconds())
		return nil
	case errors.Is(context.Cause(ctx), errSuperseded):
		f.log.Info("loading a lineup was abandoned, because another one is active", "revision", active)
		return errSuperseded
	}
	f.state.Refused, f.state.Reason = active, err.Error()
	return fmt.Errorf("loading lineup revision %d: %w", active, err)
}

// watch calls abandon if a revision other than active becomes active before ctx ends.
func (f *Follower) watch(ctx context.Context, active int64, abandon func()) {
	tick := time.NewTicker(f.pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
			defer notify(f.changed) // Run must see the change too, if the load ends first
		case <-tick.C:
		}
		if now, err := f.source.ActiveRevision(ctx); err == nil && now != active {
			abandon()
			return
		}
	}
}

// isInForce reports whether revision active is already in force here. If so, it clears an earlier refusal: the operator
// has rolled back.
func (f *Follower) isInForce(active int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Revision != active {
		return false
	}
	f.state = State{Revision: active}
	return true
}

func (f *Follower) load(ctx context.Context, revision registry.LineupRevision) error {
	l := revision.Lineup
	plugins, err := f.acquire(ctx, l)
	if err != nil {
		return err
	}
	members := make([]check.Member, len(plugins))
	for i, p := range plugins {
		members[i] = NewMember(l.Layers[i], p.Plugin)
	}
	bands := check.Bands{Review: l.Bands.Review, Block: l.Bands.Block}
	f.swap(check.NewLineup(revision.Revision, ByType(l.Bias), bands, members), plugins)
	f.dropKept()
	return nil
}

// NewMember returns a layer of a lineup with its open plugin.
func NewMember(layer registry.LineupLayer, p *sandbox.Plugin) check.Member {
	m := p.Manifest()
	_, version, _ := layer.Ref()
	lowest, highest := layer.Range(m)
	types := make([]entity.Type, len(m.Entities))
	for i, e := range m.Entities {
		types[i] = entity.Type(e)
	}
	return check.Member{
		Name: m.Name, Version: version, Weight: ByType(layer.Weight), Range: check.Range{lowest, highest},
		Required: layer.Required, Entities: types, Facts: m.Facts, Config: layer.Config, Layer: p,
	}
}

// ByType returns a lineup's numbers as the core reads them.
func ByType(numbers registry.ByType) check.ByType {
	b := check.ByType{}
	for _, t := range entity.Types() {
		b[t] = numbers.For(string(t))
	}
	return b
}

// swap puts next in force. It releases the previous lineup's plugins once the last check that uses it has finished.
func (f *Follower) swap(next *check.Lineup, plugins []*openPlugin) {
	f.mu.Lock()
	previous := f.inForce
	f.inForce = plugins
	f.mu.Unlock()
	drained := f.live.Swap(next)
	if drained == nil {
		return
	}
	f.draining.Go(func() {
		<-drained
		f.release(previous)
		returnMemory()
	})
}

// Trim returns memory to the operating system that the last checks did not need.
func (f *Follower) Trim(context.Context) error {
	f.mu.Lock() // no plugin is closed meanwhile
	var errs []error
	for _, p := range f.inForce {
		errs = append(errs, p.Trim())
	}
	f.mu.Unlock()
	returnMemory()
	return errors.Join(errs...)
}

// returnMemory returns what loading or closing plugins has left to the operating system. The first collection runs the
// finalizers that unmap native code.
func returnMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// acquire opens the lineup's plugins, reusing those that are already open.
func (f *Follower) acquire(ctx context.Context, l registry.LineupDocument) ([]*openPlugin, error) {
	plugins := make([]*openPlugin, len(l.Layers))
	errs := make([]error, len(l.Layers))
	var wg sync.WaitGroup
	// Opening a plugin takes a processor and, for a moment, several times the memory of its module.
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, layer := range l.Layers {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			plugins[i], errs[i] = f.openLayer(ctx, layer)
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	switch {
	case err == nil:
		return plugins, nil
	case errors.Is(context.Cause(ctx), errSuperseded):
		f.keep(plugins)
	default:
		f.release(plugins)
	}
	return nil, err
}

// keep holds the plugins of an abandoned load until a lineup is in force. A host then makes progress even while lineups
// change faster than it can load one. It ignores nil plugins.
func (f *Follower) keep(plugins []*openPlugin) {
	var again []*openPlugin
	f.mu.Lock()
	for _, p := range plugins {
		if p == nil {
			continue
		}
		if f.kept[p] {
			again = append(again, p)
		}
		f.kept[p] = true
	}
	f.mu.Unlock()
	f.release(again)
}

// dropKept releases the plugins of abandoned loads.
func (f *Follower) dropKept() {
	f.mu.Lock()
	kept := slices.Collect(maps.Keys(f.kept))
	clear(f.kept)
	f.mu.Unlock()
	f.release(kept)
}

func (f *Follower) openLayer(ctx context.Context, layer registry.LineupLayer) (*openPlugin, error) {
	name, version, _ := layer.Ref()
	published, err := f.source.Plugin(ctx, name, version)
	if err != nil {
		return nil, err
	}
	key := openKey{published.Digest, layer.Shares()}
	f.mu.Lock()
	if p, ok := f.open[key]; ok {
		p.users++
		f.mu.Unlock()
		return p, nil
	}
	f.mu.Unlock()
	module, err := f.source.Module(ctx, key.digest)
	if err != nil {
		return nil, err
	}
	open := f.sandbox.Open
	if key.shared {
		open = f.sandbox.OpenShared
	}
	if err := layer.Suits(module.Manifest); err != nil {
		return nil, err
	}
	opened, err := open(ctx, module)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &openPlugin{Plugin: opened, users: 1}
	f.open[key], f.prepared[key.digest] = p, true
	return p, nil
}

// release drops one use of each plugin and closes plugins without users. It ignores nil plugins.
func (f *Follower) release(plugins []*openPlugin) {
	var unused []*openPlugin
	f.mu.Lock()
	for _, p := range plugins {
		if p == nil {
			continue
		}
		if p.users--; p.users == 0 {
			unused = append(unused, p)
			for key, open := range f.open {
				if open == p {
					delete(f.open, key)
				}
			}
		}
	}
	f.mu.Unlock()
	for _, p := range unused {
		if err := p.Close(context.Background()); err != nil {
			f.log.Warn("closing plugin failed", "error", err)
		}
	}
}

// preparePublished prepares plugins after each notification until ctx ends.
func (f *Follower) preparePublished(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.published:
			f.prepare(ctx)
		}
	}
}

// prepare compiles newly published modules, so that a lineup with them can be swapped in without delay.
func (f *Follower) prepare(ctx context.Context) {
	plugins, err := f.source.Plugins(ctx)
	if err != nil {
		f.log.Warn("preparing published plugins failed", "error", err)
		return
	}
	for _, p := range plugins {
		f.mu.Lock()
		known := f.prepared[p.Digest]
		f.prepared[p.Digest] = true
		f.mu.Unlock()
		if known || time.Since(p.PublishedAt) > loadTimeout {
			continue
		}
		module, err := f.source.Module(ctx, p.Digest)
		if err == nil {
			err = f.sandbox.Prepare(ctx, module)
		}
		if err != nil && ctx.Err() == nil {
			f.log.Warn("preparing published plugin failed", "plugin", p.Ref(), "error", err)
		}
	}
}

// Close takes the lineup out of force, waits for the checks that use it, and closes its plugins.
func (f *Follower) Close() {
	f.swap(nil, nil)
	f.dropKept()
	f.draining.Wait()
}
