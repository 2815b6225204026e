package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guest is a module put together byte by byte (WebAssembly 2.0, chapter 5).
type guest struct {
	imports   []guestImport
	functions []guestFunction
	memory    guestMemory
	data      []byte // laid out from dataAt on
}

type guestImport struct {
	module, name string
	params       []byte
	results      []byte
	memory       bool // it is a memory instead of a function
}

type guestFunction struct {
	export  string
	params  []byte
	results []byte
	locals  int // of type i32, beside the parameters
	body    []byte
}

type guestMemory struct {
	export   string
	min, max uint32 // pages
}

const (
	dataAt = 1024 // where a guest's constants lie
	bufAt  = 8192 // where a guest's buffers lie
	wI32   = 0x7f
	wI64   = 0x7e
)

// Indices of what every guest of newGuest imports, and of its first own function.
const (
	callFact = iota
	callSignal
	callThreat
	callLog
	callOwn
)

// newGuest imports the host's four functions and exports a memory of one page.
func newGuest() *guest {
	i := func(n int) []byte {
		types := make([]byte, n)
		for k := range types {
			types[k] = wI32
		}
		return types
	}
	return &guest{
		imports: []guestImport{
			{module: "assay", name: "fact", params: i(4), results: i(1)},
			{module: "assay", name: "signal", params: i(5)},
			{module: "assay", name: "threat", params: i(2)}, {module: "assay", name: "log", params: i(3)},
		},
		memory: guestMemory{"memory", 1, 64},
	}
}

// scoring adds the function that scores.
func (g *guest) scoring(body ...[]byte) *guest {
	g.functions = append(g.functions, guestFunction{export: "assay_v1_score", results: []byte{wI32}, locals: 2,
		body: join(body...)})
	return g
}

// initialising adds the function that runs first.
func (g *guest) initialising(body ...[]byte) *guest {
	g.functions = append(g.functions, guestFunction{export: "_initialize", locals: 2, body: join(body...)})
	return g
}

// scores is a guest that gives one signal of so many points.
func scores(points int32) *guest {
	g := newGuest()
	return g.scoring(g.signal(points, codeOne, "Because"), i32c(0))
}

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// Instructions.
func i32c(v int32) []byte    { return append([]byte{0x41}, sleb(v)...) }
func invoke(f uint64) []byte { return append([]byte{0x10}, uleb(f)...) }
func localGet(i byte) []byte { return []byte{0x20, i} }
func localSet(i byte) []byte { return []byte{0x21, i} }
func loadByte() []byte       { return []byte{0x2d, 0, 0} }
func store() []byte          { return []byte{0x36, 2, 0} }
func load() []byte           { return []byte{0x28, 2, 0} }
func growMemory() []byte     { return []byte{0x40, 0} }
func add() []byte            { return []byte{0x6a} }
func drop() []byte           { return []byte{0x1a} }
func unreachable() []byte    { return []byte{0x00} }
func forever() []byte        { return []byte{0x03, 0x40, 0x0c, 0, 0x0b} }
func whenEqual(then ...[]byte) []byte {
	return join([]byte{0x46, 0x04, 0x40}, join(then...), []byte{0x0b})
}

// times runs body n times; it counts in local 1.
func times(n int32, body ...[]byte) []byte {
	return join(i32c(n), localSet(1), []byte{0x03, 0x40}, join(body...), localGet(1), i32c(-1), add(),
		[]byte{0x22, 1, 0x0d, 0, 0x0b})
}

// text lays a constant out and pushes its place and length.
func (g *guest) text(s string) []byte {
	at := dataAt + len(g.data)
	g.data = append(g.data, s...)
	return join(i32c(int32(at)), i32c(int32(len(s))))
}

func (g *guest) signal(points int32, code, text string) []byte {
	return join(i32c(points), g.text(code), g.text(text), invoke(callSignal))
}

func (g *guest) threat(name string) []byte { return join(g.text(name), invoke(callThreat)) }

func (g *guest) log(text string) []byte { return join(i32c(0), g.text(text), invoke(callLog)) }

// fact asks for a fact with a buffer of so many bytes, and pushes the answer.
func (g *guest) fact(name string, capacity int32) []byte {
	return join(g.text(name), i32c(bufAt), i32c(capacity), invoke(callFact))
}

func uleb(v uint64) []byte { return binary.AppendUvarint(nil, v) }

