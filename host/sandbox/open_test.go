package sandbox

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

// Open describes what a module lacks of the interface, or imports beyond it. refusedGuests has more defects.
func TestOpenDescribesDefects(t *testing.T) {
	t.Parallel()
	because := func() *guest { return signalling(1, codeOne, "Because") }
	with := func(change func(*guest)) *guest {
		g := because()
		change(g)
		return g
	}
	// Appended imports would shift the function numbers, but no refused guest runs.
	withImport := func(module, name, params, results string) *guest {
		return with(func(g *guest) { g.importing(importOf(module, name, params, results)) })
	}
	exitWith := func(code int) *guest {
		g := newGuest().importing(wasiExitImport)
		return g.scoring(returnScored).initialising(i32Const(code), callFunc(fnLog+1))
	}
	logging := newGuest()
	logging.scoring(returnScored).initialising(logging.log("table is missing"), opUnreachable)
	type defect struct {
		guest *guest
		want  []string // parts of the error
	}
	notStarted := func(g *guest, reason string) defect { return defect{g, []string{"starting an instance", reason}} }
	expect.Each(t, map[string]defect{
		"host function with 64 bits": {withImport(hostModule, "threat", tI32+tI64, ""), []string{"assay.threat"}},
		"two defects": {with(func(g *guest) {
			g.importing(importOf("env", "first", "", ""), importOf("env", "second", "", ""))
		}), []string{"first", "second"}},
		"imported memory": {with(func(g *guest) {
			g.importing(guestImport{module: "env", name: "memory", memory: true})
			g.memory, g.exports, g.data = nil, nil, nil
		}), []string{"memory"}},
		"memory with another name": {with(func(g *guest) { g.exports = [][]byte{exportEntry("mem", 2, 0)} }),
			[]string{`memory named "memory"`}},
		"more memory than declared": {with(func(g *guest) { g.limited(17, 64) }), []string{"17"}},
		"no score": {with(func(g *guest) { g.functions[0].export = "score" }),
			[]string{`the function "assay_v1_score"`}},
		"score without a result": {with(func(g *guest) { g.functions[0].results, g.functions[0].body = "", nil }),
			[]string{`"assay_v1_score" as`}},
		"initialisation with a result": {because().with(guestFunction{export: exportInit, results: tI32,
			body: i32Const(0)}), []string{`"_initialize" as`}},
		"invalid code": {with(func(g *guest) { g.functions[0].body = opAdd }),
			[]string{"opening plugin guest@1.0.0"}},
		"initialisation logs and traps":  notStarted(logging, "table is missing"),
		"initialisation exits with 3":    notStarted(exitWith(3), "exited with code 3"),
		"initialisation exits with zero": notStarted(exitWith(0), "exited with code 0"),
	}, func(t *testing.T, test defect) {
		err := openError(t, sandboxOf(t, 1), pack(t, test.guest.encode(), manifest()))
		for _, want := range append(test.want, "guest@1.0.0") {
			expect.ErrorText(t, "opening", err, want)
		}
	})
}

func TestOpenAcceptsAllImports(t *testing.T) {
	t.Parallel()
	g := newGuest()
	g.imports = nil
	for module, functions := range imports {
		for name, s := range functions {
			g.importing(importOf(module, name, string(engineTypes(s.Params)), string(engineTypes(s.Results))))
		}
	}
	p := openGuest(t, g.scoring(i32Const(1)).initialising())
	result, err := p.Score(t.Context(), facts("x", ""))
	expect.That(t, err == nil && result.Abstained, "%+v, %v", result, err)
	expect.Equal(t, "manifest of", p.Manifest().Name, "guest")
}

func TestInitialisationRunsOncePerInstance(t *testing.T) {
	t.Parallel()
	count := concat(i32Const(bufferAt), i32Const(bufferAt), opLoad, i32Const(1), opAdd, opStore)
	p := openGuest(t, scoring(i32Const(bufferAt), opLoad, i32Const(100), opAdd).initialising(count))
	for range 5 {
		_, err := p.Score(t.Context(), facts("x", ""))
		expect.That(t, strings.Contains(failureOf(t, err).Err.Error(), "returned 101"), "%v, want one initialisation",
			err)
	}
}

// TestABIListsImportsAndExports compares sections 3, 4 and 9 of sdk/ABI.md with what modules are vetted against.
func TestABIListsImportsAndExports(t *testing.T) {
	t.Parallel()
	page := string(expect.Value(os.ReadFile("../../sdk/ABI.md"))(t))
	for name, signature := range imports[hostModule] {
		want := fmt.Sprintf("| `%s` | %s |", name, strings.TrimSuffix(signature.String(), " -> ()"))
		if len(signature.Results) == 1 {
			want = strings.ReplaceAll(want, "-> (i32)", "-> i32")
		}
		expect.That(t, strings.Contains(page, want), "section 3 does not contain %q", want)
	}
	wasi := slices.Sorted(maps.Keys(imports[wasiModule]))
	for i, name := range wasi {
		wasi[i] = "`" + name + "`"
	}
	if list := strings.Join(wasi, ", ") + "."; !strings.Contains(strings.ReplaceAll(page, "\n", " "), list) {
		t.Errorf("section 9 does not list exactly %s", list)
	}
	for _, export := range []string{exportMemory, exportScore, exportInit} {
		expect.That(t, strings.Contains(page, "| `"+export+"` |"), "section 4 does not contain %s", export)
	}
	expect.That(t, startFuel == 50_000_000 && strings.Contains(page, "with 50,000,000 units of fuel"),
		"section 4 does not say that the initialisation may burn %d units", startFuel)
}

