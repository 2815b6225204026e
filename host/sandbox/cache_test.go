package sandbox

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"assay/registry"
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
func run(t *testing.T, dir string, key []byte, m registry.Module) string {
	t.Helper()
	log, text := logged()
	s := New(Config{CacheDir: dir, CacheKey: key, Instances: 1, Logger: log})
	p := open(t, s, m)
	wantScore(t, p, 7)
	closePlugin(t, p)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return text.String()
}

func wantScore(t *testing.T, p *Plugin, score int) {
	t.Helper()
	if result, err := p.Score(t.Context(), facts("x", "")); err != nil || result.Score != score {
		t.Errorf("%+v, %v, want a score of %d", result, err, score)
	}
}

// compiled returns the only file of compiled code in a cache.
func compiled(t *testing.T, dir string) string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, macSuffix) {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) != 1 {
		t.Fatalf("files %v, %v, want one", found, err)
	}
	return found[0]
}

// longAgo is a modification time that no new file has.
var longAgo = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

func age(t *testing.T, path string) {
	t.Helper()
	if err := os.Chtimes(path, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
}

func isAged(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().Equal(longAgo)
}

func cacheDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "compiled")
}

// sandboxWithCache returns a sandbox with its cache in dir.
func sandboxWithCache(t *testing.T, dir string) *Sandbox {
	t.Helper()
	return closeAtEnd(t, New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: discard()}))
}

func TestCacheIsReused(t *testing.T) {
	t.Parallel()
	dir, m := cacheDir(t), sevenPoints(t)
	run(t, dir, cacheKey, m)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v, want mode 700", info.Mode(), err)
	}
	file := compiled(t, dir)
	age(t, file)
	if text := run(t, dir, cacheKey, m); text != "" {
		t.Errorf("logged %s", text)
	}
	if !isAged(t, file) {
		t.Error("the code was compiled again")
	}
}

// An altered cache file is deleted, and the module compiled again.
func TestAlteredCacheFileIsNotRun(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(t *testing.T, file string){
		"bit flip in the code":       func(t *testing.T, file string) { flip(t, file, -40) },
		"bit flip in the first byte": func(t *testing.T, file string) { flip(t, file, 0) },
		"bit flip in the MAC":        func(t *testing.T, file string) { flip(t, file+macSuffix, 3) },
		"no MAC": func(t *testing.T, file string) {
			if err := os.Remove(file + macSuffix); err != nil {
				t.Fatal(err)
			}
		},
		"truncated": func(t *testing.T, file string) {
			if err := os.Truncate(file, 20); err != nil {
				t.Fatal(err)
			}
		},
		"truncated MAC": func(t *testing.T, file string) {
			if err := os.Truncate(file+macSuffix, 0); err != nil {
				t.Fatal(err)
			}
		},
		"symbolic link": func(t *testing.T, file string) {
			// The target may be writable for other users, who could change it after the check.
			outside := filepath.Join(t.TempDir(), "moved")
			if err := os.Rename(file, outside); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, file); err != nil {
				t.Fatal(err)
			}
		},
		"file of another module with its MAC": func(t *testing.T, file string) {
			elsewhere := cacheDir(t)
			g := newGuest()
			g.scoring(g.signal(7, codeOne, "Because"), i32Const(0), opDrop, returnScored)
			run(t, elsewhere, cacheKey, pack(t, g.encode(), manifest()))
			other := compiled(t, elsewhere)
			if filepath.Base(other) == filepath.Base(file) {
				t.Fatal("two modules have the same file name")
			}
			for _, suffix := range []string{"", macSuffix} {
				content, err := os.ReadFile(other + suffix)
				if err == nil {
					err = os.WriteFile(file+suffix, content, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, m := cacheDir(t), sevenPoints(t)
			run(t, dir, cacheKey, m)
			file := compiled(t, dir)
			good, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			alter(t, file)
			if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
				age(t, file)
			}
			if text := run(t, dir, cacheKey, m); text != "" {
				t.Errorf("logged %s", text)
			}
			if info, err := os.Lstat(compiled(t, dir)); err != nil || isAged(t, file) || !info.Mode().IsRegular() {
				t.Errorf("the altered file still exists: %v", err)
			}
			again, err := os.ReadFile(file)
			if err != nil || len(again) != len(good) {
				t.Errorf("the new file has %d bytes, %v, want %d", len(again), err, len(good))
			}
			age(t, file)
			run(t, dir, cacheKey, m)
			if !isAged(t, file) {
				t.Error("the new file has no valid MAC")
			}
		})
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += len(content)
	}
	content[at] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCacheFileOfAnotherKeyIsNotRun(t *testing.T) {
	t.Parallel()
	dir, m := cacheDir(t), sevenPoints(t)
	run(t, dir, cacheKey, m)
	file := compiled(t, dir)
	age(t, file)
	run(t, dir, bytes.Repeat([]byte{8}, 32), m)
	if isAged(t, compiled(t, dir)) {
		t.Error("a file signed with another key still exists")
	}
}

// replaceCode overwrites the code in one cache with that of another. The file is intact: wazero's checksum matches.
func replaceCode(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(compiled(t, from))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(compiled(t, to), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// An attacker replaces the code of a guest before or after the sandbox is created.
func TestReplacedCacheFileIsNotRun(t *testing.T) {
	t.Parallel()
	good, forged := signalling(7, codeOne, "Good"), signalling(99, codeOne, "Good")
	score := func(t *testing.T, dir string, g *guest, beforeOpen func()) int {
		t.Helper()
		box := sandboxWithCache(t, dir)
		beforeOpen()
		p := open(t, box, pack(t, g.encode(), manifest()))
		defer closePlugin(t, p)
		result, err := scoreWithRetry(p, "x")
		if err != nil {
			t.Error(err)
		}
		return result.Score
	}
	for name, running := range map[string]bool{"before the start": false, "while running": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, other := cacheDir(t), cacheDir(t)
			nothing := func() {}
			if a, b := score(t, dir, good, nothing), score(t, other, forged, nothing); a != 7 || b != 99 {
				t.Fatalf("scores %d and %d", a, b)
			}
			replace := func() { replaceCode(t, other, dir) }
			if !running {
				replace()
				replace = nothing
			}
			if got := score(t, dir, good, replace); got != 7 {
				t.Errorf("score %d: the forged code ran", got)
			}
		})
	}
}

// wazero itself runs replaced code, which is why the cache needs MACs.
func TestEngineRunsReplacedCacheFile(t *testing.T) {
	t.Parallel()
	result := func(dir string, value int) uint64 {
		ctx := context.Background()
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Close(ctx)
		engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache))
		defer engine.Close(ctx)
		g := &guest{}
		instance, err := engine.Instantiate(ctx, g.scoring(i32Const(value)).encode())
		if err != nil {
			t.Fatal(err)
		}
		got, err := instance.ExportedFunction(exportScore).Call(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	dir, other := t.TempDir(), t.TempDir()
	if a, b := result(dir, 7), result(other, 99); a != 7 || b != 99 {
		t.Fatalf("results %d and %d", a, b)
	}
	replaceCode(t, other, dir)
	if got := result(dir, 7); got != 99 {
		t.Errorf("result %d: the engine verifies its cache itself", got)
	}
}

// Without a usable folder the sandbox logs a warning and compiles in memory.
func TestUnusableCacheFolder(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"accessible to others": func(t *testing.T, dir string) {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o750); err != nil {
				t.Fatal(err)
			}
		},
		"a file": func(t *testing.T, dir string) {
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"below a file": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Dir(dir), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a symbolic link": func(t *testing.T, dir string) {
			if err := os.Symlink(t.TempDir(), dir); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "cache")
			if name == "below a file" {
				dir = filepath.Join(dir, "deeper")
			}
			prepare(t, dir)
			text := run(t, dir, cacheKey, sevenPoints(t))
			if !strings.Contains(text, "compilation cache cannot be used") {
				t.Errorf("logged %q", text)
			}
			if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
				t.Errorf("%d files were written to the folder", len(entries))
			}
		})
	}
}

