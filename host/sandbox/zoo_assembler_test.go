package sandbox_test

import (
	"encoding/binary"
	"slices"
	"strings"
)

// The zoo's guests are put together byte by byte (WebAssembly core specification, chapter 5), so that they can be what
// no compiler would write.

// layer is a module that keeps to sdk/ABI.md unless its parts say otherwise.
type layer struct {
	imports   []imported
	functions []function // numbered after the imports; each function and import has the type of its own number
	tables    [][]byte
	memory    []byte // its limits; nil is without a memory
	globals   [][]byte
	exports   [][]byte // besides those of functions
	start     int      // the number of the start function; 0 is without one
	elements  [][]byte
	constants []byte // laid out from constantsAt on
	passive   []byte // a segment that is not laid out
	customs   [][]byte
}

type imported struct {
	module, name, params, results string
}

type function struct {
	name            string // exported as such, unless empty
	params, results string
	locals          string
	body            []byte
}

const (
	i32, i64, f32, f64, v128 = "\x7f", "\x7e", "\x7d", "\x7c", "\x7b"
	funcref                  = "\x70"
)

// The numbers of what every guest imports, and of its own first function, the one that scores.
const (
	fact = iota
	signal
	threat
	log
	score
)

const (
	constantsAt = 1024
	buffer      = 16 << 10 // where guests may write
)

// newLayer is a layer without a function yet, with a memory of one page that may grow.
func newLayer() *layer {
	return &layer{
		imports: []imported{{"assay", "fact", i32 + i32 + i32 + i32, i32},
			{"assay", "signal", i32 + i32 + i32 + i32 + i32, ""},
			{"assay", "threat", i32 + i32, ""}, {"assay", "log", i32 + i32 + i32, ""}},
		memory:  []byte{0, 1},
		exports: [][]byte{exporting("memory", 2, 0)},
	}
}

// scoring is a layer whose score function is code. Local 0 is an i32, local 1 an i64.
func scoring(code ...[]byte) *layer { return newLayer().scoring(code...) }

func (l *layer) scoring(code ...[]byte) *layer {
	return l.with(function{name: "assay_v1_score", results: i32, locals: i32 + i64, body: cat(code...)})
}

func (l *layer) with(f ...function) *layer {
	l.functions = append(l.functions, f...)
	return l
}

// initialising is a healthy layer that runs code first.
func initialising(code ...[]byte) *layer {
	return healthy().with(function{name: "_initialize", locals: i32 + i64, body: cat(code...)})
}

// importing adds imports; it comes before the functions, whose numbers begin after.
func (l *layer) importing(more ...imported) *layer {
	l.imports = append(l.imports, more...)
	return l
}

// text lays a constant out and pushes its place and length.
func (l *layer) text(s string) []byte {
	at := constantsAt + len(l.constants)
	l.constants = append(l.constants, s...)
	return cat(num(at), num(len(s)))
}

// says gives a signal.
func (l *layer) says(points int, code, text string) []byte {
	return cat(num(points), l.text(code), l.text(text), call(signal))
}

// Instructions.
var (
	unreachable = []byte{0x00}
	returns     = []byte{0x0f}
	drop        = []byte{0x1a}
	add         = []byte{0x6a}
	load        = []byte{0x28, 2, 0}
	store       = []byte{0x36, 2, 0}
	loadByte    = []byte{0x2d, 0, 0}
	growMemory  = []byte{0x40, 0}
	memorySize  = []byte{0x3f, 0}
)

func num(v int) []byte        { return append([]byte{0x41}, signed(int64(v))...) }
func long(v int64) []byte     { return append([]byte{0x42}, signed(v)...) }
func call(f int) []byte       { return append([]byte{0x10}, unsigned(uint32(f))...) }
func local(i byte) []byte     { return []byte{0x20, i} }
func setLocal(i byte) []byte  { return []byte{0x21, i} }
func global(i byte) []byte    { return []byte{0x23, i} }
func setGlobal(i byte) []byte { return []byte{0x24, i} }
func op(code ...byte) []byte  { return code }
func when(c ...[]byte) []byte { return cat(op(0x04, 0x40), cat(c...), op(0x0b)) }
func endless(c ...[]byte) []byte {
	return cat(op(0x03, 0x40), cat(c...), op(0x0c, 0, 0x0b))
}

// times runs code n times, counting in local 0.
func times(n int, code ...[]byte) []byte {
	return cat(num(n), setLocal(0), op(0x03, 0x40), cat(code...), local(0), num(-1), add, op(0x22, 0, 0x0d, 0, 0x0b))
}

// scored returns the outcome Scored.
var scored = num(0)

func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func unsigned(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func signed(v int64) []byte {
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

func sized(b []byte) []byte        { return cat(unsigned(uint32(len(b))), b) }
func named(s string) []byte        { return sized([]byte(s)) }
func vector(items [][]byte) []byte { return cat(unsigned(uint32(len(items))), cat(items...)) }

func exporting(name string, kind byte, index int) []byte {
	return cat(named(name), []byte{kind}, unsigned(uint32(index)))
}

func signature(params, results string) []byte {
	return cat([]byte{0x60}, named(params), named(results))
}

// Sections, by their numbers.
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

func section(id byte, content []byte) []byte { return cat([]byte{id}, sized(content)) }

// customSection is a section of that name, whatever its content.
func customSection(name string, content []byte) []byte { return section(0, cat(named(name), content)) }

const magic = "\x00asm\x01\x00\x00\x00"

// module is a file of just these sections.
func module(sections ...[]byte) []byte { return cat([]byte(magic), cat(sections...)) }

func (f function) encode() []byte {
	groups := make([][]byte, 0, len(f.locals))
	for _, t := range strings.Split(f.locals, "") {
		groups = append(groups, cat(unsigned(1), []byte(t)))
	}
	return sized(cat(vector(groups), f.body, []byte{0x0b}))
}

// encode writes the file.
func (l *layer) encode() []byte {
	var types, imports, functions, bodies [][]byte
	exports := l.exports
	for i, im := range l.imports {
		types = append(types, signature(im.params, im.results))
		imports = append(imports, cat(named(im.module), named(im.name), []byte{0}, unsigned(uint32(i))))
	}
	for i, f := range l.functions {
		number := len(l.imports) + i
		types = append(types, signature(f.params, f.results))
		functions = append(functions, unsigned(uint32(number)))
		bodies = append(bodies, f.encode())
		if f.name != "" {
			exports = append(exports, exporting(f.name, 0, number))
		}
	}
	out := module(l.customs...)
	put := func(id byte, items [][]byte) {
		if len(items) > 0 {
			out = append(out, section(id, vector(items))...)
		}
	}
	put(typeSection, types)
	put(importSection, imports)
	put(functionSection, functions)
	put(tableSection, l.tables)
	if l.memory != nil {
		put(memorySection, [][]byte{l.memory})
	}
	put(globalSection, l.globals)
	put(exportSection, exports)
	if l.start != 0 {
		out = append(out, section(startSection, unsigned(uint32(l.start)))...)
	}
	put(elementSection, l.elements)
	var data [][]byte
	if l.passive != nil {
		data = append(data, cat([]byte{1}, sized(l.passive)))
	}
	if len(l.constants) > 0 {
		data = append(data, cat([]byte{0}, num(constantsAt), []byte{0x0b}, sized(l.constants)))
	}
	if l.passive != nil {
		out = append(out, section(dataCountSection, unsigned(uint32(len(data))))...)
	}
	put(codeSection, bodies)
	put(dataSection, data)
	return out
}
