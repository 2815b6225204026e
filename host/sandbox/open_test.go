package sandbox

import (
	"strings"
	"testing"
)

// What a module lacks of the interface, or asks for beyond it, is named before it can take part in a check.
func TestOpenNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	importing := func(module, name string, params, results []byte) *guest {
		g := scores(1)
		// Behind the others, so that their numbers stay.
		g.imports = append(g.imports, guestImport{module: module, name: name, params: params, results: results})
		return g
	}
	exitWith := func(code int32) *guest {
		g := scores(1)
		g.imports = append(g.imports, guestImport{module: "wasi_snapshot_preview1", name: "proc_exit",
			params: []byte{wI32}})
		return g.initialising(i32c(code), invoke(callOwn))
	}
	with := func(change func(*guest)) *guest {
		g := scores(1)
		change(g)
		return g
	}
	say := newGuest()
	say.scoring(i32c(0)).initialising(say.log("table is missing"), unreachable())
	tests := map[string]struct {
		guest *guest
		want  []string
	}{
		"unknown function": {importing("env", "secret", nil, nil), []string{"env", "secret", "not offered"}},
		"file access": {importing("wasi_snapshot_preview1", "path_open", nil, nil),
			[]string{"path_open", "not offered"}},
		"sockets": {importing("wasi_snapshot_preview1", "sock_accept", nil, nil),
			[]string{"sock_accept", "not offered"}},
		"host function, misspelt":   {importing("assay", "signals", nil, nil), []string{"signals", "not offered"}},
		"host function, other type": {importing("assay", "log", []byte{wI32}, nil), []string{"assay.log"}},
		"host function, 64 bits":    {importing("assay", "threat", []byte{wI32, wI64}, nil), []string{"assay.threat"}},
		"WASI function, other type": {importing("wasi_snapshot_preview1", "random_get", []byte{wI32}, []byte{wI32}),
			[]string{"random_get"}},
		"two at once": {with(func(g *guest) {
			g.imports = append(g.imports, guestImport{module: "env", name: "first"},
				guestImport{module: "env", name: "second"})
		}), []string{"first", "second"}},
		"imported memory": {with(func(g *guest) {
			g.imports = append(g.imports, guestImport{module: "env", name: "memory", memory: true})
			g.memory.max = 0
		}), []string{"memory"}},
		"no memory":           {with(func(g *guest) { g.memory.max = 0; g.data = nil }), []string{"memory"}},
		"memory not exported": {with(func(g *guest) { g.memory.export = "" }), []string{`memory named "memory"`}},
		"memory of another name": {with(func(g *guest) { g.memory.export = "mem" }),
			[]string{`memory named "memory"`}},
		"more memory than declared": {with(func(g *guest) { g.memory.min = 17 }), []string{"17"}},
		"no score": {with(func(g *guest) { g.functions[0].export = "score" }),
			[]string{`the function "assay_v1_score"`}},
		"score of another type": {with(func(g *guest) {
			g.functions[0].results, g.functions[0].body = nil, nil
		}), []string{`"assay_v1_score" as`}},
		"score with a parameter": {with(func(g *guest) { g.functions[0].params = []byte{wI32} }),
			[]string{`"assay_v1_score" as`}},
		"initialisation with a value": {with(func(g *guest) {
			g.functions = append(g.functions, guestFunction{export: "_initialize", results: []byte{wI32},
				body: i32c(0)})
		}), []string{`"_initialize" as`}},
		"invalid code": {with(func(g *guest) { g.functions[0].body = []byte{0x6a} }),
			[]string{"opening plugin guest@1.0.0"}},
		"initialisation traps": {scores(1).initialising(unreachable()),
			[]string{"starting an instance", "unreachable"}},
		"initialisation traps and had said why": {say, []string{"starting an instance", "table is missing"}},
		"initialisation loops": {scores(1).initialising(forever()),
			[]string{"starting an instance", "time budget ran out"}},
		"initialisation exits":          {exitWith(3), []string{"starting an instance", "exited with code 3"}},
		"initialisation exits in peace": {exitWith(0), []string{"starting an instance", "exited with code 0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := sandboxOf(t, 1).Open(t.Context(), pack(t, test.guest.encode(), manifest()))
			if err == nil {
				closePlugin(t, p)
				t.Fatal("it was opened")
			}
			for _, want := range append(test.want, "guest@1.0.0") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
}

// Everything that the interface offers can be imported.
func TestOpenTakesTheWholeInterface(t *testing.T) {
	t.Parallel()
	g := &guest{memory: guestMemory{"memory", 1, 2}}
	for module, functions := range imports {
		for name, s := range functions {
			im := guestImport{module: module, name: name}
			for _, p := range s.Params {
				im.params = append(im.params, byte(p))
			}
			for _, r := range s.Results {
				im.results = append(im.results, byte(r))
			}
			g.imports = append(g.imports, im)
		}
	}
	p := opened(t, g.scoring(i32c(1)).initialising())
	if result, err := p.Score(t.Context(), facts("x", "")); err != nil || !result.Abstained {
		t.Errorf("%+v, %v", result, err)
	}
	if p.Manifest().Name != "guest" {
		t.Errorf("manifest of %q", p.Manifest().Name)
	}
}

func TestInitialisationRunsOnceAnInstance(t *testing.T) {
	t.Parallel()
	g := newGuest()
	count := join(i32c(bufAt), i32c(bufAt), load(), i32c(1), add(), store())
	p := opened(t, g.scoring(i32c(bufAt), load(), i32c(100), add()).initialising(count))
	for range 5 {
		if _, err := p.Score(t.Context(), facts("x", "")); err == nil ||
			!strings.Contains(err.Error(), "returned 101") {
			t.Errorf("%v, want one initialisation", err)
		}
	}
}
