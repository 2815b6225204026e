package server

import (
	"os"
	"path/filepath"
	"testing"

	"assay/host/installation"
	"assay/registry/expect"
)

func TestDemoKeyThatOthersCanRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "demo-key")
	expect.NoError(t, os.WriteFile(file, []byte("assay_x\n"), 0o600))
	expect.NoError(t, os.Chmod(file, 0o640))
	_, err := demoKey(t.Context(), &installation.Config{DataDir: dir}, nil)
	expect.ErrorText(t, "a key that a group can read", err, file+" (mode 640): run chmod 600 "+file)
	expect.NoError(t, os.Chmod(file, 0o600))
	key := expect.Value(demoKey(t.Context(), &installation.Config{DataDir: dir}, nil))(t)
	expect.Equal(t, "key", key, "assay_x")
}
