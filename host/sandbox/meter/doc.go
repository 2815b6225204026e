// Package meter vets an untrusted WebAssembly module and rewrites it so that what it executes burns fuel.
//
// It runs before any engine sees the bytes, for two reasons. A module of a few bytes may declare what exhausts the
// host that merely loads it: four billion locals, tables without end. And an engine's own interruption costs several
// times a layer's running time, and misses exponential call trees. [Vet] bounds the first, [Instrument] does both.
//
// # What is checked here, and what is left to the engine
//
// Checked here, over WebAssembly 2.0 (https://www.w3.org/TR/wasm-core-2/): magic and version; the order, uniqueness,
// and exact length of sections; LEB128 lengths and unused bits; UTF-8 names; unique export names; every count against
// both its limit and the bytes that remain; agreement of function with code count and of data count with data; the
// ranges of type, function, table, memory, global, local, element and data indices and of label depths; reserved
// bytes; lane indices; one instruction in each constant expression; balance and depth of blocks; the start function's
// type. Index ranges must be ours because rewriting appends types, functions, a global and locals, which must not
// become reachable for the guest. Opcode prefixes must be of the shortest form, so that no engine can decode an
// instruction otherwise than we do.
//
// Left to the engine's validator: operand and result types, alignment hints, mutability on global.set, declaration of
// ref.func targets, the types of constant expressions, and that a memory or table offset lies inside. The rewriting
// neither hides such an error nor brings one in.
//
// Refused by name: threads, tail calls, exception handling, garbage collection and typed function references,
// memory64, multi-memory, extended constant expressions, relaxed SIMD, component binaries; and imports other than of
// functions.
//
// # Fuel
//
// One unit is one instruction: each counts 1, save that block, loop, else and end are free, that entering a function
// costs 3 more and a loop iteration 1 more, that a direct call of an import costs 64 more, and that bulk operations
// cost, on top, one unit for 64 bytes of memory, for 8 table entries, or 1024 for a page of memory. Sizes count as
// asked for, also where the operation then fails. Entering a function that calls others costs another unit for every
// 16 values that its frame may have to hold, beyond 64: so a stack cannot grow by more than some 256 bytes a unit.
// Code is charged before it runs, in stretches of at most some 512 instructions without a loop or a call, so what was
// charged is never less than what ran; it is more only by what a branch or a trap leaves out of its stretch.
//
// The fuel is an exported i64 global. It is looked at on entering a function that calls others, at each loop header,
// after each call of the guest's own code, after each bulk charge, and at least every 4096 instructions between these,
// where a memory access counts as 16. A bulk memory instruction over more than 64 KiB is done in pieces of that size,
// by a function added to the module, which looks before each. When it is below zero, the import assay_meter.refill, of
// type () -> (), is called. That must either set the global to a new slice, of any size above zero, or panic, which
// traps the guest. What was burned is the sum, over all refills, of the new value less the old, less the value in the
// end; it is the same for every run on the same input, whatever the slices were. After a trap the global may lag
// behind, by what the trapped functions had cached. Code after a call is charged after the call returns, so a deep
// stack cannot hold paid-for work that nobody looks at while it unwinds.
//
// A start function is exported instead of started, so that whoever calls it can give it a first slice and watch its
// stack. The global starts at zero.
package meter
