package sandbox

import (
	"strings"
	"testing"

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
		p, err := sandboxOf(t, 1).Open(t.Context(), pack(t, test.guest.encode(), manifest()))
		if err == nil {
			closePlugin(t, p)
			t.Fatal("the module was opened")
		}
		for _, want := range append(test.want, "guest@1.0.0") {
			expect.That(t, strings.Contains(err.Error(), want), "%v\ndoes not contain %q", err, want)
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
