package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
	"assay/sdk"
)

// lossOf returns the loss that an error is, as every error of Score must be.
func lossOf(t *testing.T, err error) *check.Failure {
	t.Helper()
	var lost *check.Failure
	if !errors.As(err, &lost) {
		t.Fatalf("%v is not a *check.Lost", err)
	}
	return lost
}

// A guest answers with what fact returned, and logs what stands in the buffer.
func TestFact(t *testing.T) {
	t.Parallel()
	const canary = "................"
	long := strings.Repeat("v", 70_000)
	for name, test := range map[string]struct {
		fact     string
		capacity int32
		value    string
		want     int
		buffer   string
	}{
		"present":              {"entity.value", 16, "example.org", 11, "example.org....."},
		"fills the buffer":     {"entity.value", 11, "example.org", 11, "example.org....."},
		"buffer one too small": {"entity.value", 10, "example.org", 11, canary},
		"no buffer":            {"entity.value", 0, "example.org", 11, canary},
		"larger than memory":   {"entity.value", 16, long, 70_000, canary},
		"unsigned capacity":    {"entity.value", -1, "example.org", 11, "example.org....."},
		"lineup's setting":     {"config.mode", 16, "x", 5, "brisk..........."},
		"unknown":              {"entity.unknown", 16, "x", -1, canary},
		"undeclared":           {"entity.type", 16, "x", -1, canary},
		"empty name":           {"", 16, "x", -1, canary},
		"prefix of a name":     {"entity.valu", 16, "x", -1, canary},
		"endless name":         {"entity.value" + strings.Repeat("x", sdk.MaxFactName), 16, "x", -1, canary},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuest()
			var fill []byte
			for i := range int32(4) {
				fill = append(fill, join(i32c(bufAt+4*i), i32c(0x2e2e2e2e), store())...)
			}
			p := opened(t, g.scoring(fill, g.fact(test.fact, test.capacity), localSet(0),
				i32c(0), i32c(bufAt), i32c(16), invoke(callLog), localGet(0), i32c(1000), add()))
			_, err := p.Score(t.Context(), facts(test.value, "brisk"))
			lost := lossOf(t, err)
			if want := fmt.Sprintf("the layer returned %d, a failure",
				1000+test.want); lost.Reason != check.Trap || !strings.Contains(lost.Error(), want) {
				t.Errorf("%v, want %s", lost, want)
			}
			if lost.Output != test.buffer+"\n" {
				t.Errorf("buffer %q, want %q", lost.Output, test.buffer)
			}
		})
	}
}

// A pointer outside the guest's memory traps the guest, whichever function it is given to.
func TestPointersOutsideTrap(t *testing.T) {
	t.Parallel()
	const page = 65536
	name := newGuest().text("entity.value") // at dataAt in each guest below
	span := func(ptr, length int32) []byte { return join(i32c(ptr), i32c(length)) }
	spans := map[string][]byte{
		"one byte beyond": span(page-1, 2), "at the end": span(page, 1), "far beyond": span(2*page, 1),
		"the highest address": span(-1, 1), "the highest address and length": span(-1, -1),
		"all there is and more": span(0, -1),
	}
	calls := map[string]func(bad []byte) []byte{
		"fact, name":   func(bad []byte) []byte { return join(bad, i32c(bufAt), i32c(16), invoke(callFact), drop()) },
		"signal, code": func(bad []byte) []byte { return join(i32c(1), bad, name, invoke(callSignal)) },
		"signal, text": func(bad []byte) []byte { return join(i32c(1), name, bad, invoke(callSignal)) },
		"threat":       func(bad []byte) []byte { return join(bad, invoke(callThreat)) },
		"log":          func(bad []byte) []byte { return join(i32c(0), bad, invoke(callLog)) },
	}
	box := sandboxOf(t, 1)
	try := func(what string, body []byte) {
		g := newGuest()
		g.text("entity.value")
		p := openIn(t, box, pack(t, g.scoring(body, i32c(0)).encode(), manifest()))
		_, err := p.Score(t.Context(), facts("example.org", ""))
		if lost := lossOf(t, err); lost.Reason != check.Trap ||
			!strings.Contains(lost.Error(), "outside its memory of 65536") {
			t.Errorf("%s: %v", what, lost)
		}
	}
	for call, body := range calls {
		for where, bad := range spans {
			try(call+" "+where, body(bad))
		}
	}
	for where, bad := range map[string]int32{"one byte short": page - 10, "at the end": page,
		"the highest address": -1} {
		try("fact, buffer "+where, join(name, i32c(bad), i32c(11), invoke(callFact), drop()))
	}
}

