package meter

import (
	"slices"
	"strings"
)

// The names that rewriting adds. A module that uses one of them already is refused, so nothing is metered twice.
const (
	ImportModule = "assay_meter"   // the module of the one import added
	ImportName   = "refill"        // its name; its type is () -> ()
	FuelExport   = "assay.fuel"    // the exported i64 global that holds the fuel
	StartExport  = "assay.start"   // the start function, of type () -> (), where there is one
	globalPrefix = "assay.global." // followed by the global's index in decimal
)

// Slice is a good number of units to grant at a time, while much time is left. Measured on a busy machine, guests made
// to be slow take 1 ms for it (loads that miss every cache, megabytes of straight-line code) and ordinary ones 2 to 10
// microseconds.
const Slice = 25_000

// ValueType is a type as the binary format encodes it (core specification 5.3.1-5.3.4); wazero's api.ValueType has the
// same values.
type ValueType byte

// The value types of WebAssembly 2.0.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// String is the type's name in the text format.
func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return "unknown"
}

// Signature is a function's type.
type Signature struct {
	Params, Results []ValueType
}

// Equal says whether two signatures are the same type.
func (s Signature) Equal(t Signature) bool {
	return slices.Equal(s.Params, t.Params) && slices.Equal(s.Results, t.Results)
}

// String is "(i32, i32) -> (i64)".
func (s Signature) String() string {
	var b strings.Builder
	list := func(types []ValueType) {
		b.WriteByte('(')
		for i, t := range types {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(t.String())
		}
		b.WriteByte(')')
	}
	list(s.Params)
	b.WriteString(" -> ")
	list(s.Results)
	return b.String()
}

// Kind is what an export exports, as the binary format numbers it (core specification 5.5.10).
type Kind byte

// The kinds of export.
const (
	Function Kind = iota
	TableKind
	MemoryKind
	GlobalKind
)

// String is the kind's name in the text format.
func (k Kind) String() string {
	return [...]string{"func", "table", "memory", "global"}[k&3]
}

// Import is a function that the module asks its host for. Nothing else may be imported.
type Import struct {
	Module, Name string
	Signature    Signature
}

// Export is a name that the original module exports.
type Export struct {
	Name      string
	Kind      Kind
	Signature Signature // of a function; empty otherwise
}

// Table is a table's bounds, in entries, as the engine will see them.
type Table struct {
	Type     ValueType // FuncRef or ExternRef
	Min, Max uint32
}

// Global names a mutable global: reading all of them after start-up and setting them again between calls, with the
// memory, makes an instance as good as new, save for what [Summary.Unrestored] lists.
type Global struct {
	Name string
	Type ValueType
}

// Summary is what a module asks for and offers. It describes the original, with maxima held to the limits.
type Summary struct {
	Imports   []Import
	Exports   []Export
	Functions int // defined ones
	HasMemory bool
	MemoryMin uint32 // pages of 64 KiB
	MemoryMax uint32 // pages of 64 KiB
	Tables    []Table
	HasStart  bool // exported as StartExport after rewriting: a host runs it, before anything else

	// Unrestored lists, once each and in order of appearance, the instructions and globals by which the module can keep
	// state outside of memory and restorable globals: "table.set", "elem.drop", "data.drop", "mutable v128 global",
	// .... Where it is not empty, a host that must not leak one call into the next needs a new instance for each.
	Unrestored []string
}

// Module is a rewritten module.
type Module struct {
	Summary
	Wasm    []byte   // metered; what the engine compiles. Custom sections, the name section among them, are left out
	Fuel    string   // the exported i64 global of the fuel: FuelExport
	Globals []Global // every mutable global that a host can set, by index
}

// Vet says what the module asks for, or why it is refused (always an *[Error]).
func Vet(wasm []byte, limits Limits) (*Summary, error) {
	p := parser{limits: limits, scheme: defaultScheme()}
	if err := p.module(wasm); err != nil {
		return nil, err
	}
	return &p.sum, nil
}

// Instrument vets and rewrites the module. The same input and limits give the same bytes; the input is not kept. Every
// error is an *[Error].
func Instrument(wasm []byte, limits Limits) (*Module, error) {
	return instrument(wasm, limits, defaultScheme())
}

func instrument(wasm []byte, limits Limits, s scheme) (*Module, error) {
	p := parser{limits: limits, scheme: s, rewrite: true}
	if err := p.module(wasm); err != nil {
		return nil, err
	}
	return &Module{Summary: p.sum, Wasm: p.out, Fuel: FuelExport, Globals: p.restorable}, nil
}
