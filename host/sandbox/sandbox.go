// Package sandbox runs scoring layers: WebAssembly modules that read the facts they declare and return signals
// (sdk/ABI.md). It compiles modules, pools their instances and limits each call; package meter rewrites a module so
// that it burns fuel, and package linear restores an instance's memory.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"assay/host/sandbox/meter"
	"assay/registry"
	"assay/registry/fault"
)

// Config configures a Sandbox.
type Config struct {
	CacheDir string // folder for compiled code; empty: nothing is kept
	CacheKey []byte // HMAC key that authenticates the files in CacheDir
	// Compiler is the command line of a program that calls [ServeCompiler]. Modules are compiled and first initialised
	// in such a process, which has limits. nil: in this process, which is right only for trusted modules.
	Compiler  []string
	Instances int // maximum per plugin; 0: GOMAXPROCS
	Logger    *slog.Logger
}

// Sandbox opens plugins. It is safe for concurrent use.
type Sandbox struct {
	cfg      Config
	cache    *codeCache
	compiler *compiler // nil: modules are compiled in this process
}

// New returns a sandbox. If the cache folder is unusable, New logs a warning and keeps no compiled code.
func New(cfg Config) *Sandbox {
	// Each call occupies a processor, so more instances would wait for one.
	cfg.Instances = cmp.Or(cfg.Instances, runtime.GOMAXPROCS(0))
	s := &Sandbox{cfg: cfg, cache: openCache(cfg.CacheDir, cfg.CacheKey, cfg.Logger)}
	if len(cfg.Compiler) > 0 {
		s.compiler = newCompiler(cfg.Compiler)
	}
	return s
}

// Open compiles a module, verifies that it implements the layer interface, and starts its first instances, so that a
// plugin that cannot run fails here instead of during a check. The error describes the module's defect.
//
// Each call sees the guest in its state after initialisation: a call cannot read what another customer's check wrote.
func (s *Sandbox) Open(ctx context.Context, m registry.Module) (*Plugin, error) {
	return s.open(ctx, m, false)
}

// OpenShared is Open for a plugin that is trusted not to carry data from one call to the next: its instances are
// restored only after a call that trapped.
func (s *Sandbox) OpenShared(ctx context.Context, m registry.Module) (*Plugin, error) {
	return s.open(ctx, m, true)
}

// Cached returns a module without its bytes if the cache has its manifest, and so probably its code. If the code is
// missing when the module is opened, Open needs the bytes and fails without them.
func (s *Sandbox) Cached(digest registry.Digest) (registry.Module, bool) {
	manifest, ok := s.cache.manifest(digest)
	return registry.Module{Manifest: manifest, Digest: digest}, ok
}

// Prepare compiles a module that may be opened later, so that opening it takes less time. It never delays Open.
func (s *Sandbox) Prepare(ctx context.Context, m registry.Module) error {
	if s.compiler == nil {
		p, err := s.Open(ctx, m)
		if err != nil {
			return err
		}
		return p.Close(ctx)
	}
	name := s.cache.name(m, limitsOf(m))
	if s.cache.folder == nil || s.cache.read(name) != nil {
		return nil
	}
	code, err := s.compiler.compileAhead(ctx, m, s.cache)
	if err != nil {
		return fmt.Errorf("preparing plugin %s: %w", m.Ref(), err)
	}
	s.cache.write(name, m, code)
	return nil
}

func (s *Sandbox) open(ctx context.Context, m registry.Module, shared bool) (p *Plugin, err error) {
	defer fault.WrapAll(&err, "opening plugin %s", m.Ref())
	name := s.cache.name(m, limitsOf(m))
	code, err := s.compile(ctx, m, name)
	if err != nil {
		return nil, err
	}
	var staged *staging
	if s.cache.folder != nil || code != nil {
		if staged, err = s.cache.stage(code); err != nil {
			s.cache.warn(m.Ref(), err)
		} else {
			defer func() {
				if err := staged.remove(); err != nil {
					s.cache.warn(m.Ref(), err)
				}
			}()
		}
	}
	p, compiled, err := s.startIn(ctx, m, nil, shared, staged)
	if err == nil && code == nil {
		s.cache.write(name, m, compiled)
	}
	if err == nil && m.Wasm != nil {
		s.cache.keepManifest(m)
	}
	return p, err
}

// compile returns a module's code from the cache or a compiler, or nil if neither has it.
func (s *Sandbox) compile(ctx context.Context, m registry.Module, name string) (*nativeCode, error) {
	if code := s.cache.read(name); code != nil && vet(code.module) == nil {
		return code, nil
	}
	if s.compiler == nil || m.Wasm == nil {
		return nil, nil
	}
	code, err := s.compiler.compileForOpen(ctx, m, s.cache)
	switch {
	case err != nil:
		return nil, err
	case code == nil:
		s.cache.warn(m.Ref(), errors.New("the compiler could not write the code"))
	default:
		s.cache.write(name, m, code)
	}
	return code, nil
}

const (
	pageBytes  = 64 << 10 // a WebAssembly page (WebAssembly 2.0, section 4.2.8)
	pagesPerMB = 1 << 20 / pageBytes
)

