package sandbox

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
)

// TestSDKKeepsFacts runs a Go layer that reads facts of many lengths and keeps them. The SDK reads facts into memory
// that it uses for several of them, and must neither overwrite nor cut one. The instance is not restored between the
// calls.
func TestSDKKeepsFacts(t *testing.T) {
	t.Parallel()
	p, err := sandboxOf(t, 1).OpenShared(t.Context(), buildGo(t, "reads"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePlugin(t, p) })
	config := map[string]string{"count": "7"}
	for name, length := range map[string]int{"b": 0, "c": 1, "d": 700, "e": 4095, "f": 4096, "g": 9000} {
		config[name] = strings.Repeat(name, length)
	}
	want := []check.Signal{{Points: 7, Code: codeOne, Text: "Lengths: 0 0 1 700 4095 4096 9000, count: true"}}
	for range 3 {
		got, err := p.Score(t.Context(), check.Input{Config: config})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Signals); diff != "" {
			t.Error(diff)
		}
	}
}
