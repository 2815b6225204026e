package meter

import (
	"slices"
	"strings"
)

// Names that instrumentation adds to a module. A module that already uses one is refused, so it cannot be instrumented
// twice.
const (
	ImportModule = "assay_meter"   // module name of the import
	ImportName   = "refill"        // name of the import, a function of type () -> ()
	FuelExport   = "assay.fuel"    // the exported i64 global that holds the fuel
	StartExport  = "assay.start"   // the start function, of type () -> (), if there is one
	globalPrefix = "assay.global." // followed by the index of a mutable global
)

// Slice is a suitable amount of fuel to grant at a time while the deadline is far. Deliberately slow guests take about
// a millisecond for it, ordinary guests a few microseconds (BenchmarkSlice).
const Slice = 25_000

// ValueType is a value type as the binary format encodes it (sections 5.3.1 to 5.3.4). wazero's api.ValueType has the
// same values.
type ValueType byte

// Value types of WebAssembly 2.0.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// String returns the type's name in the text format, or "unknown".
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

// Signature is a function type.
type Signature struct {
	Params, Results []ValueType
}

// Equal reports whether two signatures are the same type.
func (s Signature) Equal(t Signature) bool {
	return slices.Equal(s.Params, t.Params) && slices.Equal(s.Results, t.Results)
}

// String returns the signature in the form "(i32, i32) -> (i64)".
func (s Signature) String() string {
	list := func(types []ValueType) string {
		names := make([]string, len(types))
		for i, t := range types {
			names[i] = t.String()
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return list(s.Params) + " -> " + list(s.Results)
}

// Kind is the kind of an import or export as the binary format encodes it (sections 5.5.5 and 5.5.10).
type Kind byte

// Kinds of imports and exports.
const (
	FunctionKind Kind = iota
	TableKind
	MemoryKind
	GlobalKind
)

// String returns the kind's name in the text format.
func (k Kind) String() string {
	return [...]string{"func", "table", "memory", "global"}[k&3]
}

// Import is a function that the module imports.
type Import struct {
	Module, Name string
	Signature    Signature
}

// Export is an export of the original module.
type Export struct {
	Name      string
	Kind      Kind
	Signature Signature // of a function; empty otherwise
}

// Global is a mutable global, which instrumentation exports so that a host can save and restore its value.
type Global struct {
	Name string
	Type ValueType
}

// Module is an instrumented module. Imports, Exports and the memory's size describe the original.
type Module struct {
	Wasm      []byte // without custom sections
	Imports   []Import
	Exports   []Export
	MemoryMin uint32   // pages of 64 KiB
	MemoryMax uint32   // pages of 64 KiB, at most Limits.MemoryPages
	Globals   []Global // by index

	// Unrestored lists the instructions and globals by which the module can keep state that cannot be restored through
	// its memory and Globals: "table.set", "elem.drop", "data.drop", "mutable v128 global" and so on, without
	// duplicates and in order of appearance. "ref.func" is included, because wazero allocates a record for each
	// execution and keeps it with the instance. If the list is not empty, only a new instance for each call isolates
	// calls from each other.
	Unrestored []string
}

// Instrument validates and instruments a module. The same input and limits result in the same bytes. It does not modify
// or retain wasm. Every error is an *[Error].
func Instrument(wasm []byte, limits Limits) (*Module, error) {
	return instrument(wasm, limits, defaultPolicy())
}

func instrument(wasm []byte, limits Limits, policy policy) (*Module, error) {
	p := parser{limits: limits, policy: policy}
	if err := p.parse(wasm); err != nil {
		return nil, err
	}
	p.module.Wasm = p.out
	return &p.module, nil
}
