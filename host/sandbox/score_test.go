package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry"
	"assay/registry/expect"
	"assay/sdk"
)

// The guest returns the result of fact plus 1000, and logs the buffer.
func TestFact(t *testing.T) {
	t.Parallel()
	const untouched = "................"
	long := strings.Repeat("v", 70_000)
	type testCase struct {
		fact     string
		capacity int
		value    string
		want     int
		buffer   string
	}
	expect.Each(t, map[string]testCase{
		"present":              {"entity.value", 16, "example.org", 11, "example.org....."},
		"fills the buffer":     {"entity.value", 11, "example.org", 11, "example.org....."},
		"buffer one too small": {"entity.value", 10, "example.org", 11, untouched},
		"no buffer":            {"entity.value", 0, "example.org", 11, untouched},
		"larger than memory":   {"entity.value", 16, long, 70_000, untouched},
		"unsigned capacity":    {"entity.value", -1, "example.org", 11, "example.org....."},
		"setting of a lineup":  {"config.mode", 16, "x", 5, "brisk..........."},
		"undeclared":           {"entity.type", 16, "x", -1, untouched},
		"empty name":           {"", 16, "x", -1, untouched},
		"name too long":        {"entity.value" + strings.Repeat("x", sdk.MaxFactName), 16, "x", -1, untouched},
	}, func(t *testing.T, test testCase) {
		g, fill := newGuest(), concat(i32Const(bufferAt), i32Const('.'), i32Const(16), opMemoryFill)
		logBuffer := concat(i32Const(0), i32Const(bufferAt), i32Const(16), callFunc(fnLog))
		p := openGuest(t, g.scoring(fill, g.fact(test.fact, test.capacity), localSet(0), logBuffer,
			localGet(0), i32Const(1000), opAdd))
		failure := failureOf(t, expect.ErrorOf(p.Score(t.Context(), facts(test.value, "brisk"))))
		want := fmt.Sprintf("the layer returned %d, a failure", 1000+test.want)
		expect.That(t, failure.Reason == check.Trap && strings.Contains(failure.Err.Error(), want), "%v, want %s",
			failure, want)
		expect.That(t, failure.Output.Text == test.buffer+"\n", "buffer %q, want %q", failure.Output.Text, test.buffer)
	})
}

// Every host function traps the guest if a pointer is outside its memory.
func TestPointersOutsideTrap(t *testing.T) {
	t.Parallel()
	const page = 65536
	name := newGuest().text("entity.value") // at dataAt in each guest below
	span := func(ptr, length int) []byte { return concat(i32Const(ptr), i32Const(length)) }
	spans := map[string][]byte{
		"one byte beyond": span(page-1, 2), "highest address and length": span(-1, -1),
		"more than the whole memory": span(0, -1),
	}
	calls := map[string]func(bad []byte) []byte{
		"fact, name": func(bad []byte) []byte {
			return concat(bad, i32Const(bufferAt), i32Const(16), callFunc(fnFact), opDrop)
		},
		"signal, code": func(bad []byte) []byte { return concat(i32Const(1), bad, name, callFunc(fnSignal)) },
		"signal, text": func(bad []byte) []byte { return concat(i32Const(1), name, bad, callFunc(fnSignal)) },
		"threat":       func(bad []byte) []byte { return concat(bad, callFunc(fnThreat)) },
		"log":          func(bad []byte) []byte { return concat(i32Const(0), bad, callFunc(fnLog)) },
	}
	box := sandboxOf(t, 1)
	try := func(what string, body []byte) {
		g := newGuest()
		g.text("entity.value")
		p := openIn(t, box, pack(t, g.scoring(body, returnScored).encode(), manifest()))
		failure := failureOf(t, expect.ErrorOf(p.Score(t.Context(), facts("example.org", ""))))
		expect.That(t, failure.Reason == check.Trap &&
			strings.Contains(failure.Err.Error(), "outside its memory of 65536"), "%s: %v", what, failure)
	}
	for call, body := range calls {
		for where, bad := range spans {
			try(call+" "+where, body(bad))
		}
	}
	for where, bad := range map[string]int{"one byte short": page - 10, "at the end": page, "highest address": -1} {
		try("fact, buffer "+where, concat(name, i32Const(bad), i32Const(11), callFunc(fnFact), opDrop))
	}
}

