package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/registry/expect"
)

func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "memory")
	for _, content := range []string{"a longer first one", "second", ""} {
		expect.NoError(t, WriteFile(path, []byte(content)))
		got, err := os.ReadFile(path)
		expect.That(t, err == nil && string(got) == content, "the file contains %q, %v, want %q", got, err, content)
	}
	info, err := os.Stat(path)
	expect.That(t, err == nil && info.Mode() == 0o600, "the file's mode is %v, %v", info.Mode(), err)
	expect.NoError(t, errors.Join(os.Chmod(path, 0o644), WriteFile(path, []byte("third"))))
	expect.Equal(t, "the mode that the file had", expect.Value(os.Stat(path))(t).Mode(), 0o644)

	// A file that cannot be replaced stays as it was, and leaves no other one.
	path = filepath.Join(dir, "folder")
	expect.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	expect.Failure(t, WriteFile(path, []byte("text")), "a folder that is not empty was replaced by a file")
	files, err := os.ReadDir(dir)
	expect.That(t, err == nil && len(files) == 2, "the folder contains %v, %v", files, err)
	expect.Failure(t, WriteFile(filepath.Join(dir, "missing", "memory"), nil),
		"a file was written into a folder that does not exist")
}
