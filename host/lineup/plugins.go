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
	"sync/atomic"
	"time"

	"assay/host/sandbox"
	"assay/registry"
)

// openPlugins are the plugins that a process has open. Lineups share them.
type openPlugins struct {
	source  Source
	sandbox *sandbox.Sandbox
	log     *slog.Logger
	opened  atomic.Bool // a plugin was opened, which needs more memory than the open plugin

	mu       sync.Mutex // guards the fields below, and the users of each plugin
	byKey    map[openKey]*openPlugin
	kept     map[*openPlugin]bool     // opened by abandoned loads, for the next one
	prepared map[registry.Digest]bool // published modules that were opened, prepared or refused
}

// openKey identifies an open plugin.
type openKey struct {
	digest registry.Digest
	shared bool  // opened with [sandbox.Sandbox.OpenShared]
	fuel   int64 // the budget that the lineup gives the layer; 0: its manifest's
}

// openPlugin is a plugin and the number of lineups that use it.
type openPlugin struct {
	*sandbox.Plugin
	users int
}

func newOpenPlugins(source Source, box *sandbox.Sandbox, log *slog.Logger) *openPlugins {
	return &openPlugins{source: source, sandbox: box, log: log, byKey: map[openKey]*openPlugin{},
		kept: map[*openPlugin]bool{}, prepared: map[registry.Digest]bool{}}
}

// trim returns memory to the operating system if plugins were opened since the last call.
func (o *openPlugins) trim() {
	if o.opened.Swap(false) {
		returnMemory()
	}
}

