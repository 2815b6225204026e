package registry_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
	"assay/registry/sealed"
)

// pluginSource is a layer that reads one fact and shares code with others.
const pluginSource = `package main

import (
	"assay/plugins/words"
	"assay/sdk"
)

func init() {
	sdk.Register(func(c *sdk.Check) sdk.Outcome {
		if c.Get("domain.ascii") == words.Bad {
			c.Signal(50, "a:b:c", "It is bad")
		}
		return sdk.Scored
	})
}

func main() {}
`

// checkout creates a small repository: this SDK, one plugin, and a folder that plugins share.
func checkout(t *testing.T) registry.Source {
	t.Helper()
	root := filepath.Join(t.TempDir(), "a[1]") // nothing may take a path for a pattern
	put(t, root, "go.mod", "module assay\n\ngo 1.26\n")
	put(t, root, "go.sum", "")
	put(t, root, "plugins/tiny/main.go", pluginSource)
	put(t, root, "plugins/tiny/manifest.json", string(layer().with("name", "tiny")))
	put(t, root, "plugins/words/words.go",
		"// Package words is shared.\npackage words\n\nconst Bad = \"bad.example\"\n")
	for _, file := range expect.Value(filepath.Glob("../sdk/*.go"))(t) { // a build does not read tests
		put(t, root, "sdk/"+filepath.Base(file), string(expect.Value(os.ReadFile(file))(t)))
	}
	cache := expect.Value(sealed.Open(cacheOf(root), []byte("key"), 64<<20))(t)
	return registry.Source{Root: root, Cache: cache, Logger: slog.New(slog.DiscardHandler)}
}

func cacheOf(root string) string { return filepath.Join(root, ".assay", "layers") }

func put(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	expect.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func cacheFiles(t *testing.T, s registry.Source) map[string]fs.FileInfo {
	t.Helper()
	entries := expect.Value(os.ReadDir(cacheOf(s.Root)))(t)
	files := map[string]fs.FileInfo{}
	for _, e := range entries {
		files[e.Name()] = expect.Value(e.Info())(t)
	}
	return files
}

func build(t *testing.T, s registry.Source) registry.Module {
	t.Helper()
	return expect.Value(s.Build(t.Context(), filepath.Join(s.Root, "plugins", "tiny")))(t)
}

// cached builds with a canceled context, so that no compiler can start.
func cached(t *testing.T, s registry.Source) (registry.Module, error) {
	t.Helper()
	return s.Build(expect.Ended(t), filepath.Join(s.Root, "plugins", "tiny"))
}

func needsCompiler(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles for wasip1")
	}
}

