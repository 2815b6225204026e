package sandbox

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	"assay/host/sandbox/meter"
	"assay/registry"
	"assay/registry/expect"
)

// logged returns a logger and what it logs. Read the text when no goroutine logs any longer.
func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

var cacheKey = bytes.Repeat([]byte{7}, 32)

// sevenPoints returns a plugin that scores 7.
func sevenPoints(t *testing.T) registry.Module {
	t.Helper()
	return pack(t, signalling(7, codeOne, "Because").encode(), manifest())
}

// run opens a module in a new sandbox with its cache in dir, expects a score of 7, and returns the log.
func run(t *testing.T, dir string, m registry.Module) string {
	t.Helper()
	log, text := logged()
	p := open(t, New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: log}), m)
	wantScore(t, p, 7)
	closePlugin(t, p)
	return text.String()
}

func wantScore(t *testing.T, p *Plugin, score int) {
	t.Helper()
	result, err := p.Score(t.Context(), facts("x", ""))
	expect.That(t, err == nil && result.Score == score, "%+v, %v, want a score of %d", result, err, score)
}

// compiled returns the only file with code in a folder.
func compiled(t *testing.T, dir string) string {
	t.Helper()
	files := expect.Value(filepath.Glob(filepath.Join(dir, "*[0-9a-f].sealed")))(t)
	expect.Must(t, len(files) == 1, "files %v", files)
	return files[0]
}

// codeOf compiles a module as the sandbox does, and returns its code.
func codeOf(t *testing.T, m registry.Module) *nativeCode {
	t.Helper()
	s := sandboxOf(t, 1)
	p, code, err := s.startIn(t.Context(), m, expect.Value(instrument(m))(t), false, &staging{dir: t.TempDir()})
	expect.NoError(t, err)
	closePlugin(t, p)
	return code
}

// forgedCode returns code that scores 99, as a file of wazero's cache for the module of sevenPoints.
func forgedCode(t *testing.T) *nativeCode {
	t.Helper()
	code := codeOf(t, sevenPoints(t))
	forged := codeOf(t, pack(t, signalling(99, codeOne, "Because").encode(), manifest()))
	expect.Must(t, !bytes.Equal(code.content, forged.content), "two modules have the same code")
	code.content = forged.content
	return code
}

// inode identifies a file that is replaced, not rewritten.
func inode(t *testing.T, path string) os.FileInfo {
	t.Helper()
	return expect.Value(os.Lstat(path))(t)
}

func cacheDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "compiled")
}

// sandboxWithCache returns a sandbox with its cache in dir.
func sandboxWithCache(t *testing.T, dir string) *Sandbox {
	t.Helper()
	return New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: discard()})
}

// A cache file that the host did not write is deleted. TestForeignFilesAreNotRead in registry/sealed has more.
func TestAlteredCacheFileIsNotRun(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, file string, content []byte) {
		t.Helper()
		expect.NoError(t, os.WriteFile(file, content, 0o600))
	}
	expect.Each(t, map[string]func(t *testing.T, file string){
		"not sealed": func(t *testing.T, file string) { write(t, file, forgedCode(t).content) },
		"sealed file of another module": func(t *testing.T, file string) {
			elsewhere, g := cacheDir(t), signalling(99, codeOne, "Because")
			closePlugin(t, open(t, sandboxWithCache(t, elsewhere), pack(t, g.encode(), manifest())))
			write(t, file, expect.Value(os.ReadFile(compiled(t, elsewhere)))(t))
		},
	}, func(t *testing.T, alter func(t *testing.T, file string)) {
		dir, m := cacheDir(t), sevenPoints(t)
		run(t, dir, m)
		alter(t, compiled(t, dir))
		expect.Equal(t, "logged", run(t, dir, m), "")
		cache := sandboxWithCache(t, dir).cache
		code := cache.read(cache.name(m, limitsOf(m)))
		expect.Must(t, code != nil && inode(t, compiled(t, dir)).Mode().IsRegular(), "the altered file still exists")
		expect.That(t, bytes.Equal(code.content, codeOf(t, m).content), "the cache has code of another module")
	})
}

