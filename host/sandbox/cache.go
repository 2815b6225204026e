package sandbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
)

// compileCache keeps compiled code on disk between starts. What wazero finds there it runs as native code after no more
// than a checksum, so every file carries a MAC beside it, and a file that does not match is removed before wazero can
// see it.
type compileCache struct {
	mu    sync.Mutex
	dir   string // "" when nothing is kept on disk
	key   []byte
	inner wazero.CompilationCache
	known map[string]stamp // files that matched their MAC, as they stood then
}

const macSuffix = ".mac"

// openCache opens the cache in dir. When that cannot be used, code is kept in memory only and the reason is logged.
func openCache(dir string, key []byte, log *slog.Logger) *compileCache {
	if dir == "" {
		return &compileCache{inner: wazero.NewCompilationCache()}
	}
	c := &compileCache{dir: dir, key: key, known: map[string]stamp{}}
	inner, err := c.open()
	if err != nil {
		log.Warn("compile cache cannot be used", "dir", dir, "error", err)
		return &compileCache{inner: wazero.NewCompilationCache()}
	}
	c.inner = inner
	return c
}

func (c *compileCache) open() (wazero.CompilationCache, error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(c.dir)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 || !info.IsDir() {
		return nil, fmt.Errorf("%s must be a folder that only its owner can enter", c.dir)
	}
	if err := c.purge(); err != nil {
		return nil, err
	}
	return wazero.NewCompilationCacheWithDir(c.dir)
}

func (c *compileCache) onDisk() bool { return c.dir != "" }

func (c *compileCache) close() error { return c.inner.Close(context.Background()) }

// compile compiles a module. Where code is kept on disk that is done for one at a time: first what others have put
// there since is removed, for the engine would run it, and afterwards what the engine has put there is sealed.
func (c *compileCache) compile(ctx context.Context, engine wazero.Runtime, wasm []byte) (wazero.CompiledModule, error) {
	if c.dir == "" {
		return engine.CompileModule(ctx, wasm)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.purge(); err != nil {
		return nil, fmt.Errorf("looking through the compile cache: %w", err)
	}
	compiled, err := engine.CompileModule(ctx, wasm)
	if err != nil {
		return nil, err
	}
	if err := c.seal(); err != nil {
		return nil, errors.Join(fmt.Errorf("sealing the compile cache: %w", err), compiled.Close(ctx))
	}
	return compiled, nil
}

// purge removes every file without a matching MAC. One that has not changed since it was last looked at is not read
// again.
func (c *compileCache) purge() error {
	return c.walk(func(path string) error {
		now, told := stampOf(path)
		if known, ok := c.known[path]; told && ok && known == now {
			return nil
		}
		delete(c.known, path)
		want, err := c.mac(path)
		if err != nil {
			return os.Remove(path)
		}
		got, err := os.ReadFile(path + macSuffix)
		if err == nil && hmac.Equal(got, want) {
			c.known[path] = now
			return nil
		}
		return errors.Join(os.Remove(path), removeIfThere(path+macSuffix))
	})
}

// seal writes a MAC for every file that has none yet: wazero has just written it.
func (c *compileCache) seal() error {
	return c.walk(func(path string) error {
		if _, err := os.Lstat(path + macSuffix); err == nil {
			return nil
		}
		now, _ := stampOf(path)
		mac, err := c.mac(path)
		if err != nil {
			return err
		}
		c.known[path] = now
		return os.WriteFile(path+macSuffix, mac, 0o600)
	})
}

// walk visits the cache's files, links and the like included, without the MACs.
func (c *compileCache) walk(visit func(path string) error) error {
	return filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, macSuffix) {
			return err
		}
		return visit(path)
	})
}

// mac authenticates a file's content under its place in the cache.
func (c *compileCache) mac(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(c.dir, path)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, c.key)
	fmt.Fprintf(mac, "%q\n", rel)
	mac.Write(content)
	return mac.Sum(nil), nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
