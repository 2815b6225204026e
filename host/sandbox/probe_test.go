package sandbox

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
	"assay/registry"
	"assay/registry/expect"
)

// probe is the layer in testdata/probe, built by Go, and a sandbox that has compiled it.
type probe struct {
	box    *Sandbox
	module registry.Module
}

func TestProbe(t *testing.T) {
	t.Parallel()
	wasm := expect.Value(registry.CompileGo(t.Context(), "testdata/probe"))(t)
	pr := &probe{sandboxWithCache(t, cacheDir(t)), openModule(t, wasm)}
	closePlugin(t, open(t, pr.box, pr.module))
	expect.Each(t, map[string]func(*testing.T){
		"sees only its facts": pr.seesOnlyItsFacts, "recurses": pr.recurses, "keeps facts": pr.keepsFacts,
		"is traced": pr.traces, "has a skeleton": pr.hasSkeleton,
	}, func(t *testing.T, test func(*testing.T)) { test(t) })
}

type seen struct {
	text string
	fuel int64
}

// A layer built by Go sees stopped clocks, constant randomness and no environment, in every call of every instance.
func (pr *probe) seesOnlyItsFacts(t *testing.T) {
	var first seen
	for range 2 { // plugins, each with one instance
		p := openIn(t, pr.box, pr.module)
		for range 3 {
			result, err := p.Score(t.Context(), facts("example.org", "look"))
			if err != nil {
				t.Fatal(failureOf(t, err).Output.Text, err)
			}
			expect.Must(t, len(result.Signals) == 1, "%+v", result)
			got := seen{result.Signals[0].Text, result.Fuel}
			if first == (seen{}) {
				first = got
			}
			const want = "time 2000-01-01T00:00:00Z, passed 0s, environment 0, map order "
			expect.That(t, len(got.text) > len(want) && got.text[:len(want)] == want, "seen %q, want %q", got.text,
				want)
			expect.Equal(t, "seen", got, first)
		}
	}
}

// A layer built by Go can recurse as deeply as sdk/ABI.md section 5 guarantees, and fails if it recurses much deeper.
func (pr *probe) recurses(t *testing.T) {
	m := pr.module
	m.Manifest.BudgetFuel = 1 << 40 // copying a Go stack as it grows burns more than a manifest allows
	p := openIn(t, pr.box, m)
	recurse := func(depth int) (check.Result, error) {
		config := map[string]string{"mode": "recurse", "depth": strconv.Itoa(depth)}
		return p.Score(t.Context(), check.Input{Config: config})
	}
	for range 2 {
		for _, depth := range []int{10, recursionDepth} {
			result, err := recurse(depth)
			expect.Must(t, err == nil && result.Score == 10, "depth %d: %+v, %v", depth, result, err)
		}
		_, err := recurse(5 * recursionDepth)
		failure := failureOf(t, err)
		expect.That(t, failure.Reason == check.Trap && errors.Is(failure, errStackTooDeep), "too deep: %v", failure)
	}
}

// The layer reads facts of many lengths and keeps them. The SDK, which uses memory for several facts, must neither
// overwrite nor cut one. The instance is not restored between the calls.
func (pr *probe) keepsFacts(t *testing.T) {
	p := expect.Value(pr.box.OpenShared(t.Context(), pr.module))(t)
	t.Cleanup(func() { closePlugin(t, p) })
	config := map[string]string{"mode": "read", "count": "7"}
	for name, length := range map[string]int{"b": 0, "c": 1, "d": 700, "e": 4095, "f": 4096, "g": 9000} {
		config[name] = strings.Repeat(name, length)
	}
	want := []check.Signal{{Points: 7, Code: codeOne, Text: "Lengths: 0 0 1 700 4095 4096 9000, count: true"}}
	for range 3 {
		expect.NoDiff(t, "result", want, expect.Value(p.Score(t.Context(), check.Input{Config: config}))(t).Signals)
	}
}

// A trace has all that the layer reads, logs and prints. A call that is not traced keeps none of it.
func (pr *probe) traces(t *testing.T) {
	p, long := openIn(t, pr.box, pr.module), strings.Repeat("x", 5000)
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
			expect.That(t, c.err != "" && strings.Contains(text, c.err), "%s: %s, want %q", c.name, text, c.err)
		} else if c.err != "" {
			t.Errorf("%s: scored %+v, want %q", c.name, result, c.err)
		}
		expect.That(t, got.Fuel > 0 && got.Memory >= pageBytes && got.Time > 0 &&
			(err != nil || got.Fuel == result.Fuel), "%s: %+v; result %+v", c.name, got, result)
		printed, _, _ := strings.Cut(got.Printed, "\n")
		expect.That(t, printed == c.want.Printed, "%s: printed %q, want %q", c.name, printed, c.want.Printed)
		got.Printed, got.Fuel, got.Memory, got.Time = c.want.Printed, 0, 0, 0
		expect.NoDiff(t, c.name, c.want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "began" },
			cmp.Ignore()))
	}
}
