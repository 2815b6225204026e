package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"

	"assay/host/sandbox/meter"
	"assay/registry"
	"assay/registry/sealed"
)

// codeCacheBytes bounds the compiled code on disk.
const codeCacheBytes = 1 << 30

// codeCache keeps compiled code on disk between starts, one sealed file for each module. wazero runs the files in its
// own cache as native code after a mere checksum. So wazero never sees this folder: code with a valid seal is copied to
// a private folder, and wazero loads it from there.
type codeCache struct {
	folder *sealed.Folder // nil: nothing is kept
	engine string         // identifies the meter, wazero's version and the processor's features
	log    *slog.Logger
}

// nativeCode is a compiled module. wazero loads it with the module's skeleton.
type nativeCode struct {
	module  *meter.Module // the skeleton, with the properties of the metered module
	file    string        // path that wazero's cache gives to the code of the skeleton
	content []byte
}

// codeHeader is the first line of a sealed file. The skeleton and the code follow.
type codeHeader struct {
	Module   meter.Module // without Wasm
	Skeleton int          // bytes
	File     string
}

// openCache opens the cache in dir. If dir is unusable, it logs the reason and keeps nothing.
func openCache(dir string, key []byte, log *slog.Logger) *codeCache {
	c := &codeCache{log: log}
	if dir == "" {
		return c
	}
	var err error
	if c.folder, err = sealed.Open(dir, key, codeCacheBytes); err == nil {
		c.engine, err = c.identifyEngine()
	}
	if err != nil {
		c.warn("", err)
		c.folder = nil
	}
	return c
}

func (c *codeCache) warn(plugin string, err error) {
	c.log.Warn("compilation cache cannot be used", "plugin", plugin, "error", err)
}

// identifyEngine returns the meter's version and the path that wazero's cache gives to an empty module. The path
// contains wazero's version and a hash of the module and of the processor's features, which wazero does not reveal
// otherwise.
func (c *codeCache) identifyEngine() (string, error) {
	dir, err := c.private()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path, err := cachePath(dir, []byte("\x00asm\x01\x00\x00\x00"))
	return meter.Version() + " " + path, err
}

// cachePath returns the path that wazero's cache gives to a module. It compiles the module in the empty folder dir.
func cachePath(dir string, wasm []byte) (string, error) {
	ctx := context.Background()
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return "", err
	}
	defer cache.Close(ctx)
	engine := wazero.NewRuntimeWithConfig(ctx, engineConfig(maxMemoryPages).WithCompilationCache(cache))
	defer engine.Close(ctx)
	if _, err := engine.CompileModule(ctx, wasm); err != nil {
		return "", err
	}
	return onlyFile(dir)
}

// maxMemoryPages is the number of pages that 32-bit addresses can reach.
const maxMemoryPages = 1 << 16

