// Package sealed keeps a cache of files in a folder. Each file carries a MAC of its name and content, so that a file
// that another program wrote, altered or renamed is never read as a cached one.
package sealed

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/registry/fault"
)

// Folder is a folder of sealed files. It is safe for concurrent use, also by several processes.
type Folder struct {
	dir   string
	key   []byte
	limit int64
}

const (
	suffix        = ".sealed"
	privatePrefix = "private-"
	macBytes      = sha256.Size
)

// abandonedAfter is the age from which a private folder counts as left by a killed process.
const abandonedAfter = time.Hour

// Open opens the folder dir and creates it if necessary. The files are sealed with key and limited to a total of limit
// bytes. Open removes all files that are not sealed files, because the folder holds nothing else.
func Open(dir string, key []byte, limit int64) (*Folder, error) {
	if len(key) == 0 {
		return nil, errors.New("opening sealed files: the key is empty")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening sealed files: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("opening sealed files: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 || !info.IsDir() {
		return nil, fmt.Errorf("opening sealed files: %s must be a folder that only its owner can access", dir)
	}
	f := &Folder{dir: dir, key: key, limit: limit}
	return f, f.prune("")
}

// Private creates a new folder inside the folder for temporary files. The caller removes it.
func (f *Folder) Private() (string, error) { return os.MkdirTemp(f.dir, privatePrefix) }

// Read returns the content that was written under name. It reports false if there is none or if the file is not as
// Write left it; such a file is removed.
func (f *Folder) Read(name string) (content []byte, ok bool) {
	path := f.path(name)
	content, err := f.open(path, name)
	switch {
	case err == nil:
		now := time.Now()
		_ = os.Chtimes(path, now, now) // prune removes the files that were not used for the longest time
		return content, true
	case !errors.Is(err, fs.ErrNotExist):
		_ = os.RemoveAll(path)
	}
	return nil, false
}

func (f *Folder) open(path, name string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() < macBytes || info.Size() > f.limit {
		return nil, errors.New("it is not a sealed file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, err
	}
	content := data[macBytes:]
	if !hmac.Equal(data[:macBytes], f.mac(name, content)) {
		return nil, errors.New("its seal does not match")
	}
	return content, nil
}

// Write stores content under name, atomically, and removes the files that were not used for the longest time if the
// folder exceeds its limit.
func (f *Folder) Write(name string, content []byte) error {
	if err := f.write(name, content); err != nil {
		return fmt.Errorf("writing sealed file: %w", err)
	}
	return f.prune(name)
}

func (f *Folder) write(name string, content []byte) error {
	private, err := f.Private()
	if err != nil {
		return err
	}
	defer os.RemoveAll(private)
	file, err := os.OpenFile(filepath.Join(private, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.mac(name, content))
	if err == nil {
		_, err = file.Write(content)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), f.path(name))
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name+suffix) }

func (f *Folder) mac(name string, content []byte) []byte {
	h := hmac.New(sha256.New, f.key)
	fmt.Fprintf(h, "%q\n", name)
	h.Write(content)
	return h.Sum(nil)
}

// prune removes everything but sealed files and recent private folders, and then the sealed files that were not used
// for the longest time until the rest fits the limit. It spares the file named latest. Files that another process
// removes meanwhile are not an error.
func (f *Folder) prune(latest string) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("pruning sealed files: %w", err)
	}
	var files []fs.FileInfo
	var total int64
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil: // removed meanwhile
		case info.Mode().IsRegular() && strings.HasSuffix(e.Name(), suffix):
			files, total = append(files, info), total+info.Size()
		case e.IsDir() && strings.HasPrefix(e.Name(), privatePrefix) && time.Since(info.ModTime()) < abandonedAfter:
		default:
			errs = append(errs, os.RemoveAll(filepath.Join(f.dir, e.Name())))
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if total <= f.limit {
			break
		}
		if info.Name() != latest+suffix {
			errs = append(errs, os.RemoveAll(filepath.Join(f.dir, info.Name())))
			total -= info.Size()
		}
	}
	return fault.Wrap(errors.Join(errs...), "pruning sealed files")
}
