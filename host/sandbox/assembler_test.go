package sandbox

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Test guests are assembled byte by byte, so that they can contain code that no compiler would emit.

// guest is a module under construction. It implements the layer interface unless a test changes its fields.
type guest struct {
	imports   []guestImport
	functions []guestFunction // numbered after the imports; each import and function has a type of its own
	tables    [][]byte
	memory    []byte // limits; nil: no memory
	globals   [][]byte
	exports   [][]byte // other than functions
	start     int      // number of the start function; 0: none
	elements  [][]byte
	data      []byte // an active data segment at dataAt
	passive   []byte // a passive data segment; nil: none
	customs   [][]byte
}

type guestImport struct {
	module, name, params, results string
	memory                        bool // a memory of one page instead of a function
}

func importOf(module, name, params, results string) guestImport {
	return guestImport{module: module, name: name, params: params, results: results}
}

// WASI functions that can be asked for much work at once, and one that ends the guest.
var (
	wasiRandomGetImport = importOf(wasiModule, "random_get", tI32+tI32, tI32)
	wasiWriteImport     = importOf(wasiModule, "fd_write", tI32+tI32+tI32+tI32, tI32)
	wasiPollImport      = importOf(wasiModule, "poll_oneoff", tI32+tI32+tI32+tI32, tI32)
	wasiExitImport      = importOf(wasiModule, "proc_exit", tI32, "")
)

type guestFunction struct {
	export                  string // empty: not exported
	params, results, locals string
	body                    []byte
}

// Value types and reference types. A string of them is a parameter list.
const (
	tI32, tI64, tF64, tV128 = "\x7f", "\x7e", "\x7c", "\x7b"
	tFuncref                = "\x70"
)

// Function numbers of the imports of newGuest, and of the guest's first own function, which scores.
const (
	fnFact = iota
	fnSignal
	fnThreat
	fnLog
	fnScore
)

const (
	dataAt   = 1024     // address of the guest's constants
	bufferAt = 16 << 10 // address of free memory
)

// newGuest returns a guest with the four host functions, a memory of one page without a maximum, and no function.
func newGuest() *guest {
	return &guest{
		imports: []guestImport{
			importOf(hostModule, "fact", tI32+tI32+tI32+tI32, tI32),
			importOf(hostModule, "signal", tI32+tI32+tI32+tI32+tI32, ""),
			importOf(hostModule, "threat", tI32+tI32, ""),
			importOf(hostModule, "log", tI32+tI32+tI32, ""),
		},
		memory:  []byte{0, 1},
		exports: [][]byte{exportEntry("memory", 2, 0)},
	}
}

// guestLocals are the locals of the score and initialisation functions. Local 2 is the counter of repeat.
const guestLocals = tI32 + tI64 + tI32

// scoring returns a new guest whose score function is code.
func scoring(code ...[]byte) *guest { return newGuest().scoring(code...) }

// scoring adds the score function.
func (g *guest) scoring(code ...[]byte) *guest {
	return g.with(guestFunction{export: exportScore, results: tI32, locals: guestLocals, body: concat(code...)})
}

// initialising adds the initialisation function.
func (g *guest) initialising(code ...[]byte) *guest {
	return g.with(guestFunction{export: exportInit, locals: guestLocals, body: concat(code...)})
}

func (g *guest) with(f ...guestFunction) *guest {
	g.functions = append(g.functions, f...)
	return g
}

// importing adds imports. Use it before adding functions, whose numbers follow the imports.
func (g *guest) importing(more ...guestImport) *guest {
	g.imports = append(g.imports, more...)
	return g
}

// limited sets the memory's limits in pages.
func (g *guest) limited(minPages, maxPages uint32) *guest {
	g.memory = concat(op(1), uleb(minPages), uleb(maxPages))
	return g
}

// text adds a constant and pushes its address and length.
func (g *guest) text(s string) []byte {
	at := dataAt + len(g.data)
	g.data = append(g.data, s...)
	return concat(i32Const(at), i32Const(len(s)))
}

// signal emits a signal.
func (g *guest) signal(points int, code, text string) []byte {
	return concat(i32Const(points), g.text(code), g.text(text), callFunc(fnSignal))
}

func (g *guest) threat(name string) []byte { return concat(g.text(name), callFunc(fnThreat)) }

func (g *guest) log(text string) []byte { return concat(i32Const(0), g.text(text), callFunc(fnLog)) }

// fact reads a fact into a buffer of capacity bytes at bufferAt, and pushes the result.
func (g *guest) fact(name string, capacity int) []byte {
	return concat(g.text(name), i32Const(bufferAt), i32Const(capacity), callFunc(fnFact))
}

// Instructions.
var (
	opUnreachable = []byte{0x00}
	opReturn      = []byte{0x0f}
	opDrop        = []byte{0x1a}
	opLoad        = []byte{0x28, 2, 0}
	opLoadByte    = []byte{0x2d, 0, 0}
	opStore       = []byte{0x36, 2, 0}
	opMemorySize  = []byte{0x3f, 0}
	opMemoryGrow  = []byte{0x40, 0}
	opEqual       = []byte{0x46}
	opAdd         = []byte{0x6a}
	opXor         = []byte{0x73}
	opMemoryInit  = []byte{0xfc, 8, 0, 0}
	opMemoryCopy  = []byte{0xfc, 10, 0, 0}
	opMemoryFill  = []byte{0xfc, 11, 0}
	opNullFunc    = []byte{0xd0, 0x70}
)