// A cache that fails while the host runs does not fail the plugin either.
func TestCacheFolderRemovedAfterStart(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	log, text := logged()
	s := closeAtEnd(t, New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: log}))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	wantScore(t, openIn(t, s, sevenPoints(t)), 7)
	if !strings.Contains(text.String(), "compilation cache cannot be used") {
		t.Errorf("logged %q", text)
	}
}

// A closed plugin releases its compiled code. Otherwise the host would grow with every lineup that was ever in force.
func TestClosedPluginReleasesCode(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s, m := sandboxWithCache(t, dir), sevenPoints(t)
	one, two := open(t, s, m), open(t, s, m)
	closePlugin(t, one)
	wantScore(t, two, 7) // shares the code
	closePlugin(t, two)
	// wazero writes the file again only if the code is not in memory.
	file := compiled(t, dir)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	closePlugin(t, open(t, s, m))
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the code of a closed plugin is still in memory: %v", err)
	}
}

// Two plugins share the code of one module. Closing one must not disturb calls of the other.
func TestClosingOneOfTwoPluginsWithTheSameCode(t *testing.T) {
	t.Parallel()
	box := sandboxOf(t, 2)
	m := hostileGuest{wasm: healthy().encode}.module()
	wantResult := func(p *Plugin) {
		if result, err := scoreWithRetry(p, testEntity); result.Score != len(testEntity) {
			t.Errorf("%+v, %v", result, err)
		}
	}
	kept := openIn(t, box, m)
	for range 20 {
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

func TestRefusedModuleReleasesCode(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s := sandboxWithCache(t, dir)
	m := pack(t, signalling(7, codeOne, "Because").initialising(opUnreachable).encode(), manifest())
	for range 2 {
		if p, err := s.Open(t.Context(), m); err == nil {
			closePlugin(t, p)
			t.Fatal("the module was opened")
		}
		if err := os.Remove(compiled(t, dir)); err != nil {
			t.Errorf("the code is still in memory: %v", err)
		}
	}
}

// Open retries without the cache only if the cache may be at fault. A module that fails when it runs would fail twice.
func TestOnlyCompileErrorsAreRetried(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s := sandboxWithCache(t, dir)
	trapping := pack(t, signalling(7, codeOne, "Because").initialising(opUnreachable).encode(), manifest())
	if _, err := s.open(t.Context(), trapping, false, s.cache); err == nil || isCompileError(err) {
		t.Errorf("a trap during initialisation: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.open(t.Context(), sevenPoints(t), false, s.cache); !isCompileError(err) {
		t.Errorf("a removed cache folder: %v", err)
	}
}

// A verified file is not read again until it changes. A change is noticed even if the modification time is reset.
func TestVerifiedFileIsReadOnce(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s := sandboxWithCache(t, dir)
	openIn(t, s, sevenPoints(t))
	file := compiled(t, dir)
	before, ok := stampOf(file)
	if !ok {
		t.Skip("this system has no change times")
	}
	s.cache.key = []byte("another") // no file matches this key
	if err := s.cache.purge(); err != nil {
		t.Fatal(err)
	}
	compiled(t, dir)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the change time differs", func() bool {
		flip(t, file, -40)
		if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		after, _ := stampOf(file)
		return after != before
	})
	if err := s.cache.purge(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the altered file still exists: %v", err)
	}
}