// name returns the name of a module's code in the cache. It changes with everything that the code depends on.
func (c *codeCache) name(m registry.Module, limits meter.Limits) string {
	h := sha256.New()
	fmt.Fprintf(h, "%x\n%+v\n%q\n", m.Digest, limits, c.engine)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// read returns a module's code, or nil if it is not in the cache.
func (c *codeCache) read(name string) *nativeCode {
	if c.folder == nil {
		return nil
	}
	data, _ := c.folder.Read(name)
	text, rest, _ := bytes.Cut(data, []byte("\n"))
	header := &codeHeader{}
	if json.Unmarshal(text, header) != nil || header.Skeleton > len(rest) {
		return nil
	}
	header.Module.Wasm = bytes.Clone(rest[:header.Skeleton]) // the plugin keeps it
	return &nativeCode{&header.Module, header.File, rest[header.Skeleton:]}
}

// manifest returns the stored manifest of a module.
func (c *codeCache) manifest(digest registry.Digest) (m registry.Manifest, ok bool) {
	if c.folder == nil {
		return m, false
	}
	text, ok := c.folder.Read(manifestName(digest))
	return m, ok && json.Unmarshal(text, &m) == nil
}

func manifestName(digest registry.Digest) string { return hex.EncodeToString(digest[:]) + "-manifest" }

// keepManifest stores a module's manifest, so that its code can be found without the module.
func (c *codeCache) keepManifest(m registry.Module) {
	if _, ok := c.manifest(m.Digest); ok || c.folder == nil {
		return
	}
	original, err := registry.OpenModule(m.Wasm) // a lineup may have lowered the budget in m's manifest
	var text []byte
	if err == nil {
		text, err = json.Marshal(original.Manifest)
	}
	if err == nil {
		err = c.folder.Write(manifestName(m.Digest), text)
	}
	if err != nil {
		c.warn(m.Ref(), err)
	}
}

// write stores a module's code. If that fails, the module is compiled again at the next start.
func (c *codeCache) write(name string, m registry.Module, code *nativeCode) {
	if c.folder == nil || code == nil {
		return
	}
	header := codeHeader{*code.module, len(code.module.Wasm), code.file}
	header.Module.Wasm = nil
	text, err := json.Marshal(header)
	if err == nil {
		err = c.folder.Write(name, bytes.Join([][]byte{text, []byte("\n"), code.module.Wasm, code.content}, nil))
	}
	if err != nil {
		c.warn(m.Ref(), err)
	}
}

// private returns a new folder that only this user can access. The caller removes it.
func (c *codeCache) private() (string, error) {
	if c.folder != nil {
		if dir, err := c.folder.Private(); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "assay-code-")
}

// staging is a private folder from which wazero loads a module's code, or if it is empty, where wazero writes it.
type staging struct {
	dir  string
	code *nativeCode // the folder's content; nil if it is empty
	keep bool        // the plugin stays open, so its code should be mapped from a file
}

// minMappedCode is the minimum size of code that is mapped from a file.
const minMappedCode = 256 << 10

// stage creates a staging folder with code, which may be nil.
func (c *codeCache) stage(code *nativeCode) (*staging, error) {
	dir, err := c.private()
	if err != nil {
		return nil, err
	}
	s := &staging{dir: dir, code: code, keep: true}
	if code == nil {
		return s, nil
	}
	path := filepath.Join(dir, filepath.FromSlash(code.file))
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, code.content, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

var errCodeChanged = errors.New("another program changed the compiled code while it was loaded")

// loaded is called when wazero has compiled the module and before its code runs. It fails if wazero has loaded anything
// other than the staged code. If the folder was empty, the result is the code that wazero compiled, which no other
// program has changed.
func (s *staging) loaded(compiled wazero.CompiledModule, metered *meter.Module) (*nativeCode, error) {
	file, err := onlyFile(s.dir)
	if err != nil {
		return nil, err
	}
	code := s.code
	if code == nil {
		if code, err = compiledCode(filepath.Join(s.dir, filepath.FromSlash(file)), metered); err != nil {
			return nil, err
		}
	} else if file != code.file {
		return nil, errCodeChanged
	}
	if !isCodeOf(compiled, code.content) {
		return nil, errCodeChanged
	}
	return code, nil
}

// compiledCode returns the code that wazero has written to a file.
func compiledCode(file string, metered *meter.Module) (*nativeCode, error) {
	bones, err := skeleton(metered)
	if err != nil {
		return nil, err
	}
	code := &nativeCode{module: bones}
	dir, err := os.MkdirTemp(filepath.Dir(file), "skeleton-")
	if err != nil {
		return nil, err
	}
	if code.file, err = cachePath(dir, bones.Wasm); err == nil {
		code.content, err = os.ReadFile(file)
	}
	return code, errors.Join(err, os.RemoveAll(dir))
}

func (s *staging) remove() error { return os.RemoveAll(s.dir) }

// onlyFile returns the slash-separated path of the only file below dir.
func onlyFile(dir string) (file string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if file != "" || !d.Type().IsRegular() {
			return errors.New("the private folder contains more than the compiled code")
		}
		rel, err := filepath.Rel(dir, path)
		file = filepath.ToSlash(rel)
		return err
	})
	if err == nil && file == "" {
		err = errors.New("the private folder contains no compiled code")
	}
	return file, err
}
