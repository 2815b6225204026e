package private_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"assay/host/internal/private"
	"assay/registry/expect"
)

func TestModes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	for _, c := range []struct {
		mode          fs.FileMode
		alone, shared fs.FileMode // that the error advises; 0: the file is read
	}{
		{0o600, 0, 0}, {0o400, 0, 0}, {0o640, 0o600, 0}, {0o620, 0o600, 0}, {0o610, 0o600, 0},
		{0o604, 0o600, 0o600}, {0o602, 0o600, 0o600}, {0o601, 0o600, 0o600}, {0o644, 0o600, 0o640},
		{0o444, 0o400, 0o440},
	} {
		expect.NoError(t, os.RemoveAll(file))
		expect.NoError(t, os.WriteFile(file, []byte("secret"), 0o600))
		expect.NoError(t, os.Chmod(file, c.mode))
		for name, read := range map[string]struct {
			file   func(string) ([]byte, error)
			advice fs.FileMode
		}{"alone": {private.Read, c.alone}, "with the group": {private.ReadWithGroup, c.shared}} {
			what := fmt.Sprintf("mode %o, %s", c.mode, name)
			text, err := read.file(file)
			if read.advice != 0 {
				expect.ErrorText(t, what, err, fmt.Sprintf("%s (mode %o): run chmod %o %[1]s", file, c.mode,
					read.advice))
				expect.Equal(t, what, string(text), "")
				continue
			}
			expect.NoError(t, err)
			expect.Equal(t, what, string(text), "secret")
		}
	}
	expect.Error(t, "no file", expect.ErrorOf(private.Read(filepath.Join(t.TempDir(), "missing"))), fs.ErrNotExist)
	folder := t.TempDir()
	expect.NoError(t, os.Chmod(folder, 0o755))
	expect.ErrorText(t, "a folder", expect.ErrorOf(private.Read(folder)), "is a directory")
}
