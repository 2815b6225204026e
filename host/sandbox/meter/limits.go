package meter

import "fmt"

// Limits are the maximum resources that a module may declare. The zero value refuses nearly everything; start from
// [DefaultLimits]. Each count is also limited by the remaining bytes of its section, before anything is allocated.
type Limits struct {
	ModuleBytes  int // the original file
	MeteredBytes int // the instrumented file
	NameBytes    int // the name of an import, an export or a custom section

	Types            int
	ParamsAndResults int // of one signature
	Imports          int
	Functions        int // excluding imports
	Globals          int
	Exports          int
	ElementSegments  int
	Elements         int // in all element segments
	DataSegments     int

	Locals        int // of one function, including its parameters
	LocalsTotal   int // of all functions; locals take memory in an engine, but few bytes in the file
	FunctionBytes int // of one function body
	Nesting       int // depth of nested blocks

	// Operands limits the number of values that the calls, branches and blocks of one function pass. Two bytes of code
	// can pass thousands of values, and a compiler allocates memory for each.
	Operands int
	// Joins limits the number of blocks times the number of locals of one function. At the end of a block, where
	// control flow joins, a compiler may have to merge each local.
	Joins int
	// CompileWork limits the work for which a compiler may take more than linear time, over all functions: the square
	// of a function's basic blocks, and its joins times the depth of its nested loops. wazero takes at most tens of
	// nanoseconds for a unit.
	CompileWork int

	MemoryPages  uint32 // pages of 64 KiB. A larger minimum is refused, a larger or missing maximum is set to this
	Tables       int
	TableEntries uint32 // of one table. A larger minimum is refused, a larger or missing maximum is set to this
}

// DefaultLimits returns limits several times larger than layers written in Go, Rust, C and AssemblyScript need.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes:  8 << 20,
		MeteredBytes: 24 << 20,
		NameBytes:    1024,

		Types:            10_000,
		ParamsAndResults: 1000,
		Imports:          1000,
		Functions:        50_000,
		Globals:          10_000,
		Exports:          10_000,
		ElementSegments:  10_000,
		Elements:         200_000,
		DataSegments:     200_000,

		Locals:        50_000,
		LocalsTotal:   2_000_000,
		FunctionBytes: 6 << 20,
		Nesting:       10_000,
		Operands:      200_000,
		Joins:         5_000_000,
		CompileWork:   150_000_000,

		MemoryPages:  256, // 16 MiB
		Tables:       4,
		TableEntries: 65_536,
	}
}

// Error is the reason why a module is refused.
type Error struct {
	Section string // "header", or the section's name in the specification: "type", "code", ...
	Offset  int    // bytes from the start of the file
	Reason  string
}

// Error returns the reason with the section and the offset.
func (e *Error) Error() string {
	return fmt.Sprintf("instrumenting module: %s section, offset %d: %s", e.Section, e.Offset, e.Reason)
}