// An attacker who can write the cache folder places code while the host compiles: in the folder, and in every folder
// inside it. The code is for the module that is being compiled, or for another one that is opened afterwards.
func TestForeignFileDuringCompilation(t *testing.T) {
	t.Parallel()
	dir, good, forged := cacheDir(t), sevenPoints(t), forgedCode(t)
	box := sandboxWithCache(t, dir)
	place := func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				for _, name := range []string{forged.file, filepath.Base(forged.file),
					box.cache.name(good, limitsOf(good)) + ".sealed"} {
					file := filepath.Join(path, name)
					_ = os.MkdirAll(filepath.Dir(file), 0o700)
					_ = os.WriteFile(file, forged.content, 0o600)
				}
			}
			return nil
		})
	}
	stop := make(chan struct{})
	var attacker sync.WaitGroup
	attacker.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				place()
			}
		}
	})
	for range 3 {
		g := newGuest()
		g.scoring(g.signal(5, codeTwo, "Another"), returnScored)
		wantScore(t, openIn(t, box, pack(t, g.encode(), manifest())), 5)
		wantScore(t, openIn(t, box, good), 7)
	}
	close(stop)
	attacker.Wait()
	wantScore(t, openIn(t, box, good), 7)
	run(t, dir, good) // after a restart too
}

// Code that changes after it was verified and before wazero has loaded it does not run.
func TestStagedCodeThatChangesIsNotRun(t *testing.T) {
	t.Parallel()
	m, forged := sevenPoints(t), forgedCode(t)
	metered := expect.Value(instrument(m))(t)
	expect.Each(t, map[string]func(t *testing.T, s *staging){
		"content replaced": func(t *testing.T, s *staging) {
			expect.NoError(t, os.WriteFile(filepath.Join(s.dir, s.code.file), forged.content, 0o600))
		},
		"another file": func(t *testing.T, s *staging) {
			expect.NoError(t, os.WriteFile(filepath.Join(s.dir, "more"), nil, 0o600))
		},
	}, func(t *testing.T, attack func(t *testing.T, s *staging)) {
		log, text := logged()
		box := New(Config{Instances: 1, Logger: log})
		staged := expect.Value(box.cache.stage(codeOf(t, m)))(t)
		defer func() { _ = staged.remove() }()
		attack(t, staged)
		p, code, err := box.startIn(t.Context(), m, metered, false, staged)
		expect.NoError(t, err)
		defer closePlugin(t, p)
		wantScore(t, p, 7)
		expect.That(t, code == nil && strings.Contains(text.String(), "compilation cache cannot be used"),
			"code %v, logged %q", code != nil, text)
	})
}

// Code that replaces what the compiler has left, before it is read, is not taken for the module's.
func TestForgedCodeIsNotKept(t *testing.T) {
	t.Parallel()
	m, forged := sevenPoints(t), forgedCode(t)
	box, metered := New(Config{Instances: 1, Logger: discard()}), expect.Value(instrument(m))(t)
	staged := &staging{dir: t.TempDir()}
	p, code, err := box.startIn(t.Context(), m, metered, false, staged)
	expect.NoError(t, err)
	defer closePlugin(t, p)
	expect.That(t, bytes.Equal(code.content, codeOf(t, m).content), "other code was kept")
	file := expect.Value(onlyFile(staged.dir))(t)
	expect.NoError(t, os.WriteFile(filepath.Join(staged.dir, file), forged.content, 0o600))
	expect.Error(t, "reading forged code", expect.ErrorOf(staged.loaded(p.compiled, metered)), errCodeChanged)
}

// A module whose code was kept is opened without its bytes, with the manifest that it has without a lineup.
func TestOpenWithoutModule(t *testing.T) {
	t.Parallel()
	box, m := sandboxWithCache(t, cacheDir(t)), sevenPoints(t)
	_, ok := box.Cached(m.Digest)
	expect.That(t, !ok, "the cache has a module that was never opened")
	lowered := m
	lowered.Manifest.BudgetFuel--
	wantScore(t, openIn(t, box, lowered), 7)
	kept, ok := box.Cached(m.Digest)
	expect.That(t, ok && kept.Wasm == nil && reflect.DeepEqual(kept.Manifest, m.Manifest), "%t, %+v", ok, kept)
	wantScore(t, openIn(t, box, kept), 7)
}

// Cached code does not run if its module is not a layer, for example because it imports a function that the host no
// longer has.
func TestCachedCodeIsVetted(t *testing.T) {
	t.Parallel()
	dir, m, forged := cacheDir(t), sevenPoints(t), forgedCode(t)
	box := sandboxWithCache(t, dir)
	forged.module.Imports = []meter.Import{{Module: "assay", Name: "gone"}}
	box.cache.write(box.cache.name(m, limitsOf(m)), m, forged)
	wantScore(t, openIn(t, box, m), 7)
	code := box.cache.read(box.cache.name(m, limitsOf(m)))
	expect.That(t, code != nil && !bytes.Equal(code.content, forged.content), "the cache was not repaired")
}