// Ranges that end at the end of the memory, and empty ranges, are inside it.
func TestPointersAtTheEndDoNotTrap(t *testing.T) {
	t.Parallel()
	g := newGuest()
	p := openGuest(t, g.scoring(i32Const(0), i32Const(65535), i32Const(1), callFunc(fnLog),
		i32Const(0), i32Const(65536), i32Const(0), callFunc(fnLog),
		g.text("entity.value"), i32Const(65536-11), i32Const(11), callFunc(fnFact), opDrop,
		// the value does not fit, so nothing is copied
		g.text("entity.value"), i32Const(-1), i32Const(3), callFunc(fnFact), opDrop,
		g.signal(5, codeOne, "Inside"), returnScored))
	result, err := p.Score(t.Context(), facts("example.org", ""))
	expect.That(t, err == nil && result.Score == 5, "%+v, %v", result, err)
}

// TestAnswers checks what the host makes of the answers of a layer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	type code = func(g *guest) []byte
	type answer struct {
		check.Result
		failure check.FailureReason
		text    string
	}
	signal := func(points int, code string) check.Signal {
		return check.Signal{Points: points, Code: code, Text: "Because"}
	}
	one := func(points int) check.Signal { return signal(points, codeOne) }
	many := func(n, points int) []check.Signal {
		list := make([]check.Signal, n)
		for i := range list {
			list[i] = one(points)
		}
		return list
	}
	scored := func(score int, threat string, signals ...check.Signal) answer {
		return answer{Result: check.Result{Score: score, Threat: threat, Signals: signals}}
	}
	fails := func(reason check.FailureReason, text string) answer { return answer{failure: reason, text: text} }
	refused := func(text string) answer { return fails(check.Refused, text) }

	nothing := func(*guest) []byte { return nil }
	emit := func(points ...int) code {
		return func(g *guest) []byte {
			var body []byte
			for _, p := range points {
				body = append(body, g.signal(p, codeOne, "Because")...)
			}
			return body
		}
	}
	emitRepeatedly := func(n int) code {
		return func(g *guest) []byte { return repeat(n, g.signal(1, codeOne, "Because")) }
	}
	emitCode := func(code string) code { return func(g *guest) []byte { return g.signal(1, code, "Because") } }
	emitText := func(text string) code { return func(g *guest) []byte { return g.signal(1, codeOne, text) } }
	threats := func(names ...string) code {
		return func(g *guest) []byte {
			var body []byte
			for _, name := range names {
				body = append(body, g.threat(name)...)
			}
			return body
		}
	}
	type testCase struct {
		body    code
		outcome int
		want    answer
	}
	expect.Each(t, map[string]testCase{
		"nothing":    {nothing, 0, scored(0, "")},
		"one signal": {emit(60), 0, scored(60, "", one(60))},
		"sum of two signals": {func(g *guest) []byte {
			return concat(g.signal(60, codeOne, "Because"), g.signal(-15, codeTwo, "Because"))
		}, 0, scored(45, "", one(60), signal(-15, codeTwo))},
		"sum over 100": {emit(100, 1), 0, scored(100, "", one(100), one(1))},
		"sum below 0":  {emit(-100), 0, scored(0, "", one(-100))},
		"sum clamped only at the end": {emit(100, 100, -100, -40), 0,
			scored(60, "", one(100), one(100), one(-100), one(-40))},
		"64 signals":     {emitRepeatedly(64), 0, scored(64, "", many(64, 1)...)},
		"-101 points":    {emit(-101), 0, refused("-101 points")},
		"2^31-1 points":  {emit(1<<31 - 1), 0, refused("2147483647 points")},
		"empty code":     {emitCode(""), 0, refused("no signal code")},
		"code not UTF-8": {emitCode("\xff\xfe"), 0, refused("no signal code")},
		"text of 240 bytes": {emitText(strings.Repeat("x", 240)), 0,
			scored(1, "", check.Signal{Points: 1, Code: codeOne, Text: strings.Repeat("x", 240)})},
		"text of 241 bytes": {emitText(strings.Repeat("x", 241)), 0,
			scored(1, "", check.Signal{Points: 1, Code: codeOne, Text: strings.Repeat("x", 234) + "…"})},
		"text with an ANSI escape": {emitText("\x1b[2J"), 0, refused("control character U+001B")},
		"text like the host's":     {emitText("ASSAY： Nothing found"), 0, refused("the host's own")},
		"threat":                   {threats("scam"), 0, scored(0, "scam")},
		"last threat counts":       {threats("scam", "phishing"), 0, scored(0, "phishing")},
		"unknown threat":           {threats("<script>"), 0, refused("no threat")},
		"empty threat":             {threats(""), 0, refused("no threat")},
		"first violation is reported": {func(g *guest) []byte {
			return concat(g.threat("malware"), g.signal(101, codeOne, "Because"))
		}, 0, refused("no threat")},
		"abstains":               {emit(60), 1, answer{Result: check.Result{Abstained: true}}},
		"violation and abstains": {emit(101), 1, refused("101 points")},
		"returns 2":              {emit(60), 2, fails(check.Trap, "returned 2")},
	}, func(t *testing.T, test testCase) {
		g := newGuest()
		p := openGuest(t, g.scoring(test.body(g), i32Const(test.outcome)))
		for range 2 { // the second call starts without signals
			result, err := p.Score(t.Context(), facts("example.org", ""))
			if test.want.failure != "" {
				failure := failureOf(t, err)
				expect.That(t, failure.Reason == test.want.failure && strings.Contains(failure.Err.Error(),
					test.want.text), "%v, want %s with %q", failure, test.want.failure, test.want.text)
				continue
			}
			expect.NoError(t, err)
			result.Fuel = 0
			expect.NoDiff(t, "result", test.want.Result, result)
		}
	})
}