func sleb(v int32) []byte {
	var b []byte
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if v == 0 && low&0x40 == 0 || v == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func vector(items [][]byte) []byte { return join(uleb(uint64(len(items))), join(items...)) }

func sized(b []byte) []byte { return join(uleb(uint64(len(b))), b) }

func functionType(params, results []byte) []byte {
	return join([]byte{0x60}, sized(params), sized(results))
}

// encode writes the binary. Every function has a type of its own.
func (g *guest) encode() []byte {
	var types, imports, functions, exports, bodies [][]byte
	imported := 0
	for _, im := range g.imports {
		what := join([]byte{0x00}, uleb(uint64(len(types))))
		if im.memory {
			what = []byte{0x02, 0x01, 1, 1}
		} else {
			types = append(types, functionType(im.params, im.results))
			imported++
		}
		imports = append(imports, join(sized([]byte(im.module)), sized([]byte(im.name)), what))
	}
	for i, f := range g.functions {
		functions = append(functions, uleb(uint64(len(types))))
		types = append(types, functionType(f.params, f.results))
		if f.export != "" {
			exports = append(exports, join(sized([]byte(f.export)), []byte{0x00}, uleb(uint64(imported+i))))
		}
		locals := []byte{0}
		if f.locals > 0 {
			locals = join([]byte{1}, uleb(uint64(f.locals)), []byte{wI32})
		}
		bodies = append(bodies, sized(join(locals, f.body, []byte{0x0b})))
	}
	section := func(id byte, content []byte) []byte { return join([]byte{id}, sized(content)) }
	out := join([]byte("\x00asm\x01\x00\x00\x00"), section(1, vector(types)), section(2, vector(imports)),
		section(3, vector(functions)))
	if g.memory.max > 0 {
		out = join(out, section(5, vector([][]byte{join([]byte{1}, uleb(uint64(g.memory.min)),
			uleb(uint64(g.memory.max)))})))
		if g.memory.export != "" {
			exports = append(exports, join(sized([]byte(g.memory.export)), []byte{0x02, 0}))
		}
	}
	out = join(out, section(7, vector(exports)), section(10, vector(bodies)))
	if len(g.data) > 0 {
		out = join(out, section(11, vector([][]byte{join([]byte{0}, i32c(dataAt), []byte{0x0b}, sized(g.data))})))
	}
	return out
}

// What the tests' manifests declare.
const (
	codeOne = "test:signal:one"
	codeTwo = "test:signal:two"
)

func manifest() map[string]any {
	return map[string]any{
		"name": "guest", "version": "1.0.0", "summary": "A test's layer", "entities": []string{"domain"},
		"facts":   []string{"entity.value", "config.mode"},
		"signals": []map[string]string{{"code": codeOne, "text": "One"}, {"code": codeTwo, "text": "Two"}},
		"threats": []string{"phishing", "scam"}, "budget_ms": 100, "memory_mb": 1,
	}
}

func pack(t testing.TB, wasm []byte, manifest map[string]any) registry.Module {
	t.Helper()
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := registry.Pack(wasm, text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := registry.OpenModule(packed)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// sandboxOf opens a sandbox that keeps nothing on disk.
func sandboxOf(t testing.TB, instances int) *Sandbox {
	t.Helper()
	return closing(t, New(Config{Instances: instances, Logger: discard()}))
}

func closing(t testing.TB, s *Sandbox) *Sandbox {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing sandbox: %v", err)
		}
	})
	return s
}

func openIn(t testing.TB, s *Sandbox, m registry.Module) *Plugin {
	t.Helper()
	p, err := s.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePlugin(t, p) })
	return p
}

func closePlugin(t testing.TB, p *Plugin) {
	t.Helper()
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("closing plugin: %v", err)
	}
}

// opened opens a guest in a sandbox of its own, with two instances.
func opened(t testing.TB, g *guest) *Plugin {
	t.Helper()
	return openIn(t, sandboxOf(t, 2), pack(t, g.encode(), manifest()))
}

// facts are what a call may read: an entity, and the lineup's mode.
func facts(value, mode string) check.Input {
	return check.Input{Entity: entity.Facts{"entity.value": value, "entity.type": "domain"},
		Config: map[string]string{"mode": mode}}
}

// patience bounds every wait for a condition; no test passes by waiting it out.
const patience = 30 * time.Second

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
