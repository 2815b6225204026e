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

// ReadAny reads a file regardless of who has access to it, and reports whether every user of the machine has.
func ReadAny(path string) (data []byte, public bool, err error) {
	f, info, err := open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err = io.ReadAll(f)
	return data, info.Mode().IsRegular() && info.Mode()&0o004 != 0, err
}

func read(path string, others fs.FileMode) ([]byte, error) {
	f, info, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	mode := info.Mode().Perm()
	if mode&others != 0 && !info.IsDir() { // a folder cannot be read
		return nil, fmt.Errorf("other users have access to %s (mode %o): run chmod %o %s", path, mode, mode&^others,
			path)
	}
	return io.ReadAll(f)
}

// open returns an open file and its info. Both describe the same file, even if the path is replaced meanwhile.
func open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