// returnMemory returns memory freed by opening or closing plugins to the operating system. The first collection runs
// the finalizers that unmap native code.
func returnMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// distinct returns plugins without repetitions: a canary shares most of them with the lineup.
func distinct(plugins []*openPlugin) []*openPlugin {
	var all []*openPlugin
	for _, p := range plugins {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// acquire opens the lineup's plugins, reusing those that are already open.
func (o *openPlugins) acquire(ctx context.Context, l registry.LineupDocument) ([]*openPlugin, error) {
	plugins := make([]*openPlugin, len(l.Layers))
	errs := make([]error, len(l.Layers))
	var wg sync.WaitGroup
	// Opening a plugin takes a processor and, for a moment, several times the memory of its module.
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, layer := range l.Layers {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			plugins[i], errs[i] = o.openLayer(ctx, layer)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		o.keepOrRelease(ctx, plugins)
		return nil, err
	}
	return plugins, nil
}

// keepOrRelease ends the use of plugins by a load that has failed or was abandoned.
func (o *openPlugins) keepOrRelease(ctx context.Context, plugins []*openPlugin) {
	if errors.Is(context.Cause(ctx), errSuperseded) {
		o.keep(plugins)
	} else {
		o.release(plugins)
	}
}

// keep holds the plugins of an abandoned load until a lineup is in force. A host then makes progress even while lineups
// change faster than it can load one. It ignores nil plugins.
func (o *openPlugins) keep(plugins []*openPlugin) {
	var again []*openPlugin
	o.mu.Lock()
	for _, p := range plugins {
		if p == nil {
			continue
		}
		if o.kept[p] {
			again = append(again, p)
		}
		o.kept[p] = true
	}
	o.mu.Unlock()
	o.release(again)
}

// dropKept releases the plugins of abandoned loads.
func (o *openPlugins) dropKept() {
	o.mu.Lock()
	kept := slices.Collect(maps.Keys(o.kept))
	clear(o.kept)
	o.mu.Unlock()
	o.release(kept)
}

func (o *openPlugins) openLayer(ctx context.Context, layer registry.LineupLayer) (*openPlugin, error) {
	p, err := o.openModule(ctx, layer)
	if err == nil {
		if err = fits(layer, p.Manifest()); err != nil {
			o.release([]*openPlugin{p})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", layer.Layer, err)
	}
	return p, nil
}

// fits reports an error unless a module with manifest m is the one that a layer of a lineup names.
func fits(layer registry.LineupLayer, m registry.Manifest) error {
	name, version, _ := layer.Ref()
	if !m.Is(name, version) {
		return fmt.Errorf("its module is %s@%s", m.Name, m.Version)
	}
	return layer.Suits(m)
}

// openModule opens a layer's module, or adds a use of the open one.
func (o *openPlugins) openModule(ctx context.Context, layer registry.LineupLayer) (*openPlugin, error) {
	digest, ok := layer.ModuleDigest()
	if !ok {
		return nil, errors.New("it has no digest")
	}
	key := openKey{digest, layer.Shares(), layer.Fuel}
	o.mu.Lock()
	if p, ok := o.byKey[key]; ok {
		p.users++
		o.mu.Unlock()
		return p, nil
	}
	o.mu.Unlock()
	opened, err := o.open(ctx, layer, digest)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened.Store(true)
	p := &openPlugin{Plugin: opened, users: 1}
	o.byKey[key], o.prepared[digest] = p, true
	return p, nil
}

// open opens a layer's module, which it reads from the source only if the sandbox has not kept its code.
func (o *openPlugins) open(ctx context.Context, layer registry.LineupLayer, digest registry.Digest) (
	*sandbox.Plugin, error) {
	if m, ok := o.sandbox.Cached(digest); ok {
		if p, err := start(ctx, o.sandbox, layer, m); err == nil {
			return p, nil
		}
	}
	m, err := o.module(ctx, digest)
	if err != nil {
		return nil, err
	}
	return start(ctx, o.sandbox, layer, m)
}

// start opens a layer's module with the lineup's settings, unless its manifest is that of another module.
func start(ctx context.Context, box *sandbox.Sandbox, layer registry.LineupLayer, m registry.Module) (
	*sandbox.Plugin, error) {
	if err := fits(layer, m.Manifest); err != nil {
		return nil, err
	}
	if layer.Fuel != 0 {
		m.Manifest.BudgetFuel = min(layer.Fuel, m.Manifest.BudgetFuel)
	}
	if layer.Shares() {
		return box.OpenShared(ctx, m)
	}
	return box.Open(ctx, m)
}

func (o *openPlugins) module(ctx context.Context, digest registry.Digest) (registry.Module, error) {
	ctx, cancel := context.WithTimeout(ctx, moduleTimeout)
	defer cancel()
	return o.source.Module(ctx, digest)
}

// release drops one use of each plugin and closes plugins without users. It ignores nil plugins.
func (o *openPlugins) release(plugins []*openPlugin) {
	var unused []*openPlugin
	o.mu.Lock()
	for _, p := range plugins {
		if p == nil {
			continue
		}
		if p.users--; p.users == 0 {
			unused = append(unused, p)
			for key, open := range o.byKey {
				if open == p {
					delete(o.byKey, key)
				}
			}
		}
	}
	o.mu.Unlock()
	for _, p := range unused {
		if err := p.Close(context.Background()); err != nil {
			o.log.Warn("closing plugin failed", "error", err)
		}
	}
	if unused != nil {
		returnMemory()
	}
}

// prepare compiles newly published modules, so that a lineup with them can be swapped in without delay.
func (o *openPlugins) prepare(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, moduleTimeout) // it lists all manifests
	plugins, err := o.source.Plugins(bounded)
	cancel()
	if err != nil {
		o.log.Warn("preparing published plugins failed", "error", err)
		return
	}
	for _, p := range plugins {
		o.mu.Lock()
		known := o.prepared[p.Digest]
		o.prepared[p.Digest] = true
		o.mu.Unlock()
		if known || time.Since(p.PublishedAt) > loadTimeout {
			continue
		}
		module, err := o.module(ctx, p.Digest)
		if err == nil {
			err = o.sandbox.Prepare(ctx, module)
		}
		if err != nil && ctx.Err() == nil {
			o.log.Warn("preparing published plugin failed", "plugin", p.Ref(), "error", err)
		}
	}
}
