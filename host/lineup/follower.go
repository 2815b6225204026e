// Package lineup brings lineups into force: it installs the layers that the host was built with, loads the revision
// that the database says is active, and swaps it in while checks run.
package lineup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
)

// How long changes take to be seen, and failures to be tried again.
const (
	pollEvery  = time.Second
	retryAfter = 15 * time.Second
	loadWithin = 5 * time.Minute
)

// Follower keeps one host on the active revision. A revision is loaded whole (every module vetted, compiled and warmed)
// before it replaces the one in force; one that cannot be loaded leaves the old one where it is.
type Follower struct {
	store   *store.Store
	sandbox *sandbox.Sandbox
	live    *check.Live
	log     *slog.Logger
	hints   chan store.Topic
	poll    time.Duration // between two looks at the database without a hint
	retry   time.Duration // before a revision that was refused is tried again

	mu       sync.Mutex // guards what follows
	state    State
	inForce  []*openPlugin // of the lineup in force
	open     map[openKey]*openPlugin
	prepared map[registry.Digest]bool // published modules whose code is in the compile cache
	draining sync.WaitGroup
}

// State is how far a host has followed.
type State struct {
	Revision int64  // in force on this host; 0 before the first
	Refused  int64  // the active revision, when it could not be loaded here
	Reason   string // why not
}

// openKey is what lineups can share a plugin by.
type openKey struct {
	digest registry.Digest
	shared bool // its instances are not put back after a call
}

// openPlugin is a plugin and the number of lineups that use it.
type openPlugin struct {
	*sandbox.Plugin
	users int
}

// NewFollower returns a follower that swaps lineups into live.
func NewFollower(s *store.Store, box *sandbox.Sandbox, live *check.Live, log *slog.Logger) *Follower {
	return &Follower{
		store: s, sandbox: box, live: live, log: log, hints: make(chan store.Topic, 16), poll: pollEvery,
		retry: retryAfter,
		open:  map[openKey]*openPlugin{}, prepared: map[registry.Digest]bool{},
	}
}

// Hint tells the follower that something may have changed. It never blocks.
func (f *Follower) Hint(topic store.Topic) {
	select {
	case f.hints <- topic:
	default: // many are waiting already
	}
}

// State returns how far this host has followed.
func (f *Follower) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Degraded says what is amiss with the lineup while the host goes on answering, a sentence each.
func (f *Follower) Degraded() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var amiss []string
	if f.state.Refused != 0 {
		amiss = append(amiss, fmt.Sprintf("lineup revision %d could not be loaded here; revision %d stays in force",
			f.state.Refused, f.state.Revision))
	}
	for _, p := range f.inForce {
		if p.Suspended() {
			amiss = append(amiss, fmt.Sprintf("layer %s rests after failing again and again", p.Manifest().Name))
		}
	}
	return amiss
}

// Run follows until ctx ends: at once when hinted, else by polling.
func (f *Follower) Run(ctx context.Context) {
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	var failed time.Time
	for {
		topic := store.TopicLineup
		select {
		case <-ctx.Done():
			return
		case topic = <-f.hints:
		case <-tick.C:
			if time.Since(failed) < f.retry && f.stillRefused(ctx) {
				continue
			}
		}
		switch topic {
		case store.TopicLineup:
			if err := f.Follow(ctx); err != nil && ctx.Err() == nil {
				failed = time.Now()
				f.log.Error("lineup cannot be followed; the one in force stays", "error", err)
			}
		case store.TopicPlugins:
			f.prepare(ctx)
		}
	}
}

// stillRefused says whether the active revision is the one that could not be loaded.
func (f *Follower) stillRefused(ctx context.Context) bool {
	refused := f.State().Refused
	if refused == 0 {
		return false
	}
	active, err := f.store.ActiveRevision(ctx)
	return err == nil && active == refused
}

// Follow loads the active revision and swaps it in, if it is not in force already.
func (f *Follower) Follow(ctx context.Context) error {
	active, err := f.store.ActiveRevision(ctx)
	if err != nil {
		return err
	}
	if active == 0 || f.follows(active) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	began := time.Now()
	revision, err := f.store.LineupRevision(ctx, active)
	if err == nil {
		err = f.load(ctx, revision)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.state.Refused, f.state.Reason = active, err.Error()
		return fmt.Errorf("loading lineup revision %d: %w", active, err)
	}
	f.state = State{Revision: active}
	f.log.Info("lineup in force", "revision", active, "layers", len(revision.Lineup.Layers), "ms",
		time.Since(began).Milliseconds())
	return nil
}

