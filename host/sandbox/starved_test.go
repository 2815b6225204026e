//go:build !race

package sandbox

import (
	"os"
	"strings"
	"testing"

	"assay/registry/expect"
)

// A guest that gets no memory, because the machine has none, has no answer.
func TestStarvedGuest(t *testing.T) {
	t.Parallel()
	m := manifest()
	m["memory_mb"] = 64
	g := newGuest().limited(4, 1024)
	g.scoring(i32Const(900), opMemoryGrow, opDrop, returnScored)
	out, err := RunLimited(t.Context(), []string{os.Args[0], compilerPrefix + "starve"}, pack(t, g.encode(), m).Wasm)
	expect.NoError(t, err)
	expect.That(t, strings.Contains(string(out), "*sandbox.refusal: growing a guest's memory"), "the call ends with %s",
		out)
}
