// Package private reads files with secrets, and refuses one to which too many users have access.
package private

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Read reads a file to which only its owner may have access.
func Read(path string) ([]byte, error) { return read(path, 0o077) }

// ReadWithGroup reads a file to which only its owner and its group may have access.
func ReadWithGroup(path string) ([]byte, error) { return read(path, 0o007) }

// read looks at the file that it reads, whatever the path names a moment later.
func read(path string, others fs.FileMode) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	mode := info.Mode().Perm()
	if mode&others != 0 && !info.IsDir() { // a folder cannot be read
		return nil, fmt.Errorf("other users have access to %s (mode %o): run chmod %o %s", path, mode, mode&^others,
			path)
	}
	return io.ReadAll(f)
}
