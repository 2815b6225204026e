// Package sandbox runs scoring layers: WebAssembly modules that see nothing but the facts they declared and can do
// nothing but answer (sdk/ABI.md). Each plugin has a runtime of its own, with its own memory limit, and a pool of
// instances.
//
// No module reaches the engine as it came: package meter vets it, and rewrites it so that whatever it executes burns
// fuel. When a slice of fuel is used up the host is asked for the next, and it looks at the clock: so a call ends at
// its deadline, whatever the guest does, at a small part of what the engine's own interruption costs.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"assay/host/sandbox/meter"
	"assay/registry"
)

// Config says how a sandbox works.
type Config struct {
	CacheDir  string // where compiled code is kept; "" keeps it in memory only
	CacheKey  []byte // authenticates what is kept there
	Instances int    // of one plugin at most; 0: twice the processors
	Logger    *slog.Logger
}

// startTimeout bounds a module's initialisation, once an instance.
const startTimeout = 2 * time.Second

// Sandbox opens plugins. It is safe for concurrent use.
type Sandbox struct {
	cfg   Config
	cache *compileCache
}

// New returns a sandbox. A cache folder that cannot be used is logged and done without.
func New(cfg Config) *Sandbox {
	if cfg.Instances == 0 {
		cfg.Instances = 2 * runtime.GOMAXPROCS(0)
	}
	return &Sandbox{cfg: cfg, cache: openCache(cfg.CacheDir, cfg.CacheKey, cfg.Logger)}
}

// Close releases what all plugins share. They must be closed before.
func (s *Sandbox) Close() error { return s.cache.close() }

// Open compiles a module, checks that it keeps to the interface, and starts its first instances, so that a plugin that
// cannot run is refused here and not in a check. The error names what is wrong with the module.
//
// Every call finds the guest as it was after its initialisation: nothing that one customer's check wrote can be read in
// the next.
func (s *Sandbox) Open(ctx context.Context, m registry.Module) (*Plugin, error) {
	return s.openAs(ctx, m, false)
}

// OpenShared is Open for a plugin that is trusted to carry nothing from one call to the next: its instances are not put
// back.
func (s *Sandbox) OpenShared(ctx context.Context, m registry.Module) (*Plugin, error) {
	return s.openAs(ctx, m, true)
}

func (s *Sandbox) openAs(ctx context.Context, m registry.Module, shared bool) (*Plugin, error) {
	p, err := s.open(ctx, m, shared, s.cache)
	if s.cache.onDisk() && cacheAtFault(err) {
		// wazero reports trouble with its cache as trouble with the module: see whether it compiles without.
		retried, again := s.open(ctx, m, shared, &compileCache{inner: wazero.NewCompilationCache()})
		if again == nil {
			s.cfg.Logger.Warn("compile cache cannot be used", "plugin", m.Ref(), "error", err)
			return retried, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening plugin %s: %w", m.Ref(), err)
	}
	return p, nil
}

const pagesPerMB = 16 // a WebAssembly page has 64 KiB

// mostLocals is how many locals a function may have; layers built by Go have 17 at most, and 6,000 in all functions.
// The engine's compiler takes time by their square: 16,000 that a loop carries take it 12 seconds, 1,000 take 40 ms.
const mostLocals = 1000

func (s *Sandbox) open(ctx context.Context, m registry.Module, shared bool, cache *compileCache) (*Plugin, error) {
	limits := meter.DefaultLimits()
	limits.MemoryPages = uint32(m.Manifest.MemoryMB * pagesPerMB)
	limits.Locals, limits.LocalsTotal = mostLocals, 100*mostLocals
	metered, err := meter.Instrument(m.Wasm, limits)
	if err != nil {
		return nil, err
	}
	if err := vet(&metered.Summary); err != nil {
		return nil, err
	}
	engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCompilationCache(cache.inner).
		WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(limits.MemoryPages).
		WithDebugInfoEnabled(false))
	p := newPlugin(m, engine, s.cfg)
	if !shared {
		p.pristine = newPristine(metered)
	}
	if err := p.start(ctx, cache, metered.Wasm); err != nil {
		return nil, errors.Join(err, p.unload(ctx))
	}
	return p, nil
}

// cacheAtFault says whether the cache may be why a module could not be opened: not, once it has run.
func cacheAtFault(err error) bool {
	var failed *compileError
	return errors.As(err, &failed)
}

// compileError tells what went wrong before a module ran.
type compileError struct{ err error }

func (e *compileError) Error() string { return fmt.Sprintf("compiling: %v", e.err) }
func (e *compileError) Unwrap() error { return e.err }

// start compiles the metered module and warms the pool.
func (p *Plugin) start(ctx context.Context, cache *compileCache, wasm []byte) error {
	if err := p.exportHost(ctx); err != nil {
		return fmt.Errorf("preparing imports: %w", err)
	}
	if err := p.exportWASI(ctx); err != nil {
		return fmt.Errorf("preparing imports: %w", err)
	}
	// One module after the other goes through the cache, each on all processors.
	compiled, err := cache.compile(experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0)), p.engine, wasm)
	if err != nil {
		return &compileError{err}
	}
	p.compiled = compiled
	return p.pool.warm(ctx, min(p.pool.size(), runtime.GOMAXPROCS(0)))
}