func op(code ...byte) []byte     { return code }
func i32Const(v int) []byte      { return append([]byte{0x41}, sleb(int64(v))...) }
func i64Const(v int64) []byte    { return append([]byte{0x42}, sleb(v)...) }
func callFunc(f int) []byte      { return append([]byte{0x10}, uleb(uint32(f))...) }
func localGet(i uint32) []byte   { return append([]byte{0x20}, uleb(i)...) }
func localSet(i uint32) []byte   { return append([]byte{0x21}, uleb(i)...) }
func globalGet(i uint32) []byte  { return append([]byte{0x23}, uleb(i)...) }
func globalSet(i uint32) []byte  { return append([]byte{0x24}, uleb(i)...) }
func ifTrue(c ...[]byte) []byte  { return concat(op(0x04, 0x40), concat(c...), op(0x0b)) }
func endless(c ...[]byte) []byte { return concat(op(0x03, 0x40), concat(c...), op(0x0c, 0, 0x0b)) }

// callTable calls the function at a place of the table, as a function of the type of function number typeOf.
func callTable(place, typeOf int) []byte {
	return concat(i32Const(place), op(0x11), uleb(uint32(typeOf)), op(0))
}

// repeat runs code n times, counting in local 2.
func repeat(n int, code ...[]byte) []byte {
	return concat(i32Const(n), localSet(2), op(0x03, 0x40), concat(code...), localGet(2), i32Const(-1), opAdd,
		op(0x22, 2, 0x0d, 0, 0x0b))
}

// returnScored pushes the outcome Scored.
var returnScored = i32Const(0)

func concat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func uleb(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func sleb(v int64) []byte {
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

func sized(b []byte) []byte        { return concat(uleb(uint32(len(b))), b) }
func sizedString(s string) []byte  { return sized([]byte(s)) }
func vector(items [][]byte) []byte { return concat(uleb(uint32(len(items))), concat(items...)) }

func exportEntry(name string, kind byte, index int) []byte {
	return concat(sizedString(name), []byte{kind}, uleb(uint32(index)))
}

func functionType(params, results string) []byte {
	return concat([]byte{0x60}, sizedString(params), sizedString(results))
}

// Section numbers.
const (
	typeSection byte = iota + 1
	importSection
	functionSection
	tableSection
	memorySection
	globalSection
	exportSection
	startSection
	elementSection
	codeSection
	dataSection
	dataCountSection
)

func section(id byte, content []byte) []byte { return concat([]byte{id}, sized(content)) }

const wasmHeader = "\x00asm\x01\x00\x00\x00"

// activeElements returns an element segment that fills the first table from place 0 with these functions.
func activeElements(functions ...int) []byte {
	items := make([][]byte, len(functions))
	for i, f := range functions {
		items[i] = uleb(uint32(f))
	}
	return concat(op(0), i32Const(0), op(0x0b), vector(items))
}

// functionTable returns a table of function references.
func functionTable(minSize, maxSize uint32) []byte {
	return concat([]byte(tFuncref), op(1), uleb(minSize), uleb(maxSize))
}

func (f guestFunction) encode() []byte {
	groups := make([][]byte, 0, len(f.locals))
	for _, t := range strings.Split(f.locals, "") {
		groups = append(groups, concat(uleb(1), []byte(t)))
	}
	return sized(concat(vector(groups), f.body, []byte{0x0b}))
}

// encode returns the binary module.
func (g *guest) encode() []byte {
	var types, imports, functions, bodies [][]byte
	exports := slices.Clone(g.exports)
	for i, im := range g.imports {
		types = append(types, functionType(im.params, im.results))
		description := concat([]byte{0}, uleb(uint32(i)))
		if im.memory {
			description = []byte{2, 1, 1, 1}
		}
		imports = append(imports, concat(sizedString(im.module), sizedString(im.name), description))
	}
	for i, f := range g.functions {
		number := len(g.imports) + i
		types = append(types, functionType(f.params, f.results))
		functions = append(functions, uleb(uint32(number)))
		bodies = append(bodies, f.encode())
		if f.export != "" {
			exports = append(exports, exportEntry(f.export, 0, number))
		}
	}
	out := concat([]byte(wasmHeader), concat(g.customs...))
	put := func(id byte, items [][]byte) {
		if len(items) > 0 {
			out = append(out, section(id, vector(items))...)
		}
	}
	put(typeSection, types)
	put(importSection, imports)
	put(functionSection, functions)
	put(tableSection, g.tables)
	if g.memory != nil {
		put(memorySection, [][]byte{g.memory})
	}
	put(globalSection, g.globals)
	put(exportSection, exports)
	if g.start != 0 {
		out = append(out, section(startSection, uleb(uint32(g.start)))...)
	}
	put(elementSection, g.elements)
	var data [][]byte
	if g.passive != nil {
		data = append(data, concat([]byte{1}, sized(g.passive)))
	}
	if len(g.data) > 0 {
		data = append(data, concat([]byte{0}, i32Const(dataAt), []byte{0x0b}, sized(g.data)))
	}
	if g.passive != nil {
		out = append(out, section(dataCountSection, uleb(uint32(len(data))))...)
	}
	put(codeSection, bodies)
	put(dataSection, data)
	return out
}