func TestLogIsLimited(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 99)
	lines := func(n int) func() []byte {
		g := newGuest()
		return g.scoring(repeat(n, g.log(line)), i32Const(2)).encode
	}
	kept := strings.Repeat(line+"\n", 100)
	dropped := func(n int) string { return fmt.Sprintf(" [%d bytes more]", n-sdk.LogBytes) }
	type testCase struct {
		wasm func() []byte
		want string
	}
	expect.Each(t, map[string]testCase{
		"one line":         {lines(1), kept[:100]},
		"over the limit":   {lines(42), kept[:sdk.LogBytes] + " [104 bytes more]"},
		"50,000 lines":     {lines(50_000), kept[:sdk.LogBytes] + dropped(50_000*100)},
		"10 MiB in a line": {loggingBytes(10 << 20), strings.Repeat("x", sdk.LogBytes) + dropped(10<<20+1)},
		"format verbs":     {logging("%s%n%!d(MISSING)"), "%s%n%!d(MISSING)\n"},
	}, func(t *testing.T, test testCase) {
		p := openIn(t, sandboxOf(t, 1), hostileGuest{wasm: test.wasm, memoryMB: 64}.module())
		got := failureOf(t, expect.ErrorOf(p.Score(t.Context(), facts("x", "")))).Output.Text
		expect.That(t, got == test.want, "%d bytes of output, ending in %q", len(got), got[max(0, len(got)-40):])
	})
}