func TestBuildIsReproducible(t *testing.T) {
	t.Parallel()
	needsCompiler(t)
	one, other := checkout(t), checkout(t)
	put(t, other.Root, "README", "another folder, with another file in it")
	first, second := build(t, one), build(t, other)
	expect.That(t, bytes.Equal(first.Wasm, second.Wasm) && first.Digest == second.Digest,
		"two checkouts give %d bytes, %s and %d bytes, %s", len(first.Wasm), first.Digest, len(second.Wasm),
		second.Digest)
	expect.That(t, !bytes.Contains(first.Wasm, []byte(one.Root)), "the module contains the path of its build folder")
	expect.Equal(t, "the module", first.Ref(), "tiny@1.2.3")
	expect.NoDiff(t, "the caches", keys(cacheFiles(t, one)), keys(cacheFiles(t, other)))
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func TestBuildCache(t *testing.T) {
	t.Parallel()
	needsCompiler(t)
	s := checkout(t)
	expect.Failure(t, expect.ErrorOf(cached(t, s)), "an empty cache returned a module")
	first := build(t, s)
	before := cacheFiles(t, s)
	expect.Must(t, len(before) == 1, "the cache contains %v", keys(before))
	again := build(t, s)
	for name, info := range cacheFiles(t, s) {
		was := before[name]
		expect.That(t, was != nil && os.SameFile(was, info), "%s was rewritten", name)
	}
	expect.That(t, bytes.Equal(first.Wasm, again.Wasm), "the cache returned another module")

	for _, c := range []struct{ name, file, content string }{
		{"a test of the plugin", "plugins/tiny/main_test.go", "package main\n"},
		{"a test of the sdk", "sdk/new_test.go", "package sdk\n"},
		{"another plugin", "plugins/other/manifest.json", "{}"},
		{"another plugin's code", "plugins/other/main.go", "package main\n"},
		{"a file next to the plugins", "plugins/README", "text"},
		{"what npm installs for the SDK", "sdk/typescript/node_modules/x/index.js", "text"},
		{"what the TypeScript compiler writes", "sdk/typescript/build/index.js", "text"},
		{"a trainer", "plugins/internal/train/main.go", "package main\n"},
		{"the host", "host/main.go", "package main\n"},
	} {
		put(t, s.Root, c.file, c.content)
		m, err := cached(t, s)
		expect.That(t, err == nil && m.Digest == first.Digest, "%s: the cached module was not used: %v", c.name, err)
	}
	expect.NoError(t, os.Symlink(t.TempDir(), filepath.Join(s.Root, "sdk", "node_modules")))
	m, err := cached(t, s)
	expect.That(t, err == nil && m.Digest == first.Digest, "a link to what npm installs: %v", err)
	for _, c := range []struct{ name, file, content string }{
		{"the plugin's code", "plugins/tiny/main.go", pluginSource + "\n// changed\n"},
		{"another file of the plugin", "plugins/tiny/data/list.txt", "embedded"},
		{"its manifest", "plugins/tiny/manifest.json", string(layer().with("name", "tinier"))},
		{"what plugins share", "plugins/words/words.go", "package words\n\nconst Bad = \"worse.example\"\n"},
		{"the sdk", "sdk/more.go", "package sdk\n"},
		{"the requirements", "go.mod", "module assay\n\ngo 1.26.0\n"},
		{"their sums", "go.sum", "example.com/x v1.0.0 h1:x\n"},
	} {
		path := filepath.Join(s.Root, filepath.FromSlash(c.file))
		was, missing := os.ReadFile(path)
		put(t, s.Root, c.file, c.content)
		expect.Failure(t, expect.ErrorOf(cached(t, s)), "%s: the stale cached module was used", c.name)
		if missing != nil {
			expect.NoError(t, os.Remove(path))
		} else {
			put(t, s.Root, c.file, string(was))
		}
		expect.Error(t, c.name+": using the cached module, put back", expect.ErrorOf(cached(t, s)), nil)
	}

	put(t, s.Root, "plugins/words/words.go", "package words\n\nconst Bad = \"worse.example\"\n")
	expect.That(t, build(t, s).Digest != first.Digest, "different code built the same module")
	expect.Equal(t, "modules in the cache, one per source", len(cacheFiles(t, s)), 2)
}

// A built layer that this host did not write under its name is built again, not installed.
func TestForeignBuiltLayerIsNotInstalled(t *testing.T) {
	t.Parallel()
	needsCompiler(t)
	s := checkout(t)
	want := build(t, s)
	name := filepath.Join(cacheOf(s.Root), keys(cacheFiles(t, s))[0])
	good := expect.Value(os.ReadFile(name))(t)
	forged := expect.Value(registry.Pack(want.Wasm[:8], layer().with("name", "tiny"), nil))(t)
	for what, content := range map[string][]byte{ // TestForeignFilesAreNotRead in registry/sealed has more
		"another module with the seal": append(bytes.Clone(good[:32]), forged...),
		"the module without a seal":    want.Wasm,
	} {
		expect.NoError(t, os.WriteFile(name, content, 0o600))
		expect.Failure(t, expect.ErrorOf(cached(t, s)), "%s: the file was accepted", what)
	}
	expect.Equal(t, "rebuilt", build(t, s).Digest, want.Digest)
	got, err := cached(t, s)
	expect.That(t, err == nil && got.Digest == want.Digest, "the cache was not repaired: %s, %v", got.Digest, err)
	expect.Equal(t, "modules in the cache", len(cacheFiles(t, s)), 1)

	// Without a usable cache every build compiles.
	expect.NoError(t, os.RemoveAll(cacheOf(s.Root)))
	expect.Equal(t, "built without the folder", build(t, s).Digest, want.Digest)
	s.Cache = nil
	expect.Equal(t, "built without a cache", build(t, s).Digest, want.Digest)
}

func TestBuildAll(t *testing.T) {
	t.Parallel()
	needsCompiler(t)
	s := checkout(t)
	put(t, s.Root, "plugins/second/main.go", pluginSource)
	put(t, s.Root, "plugins/second/manifest.json", string(layer().with("name", "second")))
	var names []string
	var counts []int
	progress := func(done, total int, name string) {
		expect.Equal(t, "plugins in all", total, 2)
		counts, names = append(counts, done), append(names, name)
	}
	modules, err := s.BuildAll(t.Context(), progress)
	expect.Must(t, err == nil && len(modules) == 2 && modules[0].Manifest.Name == "second" &&
		modules[1].Manifest.Name == "tiny", "built %d modules: %v", len(modules), err)
	slices.Sort(names)
	expect.NoDiff(t, "the plugins", []string{"second", "tiny"}, names)
	expect.NoDiff(t, "progress", []int{1, 2}, counts)

	put(t, s.Root, "plugins/second/main.go", pluginSource+"\nvar x int = \"no number\"\n")
	put(t, s.Root, "plugins/third/manifest.json", "{}")
	put(t, s.Root, "plugins/third/main.go", "package main\n\nfunc main() {}\n")
	_, err = s.BuildAll(t.Context(), nil)
	expect.Must(t, err != nil, "broken plugins were built")
	for _, want := range []string{"building plugin second: running go build: ", "no number", "building plugin third: ",
		"reading manifest: "} {
		expect.That(t, strings.Contains(err.Error(), want), "the error does not say %q:\n%v", want, err)
	}
	expect.That(t, !strings.Contains(err.Error(), "plugin tiny"), "the error names the good plugin:\n%v", err)
}

func TestFindSource(t *testing.T) {
	t.Parallel()
	expect.Error(t, "a folder without a manifest",
		expect.ErrorOf(registry.CompileGo(t.Context(), t.TempDir())), fs.ErrNotExist)
	root := expect.Value(filepath.EvalSymlinks(t.TempDir()))(t)
	put(t, root, "go.mod", "module assay\n\ngo 1.26\n")
	put(t, root, "deep/er/file", "")
	put(t, root, "other/go.mod", "module assayer\n")
	put(t, root, "other/deep/file", "")
	for _, dir := range []string{"", "deep", "deep/er", "other", "other/deep"} {
		s, err := registry.FindSource(filepath.Join(root, dir), nil, nil)
		expect.That(t, err == nil && s.Root == root, "from %q: %+v, %v", dir, s, err)
	}
	s, err := registry.FindSource(t.TempDir(), nil, nil)
	expect.That(t, errors.Is(err, registry.ErrNoSource) && s == (registry.Source{}), "from nowhere: %+v, %v", s, err)
}

func TestPluginsAreFoldersWithAManifest(t *testing.T) {
	t.Parallel()
	s := registry.Source{Root: t.TempDir()}
	dirs, err := s.Plugins()
	expect.That(t, err == nil && len(dirs) == 0, "an empty folder contains %v, %v", dirs, err)
	for _, file := range []string{"plugins/b/manifest.json", "plugins/a/manifest.json", "plugins/shared/shared.go",
		"plugins/a/deep/manifest.json", "plugins/manifest.json"} {
		put(t, s.Root, file, "{}")
	}
	dirs = expect.Value(s.Plugins())(t)
	plugins := filepath.Join(s.Root, "plugins")
	expect.NoDiff(t, "the folders", []string{filepath.Join(plugins, "a"), filepath.Join(plugins, "b")}, dirs)
}