// What lies at the very edge, or is empty, is inside.
func TestPointersAtTheEdgeDoNotTrap(t *testing.T) {
	t.Parallel()
	g := newGuest()
	p := opened(t, g.scoring(
		i32c(0), i32c(65535), i32c(1), invoke(callLog),
		i32c(0), i32c(65536), i32c(0), invoke(callLog),
		g.text("entity.value"), i32c(65536-11), i32c(11), invoke(callFact), drop(),
		// too small: nothing is copied, so nothing is touched
		g.text("entity.value"), i32c(-1), i32c(3), invoke(callFact), drop(),
		g.signal(5, codeOne, "Edges hold"), i32c(0)))
	if result, err := p.Score(t.Context(), facts("example.org", "")); err != nil || result.Score != 5 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	type answer struct {
		check.Result
		lost check.FailureReason
		why  string
	}
	one := func(points int) check.Signal { return check.Signal{Points: points, Code: codeOne, Text: "Because"} }
	many := func(n, points int) []check.Signal {
		list := make([]check.Signal, n)
		for i := range list {
			list[i] = one(points)
		}
		return list
	}
	refused := func(why string) answer { return answer{lost: check.Refused, why: why} }
	scored := func(score int, threat string, signals ...check.Signal) answer {
		return answer{Result: check.Result{Score: score, Threat: threat, Signals: signals}}
	}
	for name, test := range map[string]struct {
		body func(g *guest) []byte // returns nothing: 0 is returned for it
		code int32
		want answer
	}{
		"nothing": {func(*guest) []byte { return nil }, 0, scored(0, "")},
		"one signal": {func(g *guest) []byte { return g.signal(60, codeOne, "Because") }, 0,
			scored(60, "", one(60))},
		"signals add up": {func(g *guest) []byte {
			return join(g.signal(60, codeOne, "Because"),
				g.signal(-15, codeTwo, "But"))
		}, 0, scored(45, "", one(60), check.Signal{Points: -15, Code: codeTwo, Text: "But"})},
		"sum over 100": {func(g *guest) []byte {
			return join(g.signal(100, codeOne, "Because"),
				g.signal(1, codeOne, "Because"))
		}, 0, scored(100, "", one(100), one(1))},
		"sum under 0": {func(g *guest) []byte { return g.signal(-100, codeOne, "Because") }, 0,
			scored(0, "", one(-100))},
		"sum in the end": {func(g *guest) []byte {
			return join(g.signal(100, codeOne, "Because"), g.signal(100, codeOne, "Because"),
				g.signal(-100, codeOne, "Because"), g.signal(-40, codeOne, "Because"))
		}, 0, scored(60, "", one(100), one(100), one(-100), one(-40))},
		"64 signals": {func(g *guest) []byte { return times(64, g.signal(1, codeOne, "Because")) }, 0,
			scored(64, "", many(64, 1)...)},
		"65 signals": {func(g *guest) []byte { return times(65, g.signal(1, codeOne, "Because")) }, 0,
			refused("more than 64 signals")},
		"101 points": {func(g *guest) []byte { return g.signal(101, codeOne, "Because") }, 0,
			refused("101 points")},
		"-101 points": {func(g *guest) []byte { return g.signal(-101, codeOne, "Because") }, 0,
			refused("-101 points")},
		"2^31-1 points": {func(g *guest) []byte { return g.signal(1<<31-1, codeOne, "Because") }, 0,
			refused("2147483647 points")},
		"undeclared code": {func(g *guest) []byte { return g.signal(1, "test:signal:other", "Because") }, 0,
			refused(`no signal code "test:signal:other"`)},
		"empty code": {func(g *guest) []byte { return g.signal(1, "", "Because") }, 0,
			refused("no signal code")},
		"code of bad UTF-8": {func(g *guest) []byte { return g.signal(1, "\xff\xfe", "Because") }, 0,
			refused("no signal code")},
		"empty text": {func(g *guest) []byte { return g.signal(1, codeOne, "") }, 0, refused("empty")},
		"text of 240 bytes": {func(g *guest) []byte { return g.signal(1, codeOne, strings.Repeat("x", 240)) },
			0, scored(1, "", check.Signal{Points: 1, Code: codeOne, Text: strings.Repeat("x", 240)})},
		"text of 241 bytes": {func(g *guest) []byte { return g.signal(1, codeOne, strings.Repeat("x", 241)) },
			0, refused("241 bytes")},
		"text of bad UTF-8": {func(g *guest) []byte { return g.signal(1, codeOne, "a\xffb") }, 0,
			refused("not UTF-8")},
		"text with escapes": {func(g *guest) []byte { return g.signal(1, codeOne, "\x1b[2J") }, 0,
			refused("control character U+001B")},
		"text with NUL": {func(g *guest) []byte { return g.signal(1, codeOne, "a\x00b") }, 0,
			refused("control character U+0000")},
		"threat": {func(g *guest) []byte { return g.threat("scam") }, 0, scored(0, "scam")},
		"last threat counts": {func(g *guest) []byte { return join(g.threat("scam"), g.threat("phishing")) }, 0,
			scored(0, "phishing")},
		"undeclared threat": {func(g *guest) []byte { return g.threat("malware") }, 0,
			refused(`no threat "malware"`)},
		"unknown threat": {func(g *guest) []byte { return g.threat("<script>") }, 0, refused("no threat")},
		"empty threat":   {func(g *guest) []byte { return g.threat("") }, 0, refused("no threat")},
		"first fault counts": {func(g *guest) []byte {
			return join(g.threat("malware"),
				g.signal(101, codeOne, "Because"))
		}, 0, refused("no threat")},
		"abstains": {func(g *guest) []byte { return g.signal(60, codeOne, "Because") }, 1,
			answer{Result: check.Result{Abstained: true}}},
		"refused before it abstains": {func(g *guest) []byte { return g.signal(101, codeOne, "Because") }, 1,
			refused("101 points")},
		"returns 2": {func(g *guest) []byte { return g.signal(60, codeOne, "Because") }, 2,
			answer{lost: check.Trap, why: "returned 2"}},
		"returns -1": {func(*guest) []byte { return nil }, -1,
			answer{lost: check.Trap, why: "returned -1"}},
		"returns 2^31-1": {func(*guest) []byte { return nil }, 1<<31 - 1,
			answer{lost: check.Trap, why: "returned 2147483647"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuest()
			p := opened(t, g.scoring(test.body(g), i32c(test.code)))
			for range 2 { // the second call starts from nothing again
				result, err := p.Score(t.Context(), facts("example.org", ""))
				if test.want.lost != "" {
					lost := lossOf(t, err)
					if lost.Reason != test.want.lost || !strings.Contains(lost.Error(), test.want.why) {
						t.Errorf("%v, want %s with %q", lost, test.want.lost, test.want.why)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				result.Fuel = 0
				if diff := cmp.Diff(test.want.Result, result); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 99)
	for name, test := range map[string]struct {
		lines int32
		kept  int
		note  string
	}{
		"one line":      {1, 100, ""},
		"just as much":  {40, 4000, ""},
		"too much":      {42, sdk.LogBytes, " [104 bytes more]"},
		"many megabyte": {50_000, sdk.LogBytes, fmt.Sprintf(" [%d bytes more]", 50_000*100-sdk.LogBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuest()
			m := pack(t, g.scoring(times(test.lines, g.log(line)), i32c(2)).encode(), manifest())
			m.Manifest.BudgetMS = 10_000 // a busy machine
			p := openIn(t, sandboxOf(t, 1), m)
			_, err := p.Score(t.Context(), facts("x", ""))
			lost := lossOf(t, err)
			want := strings.Repeat(line+"\n", int(test.lines))[:test.kept] + test.note
			if lost.Output != want {
				t.Errorf("%d bytes of output, ending in %q", len(lost.Output),
					lost.Output[max(0, len(lost.Output)-40):])
			}
		})
	}
}

func TestMemoryEndsWhereTheManifestSays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		max    uint32 // of the module itself
		pages  int32
		want   int
		memory int
	}{
		"up to the limit":        {65536, 15, 1, 1},
		"one page beyond":        {65536, 16, -1, 1},
		"all at once":            {65536, 65535, -1, 1},
		"below the module's own": {4, 3, 1, 1},
		"beyond the module's":    {4, 4, -1, 1},
		"larger manifest":        {65536, 31, 1, 2},
		"beyond it":              {65536, 32, -1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuest().scoring(i32c(test.pages), growMemory(), i32c(1000), add())
			g.memory.max = test.max
			described := manifest()
			described["memory_mb"] = test.memory
			p := openIn(t, sandboxOf(t, 1), pack(t, g.encode(), described))
			_, err := p.Score(t.Context(), facts("x", ""))
			if want := fmt.Sprintf("returned %d,", 1000+test.want); !strings.Contains(lossOf(t, err).Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// A call that begins too late does not run, and costs no instance.
func TestEndedContextCostsNoInstance(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), pack(t, scores(7).encode(), manifest()))
	before := <-p.pool.idle
	p.pool.idle <- before
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if result, err := p.Score(late, facts("x", "")); err != nil {
		if lost := lossOf(t, err); lost.Reason != check.Timeout {
			t.Errorf("%v, want a timeout", lost)
		}
	} else if result.Score != 7 {
		t.Errorf("%+v", result)
	}
	if after := <-p.pool.idle; after != before {
		t.Error("the instance was replaced")
		p.pool.idle <- after
	} else {
		p.pool.idle <- before
	}
	if result, err := p.Score(t.Context(), facts("x", "")); err != nil || result.Score != 7 {
		t.Errorf("%+v, %v", result, err)
	}
}
