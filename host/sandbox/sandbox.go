// Package sandbox runs scoring layers: WebAssembly modules that read the facts they declare and return signals
// (sdk/ABI.md). It compiles modules, pools their instances and limits each call; rewriting a module so that it burns
// fuel is the work of package meter, and restoring an instance's memory that of package linear.
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

// Config configures a Sandbox.
type Config struct {
	CacheDir  string // folder for compiled code; empty: code is kept in memory only
	CacheKey  []byte // HMAC key that authenticates the files in CacheDir
	Instances int    // maximum per plugin; 0: twice GOMAXPROCS
	Logger    *slog.Logger
}

// startTimeout bounds the initialisation of one instance.
const startTimeout = 2 * time.Second

// Sandbox opens plugins. It is safe for concurrent use.
type Sandbox struct {
	cfg   Config
	cache *compilationCache
}

// New returns a sandbox. If the cache folder is unusable, New logs a warning and caches in memory only.
func New(cfg Config) *Sandbox {
	if cfg.Instances == 0 {
		cfg.Instances = 2 * runtime.GOMAXPROCS(0)
	}
	return &Sandbox{cfg: cfg, cache: openCache(cfg.CacheDir, cfg.CacheKey, cfg.Logger)}
}

// Close releases the resources that all plugins share. Close the plugins first.
func (s *Sandbox) Close() error { return s.cache.close() }

// Open compiles a module, verifies that it implements the layer interface, and starts its first instances, so that a
// plugin that cannot run fails here instead of during a check. The error describes the module's defect.
//
// Each call sees the guest in its state after initialisation: a call cannot read what another customer's check wrote.
func (s *Sandbox) Open(ctx context.Context, m registry.Module) (*Plugin, error) {
	return s.openCached(ctx, m, false)
}

// OpenShared is Open for a plugin that is trusted not to carry data from one call to the next: its instances are not
// restored after a call.
func (s *Sandbox) OpenShared(ctx context.Context, m registry.Module) (*Plugin, error) {
	return s.openCached(ctx, m, true)
}

func (s *Sandbox) openCached(ctx context.Context, m registry.Module, shared bool) (*Plugin, error) {
	p, err := s.open(ctx, m, shared, s.cache)
	if s.cache.onDisk() && isCompileError(err) {
		// wazero reports a failure of its cache as a failure to compile, so try again without the cache.
		retried, again := s.open(ctx, m, shared, &compilationCache{inner: wazero.NewCompilationCache()})
		if again == nil {
			s.cfg.Logger.Warn("compilation cache cannot be used", "plugin", m.Ref(), "error", err)
			return retried, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening plugin %s: %w", m.Ref(), err)
	}
	return p, nil
}

const (
	pageBytes  = 64 << 10 // a WebAssembly page (WebAssembly 2.0, section 4.2.8)
	pagesPerMB = 1 << 20 / pageBytes
)

// maxLocals is the maximum number of locals in a function. The compiler's time grows with the square of the number of
// locals that a loop carries.
const maxLocals = 1000

func (s *Sandbox) open(
	ctx context.Context, m registry.Module, shared bool, cache *compilationCache,
) (*Plugin, error) {
	limits := meter.DefaultLimits()
	limits.MemoryPages = uint32(m.Manifest.MemoryMB * pagesPerMB)
	limits.Locals, limits.LocalsTotal = maxLocals, 100*maxLocals
	metered, err := meter.Instrument(m.Wasm, limits)
	if err != nil {
		return nil, err
	}
	if err := vet(metered); err != nil {
		return nil, err
	}
	engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCompilationCache(cache.inner).
		WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(limits.MemoryPages).
		WithDebugInfoEnabled(false))
	p := newPlugin(m, engine, s.cfg)
	if !shared {
		p.snapshots = newSnapshotter(metered)
	}
	if err := p.start(ctx, cache, metered.Wasm); err != nil {
		return nil, errors.Join(err, p.unload(ctx))
	}
	return p, nil
}

// compileError is a failure before the module's own code ran.
type compileError struct{ err error }

func (e *compileError) Error() string { return fmt.Sprintf("compiling: %v", e.err) }
func (e *compileError) Unwrap() error { return e.err }

// isCompileError reports whether the compilation cache may have caused err.
func isCompileError(err error) bool {
	var failed *compileError
	return errors.As(err, &failed)
}

// start compiles the metered module and warms the pool.
func (p *Plugin) start(ctx context.Context, cache *compilationCache, wasm []byte) error {
	if err := p.exportHost(ctx); err != nil {
		return fmt.Errorf("preparing imports: %w", err)
	}
	if err := p.exportWASI(ctx); err != nil {
		return fmt.Errorf("preparing imports: %w", err)
	}
	// The cache compiles one module at a time, so each may use all processors.
	compiled, err := cache.compile(experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0)), p.engine, wasm)
	if err != nil {
		return &compileError{err}
	}
	p.compiled = compiled
	return p.pool.warm(ctx, min(p.pool.size(), runtime.GOMAXPROCS(0)))
}
