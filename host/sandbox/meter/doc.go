// Package meter instruments untrusted WebAssembly modules so that the code they execute burns fuel. It refuses modules
// that ask for too much before an engine sees them. It does not compile or run anything.
//
// Both jobs are done before any engine reads the bytes. A module of a few bytes can declare resources that exhaust a
// host that merely loads it, such as four billion locals or tables without a maximum. And an engine's own interruption
// multiplies the running time of a layer and misses exponential call trees.
//
// # Validation
//
// Section numbers in this package refer to the WebAssembly Core Specification 2.0 (https://www.w3.org/TR/wasm-core-2/).
//
// [Instrument] checks: magic and version; the order, uniqueness and exact length of sections; LEB128 lengths and unused
// bits; UTF-8 names; unique export names; every count against both its limit and the remaining bytes; that the counts
// of functions and function bodies agree, and those of data segments and the data count section; the ranges of type,
// function, table, memory, global, local, element and data indices and of labels; reserved bytes; lane indices; that a
// constant expression has one instruction; the balance and depth of blocks; and the type of the start function. It
// checks index ranges itself because instrumentation appends types, functions, a global and locals, which the guest
// must not be able to name. Opcodes after a prefix must have the shortest encoding, so that no engine can decode an
// instruction differently.
//
// It leaves to the engine's validation: operand and result types, alignment hints, mutability in global.set, the
// declaration of ref.func targets, the types of constant expressions, and the range of memory and table offsets.
// Instrumentation neither hides nor causes such an error.
//
// It refuses, with the feature's name in the error: threads, tail calls, exception handling, garbage collection and
// typed function references, memory64, multiple memories, extended constant expressions, relaxed SIMD and component
// binaries. Only functions may be imported.
//
// # Fuel
//
// An instruction costs one unit of fuel, with these exceptions:
//
//   - block, loop, else and end are free.
//   - Entering a function costs 3 more, and a loop iteration 1 more.
//   - Entering a function that calls guest code costs 1 more for every 16 values beyond 64 that its stack frame may
//     hold, so that a stack grows by at most about 256 bytes a unit.
//   - A call of an import costs ImportCost more, which the host charges, because a guest may also call it indirectly.
//   - Bulk operations cost 1 more for every 64 bytes of memory or 8 table entries, and memory.grow costs 1024 more for
//     each page. The requested size counts, even if the operation then fails.
//
// Code is charged before it runs, in metered blocks of about 512 instructions at most without a loop or a call. So the
// charge is never less than the cost of what ran. It is more only if a branch or a trap skips the rest of a block.
//
// The fuel is an exported i64 global. Guest code checks it on entering a function that calls guest code, at each loop
// header, after each call of guest code, after each bulk charge, and at least every 4096 instructions between these,
// counting a memory access as 16 and a direct call of an import as 64. A bulk memory instruction over more than 64 KiB
// runs in chunks of that size, in a function added to the module that checks the fuel before each chunk.
//
// If the fuel is below zero, the guest calls the import assay_meter.refill, of type () -> (). The host must either set
// the global to a new slice, of any size above zero, or panic, which traps the guest. The fuel burned is the sum over
// all refills of the new value minus the old value, minus the final value. It is the same in every run on the same
// input, whatever the sizes of the slices. After a trap the global may be out of date, because functions cache the fuel
// in a local. Code after a call is charged when the call returns, so a deep stack cannot hold prepaid work that runs
// unchecked while it unwinds.
//
// A start function becomes an export, so that the host can grant a first slice before running it. The fuel starts at
// zero.
package meter
