package meter

import "fmt"

// Limits bound what a module may ask for. The zero value refuses nearly everything; start from [DefaultLimits].
// Each count is also held to the bytes that remain in its section, before anything is allocated for it.
type Limits struct {
	ModuleBytes  int // the file
	MeteredBytes int // the file after rewriting
	NameBytes    int // one import, export or custom section name

	Types            int
	ParamsAndResults int // of one signature
	Imports          int
	Functions        int // defined ones
	Globals          int
	Exports          int
	ElementSegments  int
	Elements         int // entries of all element segments together
	DataSegments     int

	Locals        int // of one function, its parameters included
	LocalsTotal   int // of all functions together: an engine spends memory on each, a file does not
	FunctionBytes int // one body
	Nesting       int // blocks within each other

	// Operands bounds the values that calls, branches and blocks of one function pass: two bytes of code can pass
	// thousands, and a compiler allocates for each.
	Operands int
	// Joins bounds, for one function, branch targets times locals: where paths meet, a compiler may need to merge
	// each local.
	Joins int
	// Work bounds, for all functions together, what a compiler may take more than linear time for: the blocks and
	// branches of a function, squared, and its joins times its loops within each other. Measured, wazero takes 7 to 40
	// nanoseconds for a unit.
	Work int

	MemoryPages  uint32 // 64 KiB each. A larger minimum is refused, a larger or missing maximum becomes this
	Tables       int
	TableEntries uint32 // of one table. A larger minimum is refused, a larger or missing maximum becomes this
}

// DefaultLimits holds several times what real layers built by Go, Rust, C and AssemblyScript need: a Go guest of 2.6 MB
// has 1,800 functions of up to 29 KB, 31,000 data segments, 5,900 table entries, blocks nested 550 deep, and 40 million
// units of work.
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
		Work:          150_000_000,

		MemoryPages:  256, // 16 MiB
		Tables:       4,
		TableEntries: 65_536,
	}
}

// Error says why a module was refused.
type Error struct {
	Section string // "header", or the section's name in the specification: "type", "code", ...
	Offset  int    // bytes from the start of the file
	Reason  string
}

// Error names the section and the offset.
func (e *Error) Error() string {
	return fmt.Sprintf("vetting module: %s section, offset %d: %s", e.Section, e.Offset, e.Reason)
}