// points is a signal of a test's guest.
type points struct {
	code   string
	points int
}

// A layer's score is the sum of its points. An answer that breaks a promise of the manifest is refused.
func TestPointsAndManifest(t *testing.T) {
	t.Parallel()
	bounded := func(class string, bounds ...int) map[string]any {
		return map[string]any{"class": class, "score_range": bounds}
	}
	promising := map[string]any{"class": "finding", "signals": []map[string]any{{"code": codeOne, "text": "One",
		"points": 60, "warrants": "block", "final": true, "threat": "scam"}, {"code": codeTwo, "text": "Two"}}}
	reviewing := map[string]any{"class": "finding", "signals": []map[string]any{{"code": codeOne, "text": "One",
		"points": 60, "warrants": "review", "threat": "scam"}, {"code": codeTwo, "text": "Two"}}}
	const tooFew, takePoints = "fewer points than its manifest promises", "other signals take points"
	const tooMany = "more points than its manifest says"
	type testCase struct {
		declared map[string]any
		signals  []points
		want     int
		refused  string // a part of the refusal's rule; "" if the answer is accepted
	}
	expect.Each(t, map[string]testCase{
		"no range, cleared":      {nil, []points{{codeOne, -60}, {codeTwo, 20}}, 0, ""},
		"no range, alarming":     {nil, []points{{codeOne, 80}, {codeTwo, 80}}, 100, ""},
		"a clearing sum":         {bounded("clearing", -100, 0), []points{{codeOne, -60}, {codeTwo, -20}}, -80, ""},
		"below a clearing range": {bounded("clearing", -70, 0), []points{{codeOne, -60}, {codeTwo, -20}}, -70, ""},
		"above a clearing range": {bounded("clearing", -70, 0), []points{{codeOne, 10}}, 0, ""},
		"within both sides":      {bounded("style", -30, 45), []points{{codeOne, -60}, {codeTwo, 35}}, -25, ""},
		"below both sides":       {bounded("style", -30, 45), []points{{codeOne, -60}, {codeTwo, 5}}, -30, ""},
		"above both sides":       {bounded("style", -30, 45), []points{{codeOne, 60}}, 45, ""},
		"no signals":             {bounded("style", -30, 45), nil, 0, ""},

		"as promised":              {promising, []points{{codeOne, 60}}, 60, ""},
		"more than promised":       {promising, []points{{codeOne, 75}, {codeTwo, 5}}, 80, ""},
		"fewer than promised":      {promising, []points{{codeOne, 59}}, 0, tooFew},
		"not emitted":              {promising, []points{{codeTwo, 5}}, 5, ""},
		"nothing emitted":          {promising, nil, 0, ""},
		"others take a surplus":    {promising, []points{{codeOne, 75}, {codeTwo, -15}}, 60, ""},
		"others take points":       {promising, []points{{codeOne, 75}, {codeTwo, -16}}, 0, takePoints},
		"a review, as promised":    {reviewing, []points{{codeOne, 60}, {codeTwo, 5}}, 65, ""},
		"more than a review":       {reviewing, []points{{codeOne, 61}}, 0, tooMany},
		"a review twice":           {reviewing, []points{{codeOne, 60}, {codeOne, 60}}, 0, tooMany},
		"one emission falls short": {promising, []points{{codeOne, 60}, {codeOne, 20}}, 0, tooFew},
	}, func(t *testing.T, c testCase) {
		m := manifest()
		maps.Copy(m, c.declared)
		got, err := scoreOf(openIn(t, sandboxOf(t, 1), pack(t, emitting(c.signals).encode(), m)), testEntity)
		if c.refused != "" {
			failure := failureOf(t, err)
			expect.That(t, failure.Reason == check.Refused && strings.Contains(failure.Rule, c.refused),
				"%v, want refused: %s", failure, c.refused)
			return
		}
		expect.That(t, err == nil && got.Score == c.want && len(got.Signals) == len(c.signals),
			"%+v, %v, want the score %d", got, err, c.want)
		for _, s := range got.Signals {
			promised := s.Code == codeOne && m["class"] == "finding"
			expect.That(t, (s.Threat == "scam") == promised, "%s is evidence for %q", s.Code, s.Threat)
		}
	})
}

// emitting returns a guest that emits the given signals.
func emitting(signals []points) *guest {
	g := newGuest()
	var code [][]byte
	for _, s := range signals {
		code = append(code, g.signal(s.points, s.code, "Because"))
	}
	return g.scoring(append(code, returnScored)...)
}