// follows says whether the active revision is in force already. If so, one that was refused before is no longer asked
// for.
func (f *Follower) follows(active int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Revision != active {
		return false
	}
	f.state = State{Revision: active}
	return true
}

func (f *Follower) load(ctx context.Context, revision store.Revision) error {
	plugins, err := f.acquire(ctx, revision.Lineup)
	if err != nil {
		return err
	}
	members := make([]check.Member, len(plugins))
	for i, p := range plugins {
		members[i] = member(revision.Lineup.Layers[i], p)
	}
	l := revision.Lineup
	next := check.NewLineup(revision.Revision, l.Bias, check.Bands{Review: l.Bands.Review, Block: l.Bands.Block},
		members)
	f.swap(next, plugins)
	return nil
}

func member(item registry.LineupLayer, p *openPlugin) check.Member {
	m := p.Manifest()
	_, version, _ := item.Ref()
	types := make([]entity.Type, len(m.Entities))
	for i, e := range m.Entities {
		types[i] = entity.Type(e)
	}
	return check.Member{
		Name: m.Name, Version: version, Weight: item.Weight, Required: item.Required,
		Entities: types, Facts: m.Facts, Config: item.Config, Layer: p.Plugin,
	}
}

// swap puts next in force and lets go of the previous lineup's plugins when the last check has left it.
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
	})
}

// acquire opens the lineup's plugins, or takes those that are open.
func (f *Follower) acquire(ctx context.Context, l registry.LineupDocument) ([]*openPlugin, error) {
	plugins := make([]*openPlugin, len(l.Layers))
	errs := make([]error, len(l.Layers))
	var wg sync.WaitGroup
	for i, item := range l.Layers {
		wg.Go(func() { plugins[i], errs[i] = f.openLayer(ctx, item) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		f.release(plugins)
		return nil, err
	}
	return plugins, nil
}

func (f *Follower) openLayer(ctx context.Context, item registry.LineupLayer) (*openPlugin, error) {
	name, version, _ := item.Ref()
	published, err := f.store.Plugin(ctx, name, version)
	if err != nil {
		return nil, err
	}
	digest := registry.Digest(published.Digest)
	key := openKey{digest, item.Shares(published.FirstParty)}
	f.mu.Lock()
	if p, ok := f.open[key]; ok {
		p.users++
		f.mu.Unlock()
		return p, nil
	}
	f.mu.Unlock()
	module, err := f.store.Module(ctx, digest)
	if err != nil {
		return nil, err
	}
	open := f.sandbox.Open
	if key.shared {
		open = f.sandbox.OpenShared
	}
	opened, err := open(ctx, module)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &openPlugin{Plugin: opened, users: 1}
	f.open[key], f.prepared[digest] = p, true
	return p, nil
}

// release lets go of plugins and closes those that nobody uses any more.
func (f *Follower) release(plugins []*openPlugin) {
	var idle []*openPlugin
	f.mu.Lock()
	for _, p := range plugins {
		if p == nil {
			continue
		}
		if p.users--; p.users == 0 {
			idle = append(idle, p)
			for key, open := range f.open {
				if open == p {
					delete(f.open, key)
				}
			}
		}
	}
	f.mu.Unlock()
	for _, p := range idle {
		if err := p.Close(context.Background()); err != nil {
			f.log.Warn("plugin cannot be closed", "error", err)
		}
	}
}

// prepare compiles modules as they are published, so that a lineup which names them can be swapped in at once.
func (f *Follower) prepare(ctx context.Context) {
	plugins, err := f.store.Plugins(ctx)
	if err != nil {
		f.log.Warn("published plugins cannot be prepared", "error", err)
		return
	}
	for _, p := range plugins {
		digest := registry.Digest(p.Digest)
		f.mu.Lock()
		known := f.prepared[digest]
		f.prepared[digest] = true
		f.mu.Unlock()
		if known || time.Since(p.PublishedAt) > loadWithin {
			continue
		}
		if err := f.tryModule(ctx, digest); err != nil {
			f.log.Warn("published plugin cannot be prepared", "plugin", p.Name+"@"+p.Version, "error", err)
		}
	}
}

func (f *Follower) tryModule(ctx context.Context, digest registry.Digest) error {
	module, err := f.store.Module(ctx, digest)
	if err != nil {
		return err
	}
	p, err := f.sandbox.Open(ctx, module)
	if err != nil {
		return err
	}
	return p.Close(ctx)
}

// Close takes the lineup out of force and closes its plugins once no check uses them.
func (f *Follower) Close() {
	f.swap(nil, nil)
	f.draining.Wait()
}
