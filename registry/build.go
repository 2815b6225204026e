package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"assay/registry/fault"
	"assay/registry/sealed"
)

// Source is a checkout of this repository, from which the first-party layers are built.
type Source struct {
	Root   string         // folder of go.mod
	Cache  *sealed.Folder // built modules, named by a hash of their source; nil: every build compiles
	Logger *slog.Logger
}

// ErrNoSource means that no checkout of this repository was found.
var ErrNoSource = errors.New("no folder above this one holds assay's go.mod")

// FindSource searches for the repository from folder dir upwards. It fails with ErrNoSource if there is none.
func FindSource(dir string, cache *sealed.Folder, log *slog.Logger) (Source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Source{}, fmt.Errorf("finding the layers' source: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module assay\n")) {
			return Source{Root: dir, Cache: cache, Logger: log}, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return Source{}, fmt.Errorf("finding the layers' source: %w", ErrNoSource)
		}
		dir = parent
	}
}

// Plugins lists the folders under plugins/ that contain a manifest, sorted.
func (s Source) Plugins() ([]string, error) {
	manifests, err := fs.Glob(os.DirFS(s.Root), "plugins/*/manifest.json") // Root may look like a pattern
	if err != nil {
		return nil, fmt.Errorf("listing plugins: %w", err)
	}
	dirs := make([]string, len(manifests))
	for i, m := range manifests {
		dirs[i] = filepath.Join(s.Root, filepath.Dir(m))
	}
	return dirs, nil
}

// BuildAll returns every first-party module, from the cache if its source is unchanged. It calls progress after each
// module; progress may be nil.
func (s Source) BuildAll(ctx context.Context, progress func(done, total int, name string)) ([]Module, error) {
	dirs, err := s.Plugins()
	if err != nil {
		return nil, err
	}
	modules := make([]Module, len(dirs))
	errs := make([]error, len(dirs))
	var wg sync.WaitGroup
	var done atomic.Int32
	var mu sync.Mutex // progress is not called concurrently
	slots := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))
	for i, dir := range dirs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			modules[i], errs[i] = s.Build(ctx, dir)
			if progress != nil {
				mu.Lock()
				defer mu.Unlock()
				progress(int(done.Add(1)), len(dirs), filepath.Base(dir))
			}
		})
	}
	wg.Wait()
	return modules, errors.Join(errs...)
}

// Build compiles the Go plugin in folder dir for wasip1 and packs its manifest and cases, or returns it from the cache.
func (s Source) Build(ctx context.Context, dir string) (m Module, err error) {
	defer fault.WrapAll(&err, "building plugin %s", filepath.Base(dir))
	key, err := s.key(dir)
	if err != nil {
		return Module{}, err
	}
	name := filepath.Base(dir) + "-" + key
	if s.Cache != nil {
		if wasm, ok := s.Cache.Read(name); ok {
			if m, err := OpenModule(wasm); err == nil {
				return m, nil
			}
		}
	}
	wasm, err := CompileGo(ctx, dir)
	if err != nil {
		return Module{}, err
	}
	if m, err = OpenModule(wasm); err != nil {
		return Module{}, err
	}
	if s.Cache != nil {
		if err := s.Cache.Write(name, wasm); err != nil {
			s.Logger.Warn("built layer cannot be cached", "layer", m.Ref(), "error", err)
		}
	}
	return m, nil
}

// CompileGo compiles the Go plugin in folder dir for wasip1 and packs the folder's manifest.json and cases.jsonl into
// it.
func CompileGo(ctx context.Context, dir string) (wasm []byte, err error) {
	manifest, cases, err := ReadDescription(dir)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "assay-layer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	out := filepath.Join(work, "layer.wasm")
	// Reproducible: the same source gives the same bytes, and so the same digest, in every checkout.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=",
		"-buildmode=c-shared", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("running go build: %w\n%s", err, bytes.TrimSpace(text))
	}
	if wasm, err = os.ReadFile(out); err != nil {
		return nil, err
	}
	return Pack(wasm, manifest, cases)
}

// ReadDescription reads manifest.json and, if there is one, cases.jsonl from a plugin's folder.
func ReadDescription(dir string) (manifest, cases []byte, err error) {
	if manifest, err = os.ReadFile(filepath.Join(dir, "manifest.json")); err != nil {
		return nil, nil, err
	}
	cases, err = os.ReadFile(filepath.Join(dir, "cases.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return manifest, cases, err
}

// leftBehind are folders, or links to folders, that no layer depends on: the output of tools for the SDK's other
// languages, trainers, and test data.
var leftBehind = []string{"node_modules", "build", "target", "__pycache__", "train", "learn", "testdata"}

// key hashes everything that a build of the plugin depends on: its folder, the folders that layers share (those without
// a manifest), the SDK, the module's requirements and the compiler.
func (s Source) key(dir string) (string, error) {
	shared, err := os.ReadDir(filepath.Join(s.Root, "plugins"))
	if err != nil {
		return "", err
	}
	roots := []string{dir, filepath.Join(s.Root, "sdk"), filepath.Join(s.Root, "go.mod"),
		filepath.Join(s.Root, "go.sum")}
	for _, e := range shared {
		path := filepath.Join(s.Root, "plugins", e.Name())
		if _, err := os.Stat(filepath.Join(path, "manifest.json")); e.IsDir() && errors.Is(err, fs.ErrNotExist) {
			roots = append(roots, path)
		}
	}
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version())
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains(leftBehind, d.Name()):
				return fs.SkipDir
			case d.IsDir() || strings.HasSuffix(path, "_test.go") || slices.Contains(leftBehind, d.Name()):
				return nil
			}
			rel, err := filepath.Rel(s.Root, path)
			if err != nil {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			fmt.Fprintf(h, "%q\n", filepath.ToSlash(rel))
			_, err = io.Copy(h, f)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32], nil
}
