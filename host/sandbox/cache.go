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

// compilationCache keeps compiled code on disk between starts. wazero runs files of its cache as native code and checks
// no more than a checksum. So each file has a MAC in a second file, and a file whose MAC does not match is deleted
// before wazero can load it.
type compilationCache struct {
	mu       sync.Mutex
	dir      string // empty if code is kept in memory only
	key      []byte
	inner    wazero.CompilationCache
	verified map[string]fileStamp // by path: the version of the file that matched its MAC
}

const macSuffix = ".mac"

// openCache opens the cache in dir. If dir is unusable, it logs the reason and returns a cache in memory.
func openCache(dir string, key []byte, log *slog.Logger) *compilationCache {
	if dir == "" {
		return &compilationCache{inner: wazero.NewCompilationCache()}
	}
	c := &compilationCache{dir: dir, key: key, verified: map[string]fileStamp{}}
	inner, err := c.open()
	if err != nil {
		log.Warn("compilation cache cannot be used", "dir", dir, "error", err)
		return &compilationCache{inner: wazero.NewCompilationCache()}
	}
	c.inner = inner
	return c
}

func (c *compilationCache) open() (wazero.CompilationCache, error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(c.dir)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 || !info.IsDir() {
		return nil, fmt.Errorf("%s must be a folder that only its owner can access", c.dir)
	}
	if err := c.purge(); err != nil {
		return nil, err
	}
	return wazero.NewCompilationCacheWithDir(c.dir)
}

func (c *compilationCache) onDisk() bool { return c.dir != "" }

func (c *compilationCache) close() error { return c.inner.Close(context.Background()) }

// compile compiles a module. With a folder, it compiles one module at a time. Before that, it deletes files that
// another program has added or changed, because wazero would run them. Afterwards, it writes MACs for the files that
// wazero has added.
func (c *compilationCache) compile(
	ctx context.Context, engine wazero.Runtime, wasm []byte,
) (wazero.CompiledModule, error) {
	if c.dir == "" {
		return engine.CompileModule(ctx, wasm)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.purge(); err != nil {
		return nil, fmt.Errorf("verifying the compilation cache: %w", err)
	}
	compiled, err := engine.CompileModule(ctx, wasm)
	if err != nil {
		return nil, err
	}
	if err := c.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("signing the compilation cache: %w", err), compiled.Close(ctx))
	}
	return compiled, nil
}

// purge deletes every file without a matching MAC. It does not read a file again that is unchanged since it matched.
func (c *compilationCache) purge() error {
	return c.walk(func(path string) error {
		stamp, ok := stampOf(path)
		if verified, found := c.verified[path]; ok && found && verified == stamp {
			return nil
		}
		delete(c.verified, path)
		want, err := c.mac(path)
		if err != nil {
			return os.Remove(path)
		}
		got, err := os.ReadFile(path + macSuffix)
		if err == nil && hmac.Equal(got, want) {
			c.verified[path] = stamp
			return nil
		}
		return errors.Join(os.Remove(path), removeIfExists(path+macSuffix))
	})
}

// sign writes a MAC for each file without one, which wazero has just written.
func (c *compilationCache) sign() error {
	return c.walk(func(path string) error {
		if _, err := os.Lstat(path + macSuffix); err == nil {
			return nil
		}
		stamp, _ := stampOf(path)
		mac, err := c.mac(path)
		if err != nil {
			return err
		}
		c.verified[path] = stamp
		return os.WriteFile(path+macSuffix, mac, 0o600)
	})
}

// walk visits the files of the cache, including links and other special files, but not the MACs.
func (c *compilationCache) walk(visit func(path string) error) error {
	return filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, macSuffix) {
			return err
		}
		return visit(path)
	})
}

// mac returns the MAC of a file's content and its path within the cache.
func (c *compilationCache) mac(path string) ([]byte, error) {
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

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