// The cache name depends on everything that the code depends on.
func TestCacheName(t *testing.T) {
	t.Parallel()
	cache, m := &codeCache{engine: "wazero-1/a"}, sevenPoints(t)
	name := cache.name(m, limitsOf(m))
	more := limitsOf(m)
	more.MemoryPages++
	for what, other := range map[string]string{
		"another module": cache.name(pack(t, signalling(9, codeOne, "x").encode(), manifest()), limitsOf(m)),
		"another limit":  cache.name(m, more),
		"another engine": (&codeCache{engine: "wazero-2/a"}).name(m, limitsOf(m)),
	} {
		expect.That(t, other != name, "%s has the same name", what)
	}
	engine, err := cache.identifyEngine()
	if again, _ := cache.identifyEngine(); err != nil || engine != again ||
		!strings.HasPrefix(engine, meter.Version()+" wazero-") {
		t.Errorf("engines %q and %q, %v", engine, again, err)
	}
}

// Code is compiled once. A container may have no folder for temporary files: the cache's own is used.
func TestCacheWithoutTemporaryFolder(t *testing.T) {
	dir, m := cacheDir(t), sevenPoints(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	expect.Equal(t, "logged", run(t, dir, m), "")
	before := inode(t, compiled(t, dir))
	expect.Equal(t, "logged", run(t, dir, m), "")
	expect.That(t, os.SameFile(before, inode(t, compiled(t, dir))), "the code was compiled again")
}

// Without a usable folder, from the start or once it is removed, the sandbox logs a warning and compiles in memory.
// TestUnusableFolders in registry/sealed has the others.
func TestUnusableCacheFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{filepath.Join(file, "cache"), cacheDir(t)} {
		log, text := logged()
		s := New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: log})
		_ = os.RemoveAll(dir)
		wantScore(t, openIn(t, s, sevenPoints(t)), 7)
		expect.That(t, strings.Contains(text.String(), "compilation cache cannot be used"), "%s: logged %q", dir, text)
	}
}

// A closed plugin releases its compiled code. Otherwise the host would grow with every lineup that was ever in force.
func TestClosedPluginReleasesCode(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s, m := sandboxWithCache(t, dir), sevenPoints(t)
	for _, state := range []string{"compiled", "loaded from the cache"} {
		p := open(t, s, m)
		module := weak.Make(p.engine.(*cachedEngine))
		closePlugin(t, p)
		expect.Until(t, "the code is released: "+state, func() bool { runtime.GC(); return module.Value() == nil })
	}
	entries, err := os.ReadDir(dir)
	expect.That(t, err == nil && len(entries) == 2, "files %v, %v, want the sealed ones", entries, err)
}

// Two plugins of one module are independent: closing one must not disturb calls of the other.
func TestClosingOneOfTwoPluginsWithTheSameCode(t *testing.T) {
	t.Parallel()
	box, m := sandboxOf(t, 2), hostileGuest{wasm: healthy().encode}.module()
	wantResult := func(p *Plugin) {
		result, err := scoreOf(p, testEntity)
		expect.That(t, result.Score == len(testEntity), "%+v, %v", result, err)
	}
	kept := openIn(t, box, m)
	for range 5 {
		closing := open(t, box, m)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 50 {
					wantResult(kept)
				}
			})
		}
		wantResult(closing)
		closePlugin(t, closing)
		wg.Wait()
	}
}

// Open retries without the cache only if the cache may be at fault. A module that fails when it runs would fail twice.
func TestOnlyCompileErrorsAreRetried(t *testing.T) {
	t.Parallel()
	box := sandboxOf(t, 1)
	start := func(m registry.Module, dir string) error {
		p, _, err := box.start(t.Context(), m, expect.Value(instrument(m))(t), false, &staging{dir: dir})
		if err == nil {
			closePlugin(t, p)
		}
		return err
	}
	trapping := pack(t, signalling(7, codeOne, "Because").initialising(opUnreachable).encode(), manifest())
	err := start(trapping, t.TempDir())
	expect.That(t, err != nil && !isCompileError(err), "a trap during initialisation: %v", err)
	file := filepath.Join(t.TempDir(), "file")
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	expect.That(t, isCompileError(start(sevenPoints(t), file)), "an unusable folder is not a failure to compile")
}
