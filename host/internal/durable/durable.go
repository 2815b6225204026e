// Package durable writes files so that each survives a crash at any moment as a whole.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"assay/registry/fault"
)

// WriteFile replaces a file, or creates one that only its owner can read. When it returns, the content and the name are
// on disk. After a crash before that, the file has the old content or the new one. The file keeps its owner and mode,
// so that a command run once as root does not lock out the user who runs the host.
func WriteFile(path string, content []byte) error {
	return write(path, content, os.Rename)
}

// CreateFile is like WriteFile, but leaves a file that exists as it is. If several processes create it at once, it has
// the content of one of them.
func CreateFile(path string, content []byte) error {
	return write(path, content, func(from, to string) error {
		if err := os.Link(from, to); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// write writes a temporary file, and calls put to give it the name path.
func write(path string, content []byte, put func(from, to string) error) (err error) {
	defer fault.WrapAll(&err, "writing %s", path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // the temporary name, unless it is renamed
	if before, missing := os.Stat(path); missing == nil {
		owner, mode := before.Sys().(*syscall.Stat_t), before.Mode().Perm()
		if err = f.Chown(int(owner.Uid), int(owner.Gid)); err != nil && os.Geteuid() != 0 {
			err, mode = nil, mode&^0o070 // that of another group
		}
		err = errors.Join(err, f.Chmod(mode))
	}
	_, writeErr := f.Write(content)
	if err := errors.Join(err, writeErr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := put(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes renames inside a folder durable.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
