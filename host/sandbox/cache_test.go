package sandbox

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/registry"
)

// logged collects what a sandbox logs; it is read once nothing is written any more.
func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

var cacheKey = bytes.Repeat([]byte{7}, 32)

// run opens a module in a fresh sandbox on dir, scores once, and returns what was logged.
func run(t *testing.T, dir string, key []byte, m registry.Module) string {
	t.Helper()
	log, text := logged()
	s := New(Config{CacheDir: dir, CacheKey: key, Instances: 1, Logger: log})
	p, err := s.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := p.Score(t.Context(), facts("x", "")); err != nil || result.Score != 7 {
		t.Errorf("%+v, %v", result, err)
	}
	closePlugin(t, p)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return text.String()
}

// compiled returns the one file of compiled code in a cache.
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

// long ago is a file time that no new file has.
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

func TestCacheIsUsedAgain(t *testing.T) {
	t.Parallel()
	dir, m := cacheDir(t), pack(t, scores(7).encode(), manifest())
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

// Whatever was done to a file, it is not run: it is gone, and the module compiled again.
func TestAlteredCacheIsNotRun(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(t *testing.T, file string){
		"one bit of the code": func(t *testing.T, file string) { flip(t, file, -40) },
		"its first byte":      func(t *testing.T, file string) { flip(t, file, 0) },
		"the MAC":             func(t *testing.T, file string) { flip(t, file+macSuffix, 3) },
		"no MAC": func(t *testing.T, file string) {
			if err := os.Remove(file + macSuffix); err != nil {
				t.Fatal(err)
			}
		},
		"cut short": func(t *testing.T, file string) {
			if err := os.Truncate(file, 20); err != nil {
				t.Fatal(err)
			}
		},
		"a MAC cut short": func(t *testing.T, file string) {
			if err := os.Truncate(file+macSuffix, 0); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, file string) {
			// To a place that others may write to: what it holds can change once it has been looked at.
			outside := filepath.Join(t.TempDir(), "moved")
			if err := os.Rename(file, outside); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, file); err != nil {
				t.Fatal(err)
			}
		},
		"the file of another module, with its MAC": func(t *testing.T, file string) {
			// It vouches for the content in its own place only.
			elsewhere := cacheDir(t)
			run(t, elsewhere, cacheKey, pack(t, newGuest().scoring(i32c(0), drop(), i32c(99)).withScore(7).encode(),
				manifest()))
			strange := compiled(t, elsewhere)
			if filepath.Base(strange) == filepath.Base(file) {
				t.Fatal("two modules share a name")
			}
			for _, suffix := range []string{"", macSuffix} {
				content, err := os.ReadFile(strange + suffix)
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
			dir, m := cacheDir(t), pack(t, scores(7).encode(), manifest())
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
				t.Errorf("the altered file is still there: %v", err)
			}
			again, err := os.ReadFile(file)
			if err != nil || len(again) != len(good) {
				t.Errorf("the new file has %d bytes, %v, want %d", len(again), err, len(good))
			}
			age(t, file)
			run(t, dir, cacheKey, m)
			if !isAged(t, file) {
				t.Error("the new file was not vouched for")
			}
		})
	}
}

// withScore puts a signal before what the guest does, and returns 0.
func (g *guest) withScore(points int32) *guest {
	g.functions[0].body = join(g.signal(points, codeOne, "Because"), g.functions[0].body, drop(), i32c(0))
	return g
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

func TestCacheOfAnotherKeyIsNotRun(t *testing.T) {
	t.Parallel()
	dir, m := cacheDir(t), pack(t, scores(7).encode(), manifest())
	run(t, dir, cacheKey, m)
	file := compiled(t, dir)
	age(t, file)
	run(t, dir, bytes.Repeat([]byte{8}, 32), m)
	if isAged(t, compiled(t, dir)) {
		t.Error("a file that another key vouches for is still there")
	}
}

// A folder that cannot be used costs time, never a plugin, and is told.
func TestUnusableCacheIsDoneWithout(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"others may enter": func(t *testing.T, dir string) {
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
		"under a file": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Dir(dir), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, dir string) {
			if err := os.Symlink(t.TempDir(), dir); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "cache")
			if name == "under a file" {
				dir = filepath.Join(dir, "deeper")
			}
			prepare(t, dir)
			if text := run(t, dir, cacheKey, pack(t, scores(7).encode(), manifest())); !strings.Contains(text,
				"compilation cache cannot be used") {
				t.Errorf("logged %q", text)
			}
			if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
				t.Errorf("%d files were written there", len(entries))
			}
		})
	}
}