// maxLocals is the maximum number of locals in a function. The compiler's time grows with the square of the number of
// locals that a loop carries.
const maxLocals = 1000

// limitsOf returns the limits of a module's code and data.
func limitsOf(m registry.Module) meter.Limits {
	limits := meter.DefaultLimits()
	limits.MemoryPages = uint32(m.Manifest.MemoryMB * pagesPerMB)
	limits.Locals, limits.LocalsTotal = maxLocals, 100*maxLocals
	return limits
}

// instrument meters a module and verifies that it implements the layer interface.
func instrument(m registry.Module) (*meter.Module, error) {
	metered, err := meter.Instrument(m.Wasm, limitsOf(m))
	if err != nil {
		return nil, err
	}
	return metered, vet(metered)
}

func engineConfig(memoryPages uint32) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).WithMemoryLimitPages(memoryPages).
		WithDebugInfoEnabled(false)
}

// cachedEngine is an engine with a compilation cache of its own.
type cachedEngine struct {
	wazero.Runtime
	cache wazero.CompilationCache
}

// Close implements wazero.Runtime.
func (e *cachedEngine) Close(ctx context.Context) error {
	return errors.Join(e.Runtime.Close(ctx), e.cache.Close(ctx))
}

// newEngine returns an engine that loads code from a staging folder, or leaves it there. staged may be nil.
func newEngine(ctx context.Context, config wazero.RuntimeConfig, staged *staging) (wazero.Runtime, error) {
	if staged == nil {
		return wazero.NewRuntimeWithConfig(ctx, config), nil
	}
	cache, err := wazero.NewCompilationCacheWithDir(staged.dir)
	if err != nil {
		return nil, err
	}
	return &cachedEngine{wazero.NewRuntimeWithConfig(ctx, config.WithCompilationCache(cache)), cache}, nil
}

// startIn loads a module and starts its first instances. It returns the module's code too, unless staged is nil or
// unusable. metered may be nil.
func (s *Sandbox) startIn(ctx context.Context, m registry.Module, metered *meter.Module, shared bool, staged *staging) (
	*Plugin, *nativeCode, error) {
	p, code, err := s.start(ctx, m, metered, shared, staged)
	if staged != nil && isCompileError(err) {
		// wazero reports a failure of its cache as a failure to compile, so try again without the cache.
		retried, _, again := s.start(ctx, m, metered, shared, nil)
		if again == nil {
			s.cache.warn(m.Ref(), err)
			return retried, nil, nil
		}
	}
	return p, code, err
}

func (s *Sandbox) start(ctx context.Context, m registry.Module, metered *meter.Module, shared bool, staged *staging) (
	*Plugin, *nativeCode, error) {
	var err error
	switch {
	case staged != nil && staged.code != nil:
		metered = staged.code.module
	case metered == nil:
		if metered, err = instrument(m); err != nil {
			return nil, nil, err
		}
	}
	engine, err := newEngine(ctx, engineConfig(limitsOf(m).MemoryPages), staged)
	if err != nil {
		return nil, nil, &compileError{err}
	}
	p := newPlugin(m, engine, s.cfg)
	p.memories, p.shared = newSnapshotter(metered), shared
	code, err := p.load(ctx, metered, staged)
	if err == nil {
		err = p.pool.warm(ctx, 1) // the pool grows when calls need more
	}
	if err == nil && p.mapped {
		err = forgetCode(p.compiled)
	}
	if err != nil {
		return nil, nil, errors.Join(err, p.unload(ctx))
	}
	return p, code, nil
}

// compileError is a failure before the module's own code ran.
type compileError struct{ err error }

func (e *compileError) Error() string { return fmt.Sprintf("compiling: %v", e.err) }
func (e *compileError) Unwrap() error { return e.err }

// isCompileError reports whether the compilation cache may have caused err.
func isCompileError(err error) bool { return errors.As(err, new(*compileError)) }

// load compiles a metered module, or loads the staged code of its skeleton. It returns the code, unless staged is nil.
func (p *Plugin) load(ctx context.Context, metered *meter.Module, staged *staging) (*nativeCode, error) {
	if err := p.exportHost(ctx); err != nil {
		return nil, fmt.Errorf("preparing imports: %w", err)
	}
	var err error
	p.compiled, err = p.engine.CompileModule(experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0)),
		metered.Wasm)
	if err != nil {
		return nil, &compileError{err}
	}
	if staged == nil {
		return nil, nil
	}
	code, err := staged.loaded(p.compiled, metered)
	if err != nil {
		return nil, &compileError{err}
	}
	if staged.keep && len(code.content) >= minMappedCode {
		if err := mapCode(p.compiled, staged.dir); err != nil {
			p.log.Warn("a layer's code stays in memory", "plugin", p.module.Ref(), "error", err)
			return code, nil
		}
		p.mapped = true
	}
	return code, nil
}

// Trim releases memory that the plugin's recent calls did not need: instances, and code that is mapped from a file.
func (p *Plugin) Trim() error {
	p.pool.trim()
	if !p.mapped {
		return nil
	}
	return forgetCode(p.compiled)
}
