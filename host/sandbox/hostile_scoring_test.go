package sandbox

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Guests that return: healthy ones, ones whose answers break the rules of the interface, and ones that try to see more
// than their facts.

// healthy emits a signal whose text is the entity's value, worth one point per byte.
func healthy() *guest {
	g := newGuest()
	return g.scoring(g.fact("entity.value", 200), localSet(0),
		localGet(0), g.text(codeOne), i32Const(bufferAt), localGet(0), callFunc(fnSignal), returnScored)
}

// signalling emits one signal.
func signalling(points int, code, text string) *guest {
	g := newGuest()
	return g.scoring(g.signal(points, code, text), returnScored)
}

// signallingRepeatedly emits n signals.
func signallingRepeatedly(n int) func() []byte {
	g := newGuest()
	return g.scoring(repeat(n, g.signal(1, codeOne, "Again")), returnScored).encode
}

func returning(outcome int) func() []byte { return scoring(i32Const(outcome)).encode }

// logging logs text and traps.
func logging(text string) func() []byte {
	g := newGuest()
	return g.scoring(g.log(text), opUnreachable).encode
}

// loggingBytes logs n bytes of x and traps.
func loggingBytes(n int) func() []byte {
	return scoring(growTo64MiB, opDrop, i32Const(bufferAt), i32Const('x'), i32Const(n), opMemoryFill,
		i32Const(0), i32Const(bufferAt), i32Const(n), callFunc(fnLog), opUnreachable).encode
}

// subscription is a WASI subscription to a clock that fires in an hour.
func subscription() string {
	b := make([]byte, 48)
	binary.LittleEndian.PutUint32(b[16:], 1)
	binary.LittleEndian.PutUint64(b[24:], 3600e9)
	return string(b)
}

// sleepAnHour scores after poll_oneoff has succeeded.
func sleepAnHour() []byte {
	g := newGuest().importing(wasiPollImport)
	return g.scoring(g.text(subscription()), opDrop, i32Const(bufferAt), i32Const(1), i32Const(0), callFunc(fnLog+1),
		ifTrue(opUnreachable), g.signal(5, codeOne, "Slept"), returnScored).encode()
}

// overflowingSubscriptions passes so many subscriptions that their size in bytes overflows, and scores if that fails.
func overflowingSubscriptions(n int) func() []byte {
	g := newGuest().importing(wasiPollImport)
	return g.scoring(g.text(subscription()), opDrop, i32Const(bufferAt), i32Const(n), i32Const(0), callFunc(fnLog+1),
		ifTrue(g.signal(6, codeOne, "Refused"), returnScored, opReturn), opUnreachable).encode
}

// invalidArguments calls a WASI function with the arguments that code pushes, and scores if it fails with EINVAL.
func invalidArguments(function guestImport, code ...[]byte) func() []byte {
	g := newGuest().importing(function)
	return g.scoring(growTo64MiB, opDrop, concat(code...), callFunc(fnLog+1), i32Const(wasiInvalid),
		g.scoreIfEqual(6)).encode
}

// flipACoin scores by the clocks and a random number: one point per bit set in their exclusive or.
func flipACoin() []byte {
	clockTimeGet := importOf(wasiModule, "clock_time_get", tI32+tI64+tI32, tI32)
	g := newGuest().importing(clockTimeGet, wasiRandomGetImport)
	result := concat(opDrop, i32Const(bufferAt), opLoad)
	clock := func(id int) []byte {
		return concat(i32Const(id), i64Const(1), i32Const(bufferAt), callFunc(fnLog+1), result)
	}
	random := concat(i32Const(bufferAt), i32Const(4), callFunc(fnLog+2), result)
	popcount := op(0x69)
	return g.scoring(clock(0), clock(1), opXor, random, opXor, popcount,
		g.text(codeOne), g.text("Heads"), callFunc(fnSignal), returnScored).encode()
}

// coinScore is the score of flipACoin with the frozen clocks and without randomness.
var coinScore = bits.OnesCount32(uint32(frozenSeconds*1_000_000_000&0xffffffff) ^ frozenNanoseconds)

// countCalls scores how often this instance was called, counted in a global and in memory: 2 on a restored instance.
func countCalls() []byte {
	g := newGuest()
	g.globals = [][]byte{concat([]byte(tI32), op(1), i32Const(0), op(0x0b))}
	return g.scoring(globalGet(0), i32Const(1), opAdd, globalSet(0),
		i32Const(bufferAt), i32Const(bufferAt), opLoad, i32Const(1), opAdd, opStore,
		globalGet(0), g.text(codeOne), g.text("Calls by the global"), callFunc(fnSignal),
		i32Const(bufferAt), opLoad, g.text(codeOne), g.text("Calls by the memory"), callFunc(fnSignal),
		returnScored).encode()
}

// leakPrevious remembers the entity of each call and reports it to the next caller.
func leakPrevious() []byte {
	g := newGuest()
	const previous, current = bufferAt + 1024, bufferAt
	length := concat(i32Const(previous), opLoad)
	return g.scoring(length, ifTrue(i32Const(1), g.text(codeOne), i32Const(previous+4), length, callFunc(fnSignal)),
		i32Const(previous), g.fact("entity.value", 200), opStore,
		i32Const(previous+4), i32Const(current), length, opMemoryCopy, returnScored).encode()
}

// closeOutput scores the file type of standard output, which is 1 for a device, and 50 points if it is closed. Then it
// closes standard input, output and error.
func closeOutput() []byte {
	const fnStatus, fnClose = fnLog + 1, fnLog + 2
	g := newGuest().importing(importOf(wasiModule, "fd_fdstat_get", tI32+tI32, tI32),
		importOf(wasiModule, "fd_close", tI32, tI32))
	closeFile := func(fd int) []byte { return concat(i32Const(fd), callFunc(fnClose), opDrop) }
	return g.scoring(i32Const(1), i32Const(bufferAt), callFunc(fnStatus), ifTrue(g.signal(50, codeOne, "Closed")),
		i32Const(bufferAt), opLoadByte, g.text(codeOne), g.text("File type"), callFunc(fnSignal),
		closeFile(0), closeFile(1), closeFile(2), returnScored).encode()
}

// settingTable changes its table, which the host does not put back.
func settingTable() []byte {
	g := scoring(i32Const(0), opNullFunc, op(0x26, 0), returnScored)
	g.tables = [][]byte{functionTable(1, 2)}
	return g.encode()
}

// growEachCall scores the size of its memory in pages, and then grows it.
func growEachCall() []byte {
	g := newGuest()
	return g.scoring(opMemorySize, g.text(codeOne), g.text("Pages"), callFunc(fnSignal), i32Const(1), opMemoryGrow,
		opDrop, returnScored).encode()
}

// slow runs n iterations of a loop and scores.
func slow(n int) func() []byte {
	g := newGuest()
	return g.scoring(repeat(n, localGet(1), i64Const(1), op(0x7c), localSet(1)), g.signal(7, codeOne, "Done"),
		returnScored).encode
}

// invalidDebugInfo has DWARF sections without a valid byte.
func invalidDebugInfo() []byte {
	g := healthy()
	for _, name := range []string{".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges"} {
		g.customs = append(g.customs, customSection(name, bytes.Repeat([]byte{0xff}, 64<<10)))
	}
	return g.encode()
}