// A cache that fails while the host runs is done without as well.
func TestCacheLostOnTheWayIsDoneWithout(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	log, text := logged()
	s := closing(t, New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: log}))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	p := openIn(t, s, pack(t, scores(7).encode(), manifest()))
	if result, err := p.Score(t.Context(), facts("x", "")); err != nil || result.Score != 7 {
		t.Errorf("%+v, %v", result, err)
	}
	if !strings.Contains(text.String(), "compilation cache cannot be used") {
		t.Errorf("logged %q", text)
	}
}

// A plugin that was closed takes its compiled code with it: the host must not grow with every lineup that was ever in
// force.
func TestClosedPluginLeavesNoCode(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s := closing(t, New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: discard()}))
	m := pack(t, scores(7).encode(), manifest())
	one, err := s.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	closePlugin(t, one)
	if result, err := two.Score(t.Context(), facts("x", "")); err != nil || result.Score != 7 {
		t.Errorf("the other plugin of the same code: %+v, %v", result, err)
	}
	closePlugin(t, two)
	// Code still in memory would not be written again.
	file := compiled(t, dir)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	three, err := s.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	closePlugin(t, three)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the code of a closed plugin is still in memory: %v", err)
	}
}

// A module that is refused leaves no code either.
func TestRefusedModuleLeavesNoCode(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s := closing(t, New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: discard()}))
	m := pack(t, scores(7).initialising(unreachable()).encode(), manifest())
	for range 2 {
		if p, err := s.Open(t.Context(), m); err == nil {
			closePlugin(t, p)
			t.Fatal("it was opened")
		}
		if err := os.Remove(compiled(t, dir)); err != nil {
			t.Errorf("its code is still in memory: %v", err)
		}
	}
}

// A module that fails once it runs is not tried again without the cache: it would only fail twice.
func TestCacheIsNotBlamedForTheModule(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s := closing(t, New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: discard()}))
	if _, err := s.open(t.Context(), pack(t, scores(7).initialising(unreachable()).encode(), manifest()), false,
		s.cache); err == nil ||
		isCompileError(err) {
		t.Errorf("a trap at the start: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.open(t.Context(), pack(t, scores(7).encode(), manifest()), false, s.cache); !isCompileError(err) {
		t.Errorf("a cache that is gone: %v", err)
	}
}

// A file that matched its MAC is not read again until it changes; any change is seen, even with the old times put back.
func TestCacheIsReadOnce(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	s := closing(t, New(Config{CacheDir: dir, CacheKey: cacheKey, Instances: 1, Logger: discard()}))
	p, err := s.Open(t.Context(), pack(t, scores(7).encode(), manifest()))
	if err != nil {
		t.Fatal(err)
	}
	defer closePlugin(t, p)
	file := compiled(t, dir)
	now, told := stampOf(file)
	if !told {
		t.Skip("this system tells nothing of when a file was changed")
	}
	s.cache.key = []byte("another") // with which no file matches
	if err := s.cache.purge(); err != nil {
		t.Fatal(err)
	}
	compiled(t, dir)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the change has another time", func() bool {
		flip(t, file, -40)
		if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		after, _ := stampOf(file)
		return after != now
	})
	if err := s.cache.purge(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the altered file is still there: %v", err)
	}
}
