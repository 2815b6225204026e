package generated

import (
	"os"
	"path/filepath"
	"testing"

	"assay/registry/expect"
)

// recorder is a test that records whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tables.go")
	t.Setenv("ASSAY_UPDATE", "1")
	Check(t, file, []byte("old"))
	t.Setenv("ASSAY_UPDATE", "")
	for want, fails := range map[string]bool{"old": false, "new": true} {
		r := &recorder{TB: t}
		if Check(r, file, []byte(want)); r.failed != fails {
			t.Errorf("a file that holds \"old\" and is to hold %q: failed is %v", want, r.failed)
		}
	}
	have, err := os.ReadFile(file)
	expect.That(t, err == nil && string(have) == "old", "the file holds %q, %v", have, err)
}
