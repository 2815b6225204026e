// Package generated compares generated files with what their tests generate.
package generated

import (
	"bytes"
	"os"
	"testing"
)

// Check fails if the file in the test's folder does not hold want. With ASSAY_UPDATE set it writes the file instead.
func Check(t testing.TB, file string, want []byte) {
	t.Helper()
	if os.Getenv("ASSAY_UPDATE") != "" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is out of date: run ASSAY_UPDATE=1 go test -run %s in its folder", file, t.Name())
	}
}
