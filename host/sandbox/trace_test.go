package sandbox

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
)

// TestTrace calls a Go layer that reads facts, logs and prints, and sees all of it. A call that is not traced keeps
// none of it.
func TestTrace(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), buildGo(t, "traced"))
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		name, mode string
		want       Trace
		err        string // of the call; empty if it scores
	}{
		{"a score", "score", Trace{
			Facts: []FactRead{{"config.mode", "score", true, true}, {"config.absent", "", false, true},
				{"config.undeclared", "", false, false}},
			Signals: []check.Signal{{Points: 7, Code: codeOne, Text: "One"}},
			Log:     []LogLine{{-4, "fine"}, {4, "less\nfine"}},
		}, ""},
		{"a refused answer", "refused", Trace{
			Facts:   []FactRead{{"config.mode", "refused", true, true}},
			Signals: []check.Signal{{Points: 7, Code: codeOne, Text: "One"}},
		}, `no signal code "a:b:c"`},
		{"a crash", "crash", Trace{
			Facts: []FactRead{{"config.mode", "crash", true, true}}, Printed: "panic: on purpose",
		}, "unreachable"},
		{"a long line", "long", Trace{
			Facts: []FactRead{{"config.mode", "long", true, true}, {"config.text", long, true, true}},
			Log:   []LogLine{{0, long[:4096]}}, Dropped: 5000 - 4096 + 1 + len("another\n"),
		}, ""},
	} {
		config := map[string]string{"mode": c.mode, "text": long, "undeclared": "yes"}
		result, got, err := p.Trace(t.Context(), check.Input{Config: config})
		if err != nil {
			text := failureOf(t, err).Unwrap().Error()
			if c.err == "" || !strings.Contains(text, c.err) {
				t.Errorf("%s: %s, want %q", c.name, text, c.err)
			}
		} else if c.err != "" {
			t.Errorf("%s: scored %+v, want %q", c.name, result, c.err)
		}
		if got.Fuel <= 0 || got.Memory < pageBytes || got.Time <= 0 || err == nil && got.Fuel != result.Fuel {
			t.Errorf("%s: fuel %d, memory %d, time %v; result %+v", c.name, got.Fuel, got.Memory, got.Time, result)
		}
		if printed, _, _ := strings.Cut(got.Printed, "\n"); printed != c.want.Printed {
			t.Errorf("%s: printed %q, want %q", c.name, printed, c.want.Printed)
		}
		got.Printed, got.Fuel, got.Memory, got.Time = c.want.Printed, 0, 0, 0
		if diff := cmp.Diff(c.want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "began" },
			cmp.Ignore())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