func TestMemoryIsLimitedByManifest(t *testing.T) {
	t.Parallel()
	type testCase struct {
		maxPages uint32 // of the module
		pages    int    // to grow by
		want     int    // result of memory.grow
		memoryMB int    // of the manifest
	}
	expect.Each(t, map[string]testCase{
		"up to the limit":              {65536, 15, 1, 1},
		"over the module's maximum":    {4, 4, -1, 1},
		"one page over a larger limit": {65536, 32, -1, 2},
	}, func(t *testing.T, test testCase) {
		g := scoring(i32Const(test.pages), opMemoryGrow, i32Const(1000), opAdd).limited(1, test.maxPages)
		m := hostileGuest{wasm: g.encode, fuel: registry.MaxBudget, memoryMB: test.memoryMB}.module()
		_, err := openIn(t, sandboxOf(t, 1), m).Score(t.Context(), facts("x", ""))
		expect.ErrorText(t, "the call", failureOf(t, err).Err, fmt.Sprintf("returned %d,", 1000+test.want))
	})
}

// The log says that a text was cut, but not at which length, which the guest can choose.
func TestLogOfACutText(t *testing.T) {
	t.Parallel()
	log, out := logged()
	g := newGuest()
	m := pack(t, g.scoring(g.signal(1, codeOne, strings.Repeat("x", 4711)), returnScored).encode(), manifest())
	p := openIn(t, New(Config{Instances: 1, Logger: log}), m)
	expect.NoError(t, expect.ErrorOf(p.Score(t.Context(), facts(testEntity, ""))))
	expect.That(t, strings.Contains(out.String(), "was cut") && !strings.Contains(out.String(), "4711"), "log: %s", out)
}

// A failure's own text is one of the host's sentences. What the guest can choose is in the details for its author only.
func TestFailureTextIsTheHosts(t *testing.T) {
	t.Parallel()
	const spelled, number = "h.o.s.t.i.l.e", 491511234
	signal := func(points int, code, text string) func(*guest) []byte {
		return func(g *guest) []byte { return g.signal(points, code, text) }
	}
	threat := func(g *guest) []byte { return g.threat(spelled) }
	running := func(code ...[]byte) func(*guest) []byte { return func(*guest) []byte { return concat(code...) } }
	type testCase struct {
		code func(*guest) []byte
		want string
	}
	expect.Each(t, map[string]testCase{
		"code":      {signal(1, spelled, "x"), "refused: the manifest does not declare the signal"},
		"text":      {signal(1, codeOne, spelled+"\n"), "refused: a signal's text cannot be shown to a person"},
		"long code": {signal(1, strings.Repeat(spelled, 9), "x"), "refused: a signal's code is too long"},
		"points":    {signal(number, codeOne, "x"), "refused: a signal is worth too many points"},
		"threat":    {threat, "refused: the manifest does not declare the threat"},
		"pointer": {running(i32Const(0), i32Const(number), i32Const(4), callFunc(fnLog)),
			"trap: a pointer or a length is outside of the memory"},
		"outcome": {running(i32Const(number), opReturn), "trap: the layer returned a failure"},
		"exit":    {running(i32Const(number), callFunc(fnLog+1)), "trap: the layer exited"},
		"crash":   {running(opUnreachable), "trap: the layer crashed"},
		"fuel":    {running(endless()), "fuel: the fuel ran out"},
	}, func(t *testing.T, c testCase) {
		g := newGuest().importing(wasiExitImport)
		p := openGuest(t, g.scoring(g.log(spelled), i32Const(4), g.text(spelled+"\n"), callFunc(fnLog),
			c.code(g), returnScored))
		failure := failureOf(t, expect.ErrorOf(p.Score(t.Context(), facts(testEntity, ""))))
		expect.Equal(t, "Error", failure.Error(), c.want)
		want := check.Output{Text: spelled + "\n" + spelled + "\n\n", Lines: 3, Bytes: 2*len(spelled) + 3, Level: 4}
		expect.Equal(t, "output", failure.Output, want)
	})
}