// The sandbox looks at the length of what a guest passes first: 48 MiB that are refused cost neither memory nor time.
func TestLengthsAreCheckedFirst(t *testing.T) { //nolint:paralleltest // it measures allocations of the process
	const large, maxAllocated = 48 << 20, 64 << 10
	passing := func(code ...[]byte) func() []byte {
		return scoring(growTo64MiB, opDrop, concat(code...), returnScored).encode
	}
	vectors := make([]byte, 0, 8*maxVectors)
	for range maxVectors {
		vectors = binary.LittleEndian.AppendUint32(vectors, bufferAt)
		vectors = binary.LittleEndian.AppendUint32(vectors, large)
	}
	printing := newGuest().importing(wasiWriteImport)
	printing.text(string(vectors))
	printing.scoring(growTo64MiB, opDrop, i32Const(1), i32Const(dataAt), i32Const(maxVectors), i32Const(0),
		callFunc(fnLog+1), opDrop, returnScored)
	longText := newGuest()
	for _, c := range []struct {
		name string
		wasm func() []byte
		want check.FailureReason
	}{
		{"signal text", longText.scoring(growTo64MiB, opDrop, i32Const(1), longText.text(codeOne), i32Const(bufferAt),
			i32Const(large), callFunc(fnSignal), returnScored).encode, check.Refused},
		{"signal code", passing(i32Const(1), i32Const(bufferAt), i32Const(large), i32Const(0), i32Const(1),
			callFunc(fnSignal)), check.Refused},
		{"threat", passing(i32Const(bufferAt), i32Const(large), callFunc(fnThreat)), check.Refused},
		{"fact names", passing(repeat(1000, i32Const(bufferAt), i32Const(large), i32Const(0), i32Const(0),
			callFunc(fnFact), opDrop)), ""},
		{"log", passing(i32Const(0), i32Const(bufferAt), i32Const(large), callFunc(fnLog)), ""},
		{"printed output", printing.encode, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			box := sandboxOf(t, 1)
			m := manifest()
			m["memory_mb"], m["facts"] = 64, strings.Fields("a.a a.b a.c a.d a.e a.f a.g a.h a.i") // Go hashes 9
			p := expect.Value(box.OpenShared(t.Context(), pack(t, c.wasm(), m)))(t)
			defer closePlugin(t, p)
			score := func() check.FailureReason {
				if _, err := p.Score(t.Context(), facts(testEntity, "")); err != nil {
					return failureOf(t, err).Reason
				}
				return ""
			}
			const calls = 20
			score() // grows the memory
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				expect.Equal(t, "reason", score(), c.want)
			}
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) / calls; allocated > maxAllocated {
				t.Errorf("%d bytes allocated by a call, want at most %d", allocated, maxAllocated)
			}
		})
	}
}

// What the host copies and examines for a guest costs fuel by its size.
func TestHostWorkCostsFuel(t *testing.T) {
	t.Parallel()
	fuel := func(build func(g *guest) []byte) int64 {
		g := newGuest()
		p := openGuest(t, g.scoring(build(g), returnScored))
		return expect.Value(p.Score(t.Context(), facts(testEntity, "")))(t).Fuel
	}
	sized := func(size int) string { return strings.Repeat("x", size) }
	type testCase struct {
		build func(g *guest, size int) []byte
		want  int64 // fuel for 128 more bytes
	}
	expect.Each(t, map[string]testCase{
		"signal text": {func(g *guest, size int) []byte { return g.signal(1, codeOne, sized(size)) }, 128},
		"log":         {func(g *guest, size int) []byte { return g.log(sized(size)) }, 2},
	}, func(t *testing.T, c testCase) {
		small := fuel(func(g *guest) []byte { return c.build(g, 64) })
		large := fuel(func(g *guest) []byte { return c.build(g, 64+128) })
		expect.That(t, large-small == c.want, "%d units for 64 bytes, %d for 128 more, want %d more", small, large,
			c.want)
	})
	calling := func(call []byte) func(g *guest) []byte {
		return func(g *guest) []byte {
			g.tables, g.elements = [][]byte{functionTable(1, 1)}, [][]byte{activeElements(fnFact)}
			return concat(g.text("x"), i32Const(0), i32Const(0), call, opDrop)
		}
	}
	expect.Equal(t, "fuel of an indirect call, which has one more instruction", fuel(calling(callTable(0, fnFact))),
		fuel(calling(callFunc(fnFact)))+1)
	t.Run("fact", func(t *testing.T) {
		t.Parallel()
		g := newGuest()
		p := openGuest(t, g.scoring(g.fact("entity.value", 4096), opDrop, returnScored))
		fuelFor := func(value string) int64 { return expect.Value(p.Score(t.Context(), facts(value, "")))(t).Fuel }
		small, large := fuelFor(sized(64)), fuelFor(sized(64+1024))
		expect.That(t, large-small == 1024/64, "%d units for 64 bytes, %d for 1024 more", small, large)
	})
}
