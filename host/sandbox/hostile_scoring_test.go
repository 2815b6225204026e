package sandbox

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
)

// Guests that return: healthy ones, ones that break the rules, and ones that try to see more than their facts.

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

// awaited ends the number that a guest gives its subscription.
const awaited = 0x01020304

// subscription is a WASI subscription to a clock that fires in an hour.
func subscription() string {
	b := make([]byte, 48)
	binary.LittleEndian.PutUint32(b[4:], awaited)
	binary.LittleEndian.PutUint32(b[16:], 1)
	binary.LittleEndian.PutUint64(b[24:], 3600e9)
	return string(b)
}

// sleepAnHour scores after poll_oneoff has succeeded, and the event has the subscription's number.
func sleepAnHour() []byte {
	g := newGuest().importing(wasiPollImport)
	return g.scoring(g.text(subscription()), opDrop, i32Const(bufferAt), i32Const(1), i32Const(0), callFunc(fnLog+1),
		ifTrue(opUnreachable), i32Const(bufferAt+4), opLoad, i32Const(awaited), opEqual,
		ifTrue(g.signal(5, codeOne, "Slept"), returnScored, opReturn), opUnreachable).encode()
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
	return g.scoring(growTo64MiB, opDrop, concat(code...), callFunc(fnLog+1), i32Const(wasiInvalid), opEqual,
		ifTrue(g.signal(6, codeOne, "Refused"), returnScored, opReturn), opUnreachable).encode
}

// flipACoin scores by the clocks and a random number: one point per bit set in their exclusive or.
func flipACoin() []byte {
	g := newGuest().importing(importOf(wasiModule, "clock_time_get", tI32+tI64+tI32, tI32), wasiRandomGetImport)
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

// closeOutput scores the file type of standard output, 1, or 50 more if it is closed, and closes standard files.
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

// growEachCall scores the size of its memory in pages, and then grows it and writes to its end.
func growEachCall() []byte {
	g := newGuest()
	return g.scoring(opMemorySize, g.text(codeOne), g.text("Pages"), callFunc(fnSignal), i32Const(8), opMemoryGrow,
		opDrop, i32Const(9<<16-4), i32Const(1), opStore, returnScored).encode()
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
		g.customs = append(g.customs, section(0, concat(sizedString(name), bytes.Repeat([]byte{0xff}, 64<<10))))
	}
	return g.encode()
}

// Guests that never return, or only after a very long time.

// callTreeByTable has a hundred functions that each call the next one twice, indirectly: 2^100 calls without a loop.
func callTreeByTable() []byte {
	g := scoring(callFunc(fnScore+1), returnScored)
	for i := range 99 {
		g.with(guestFunction{body: bytes.Repeat(callTable(i+1, fnScore+100), 2)})
	}
	g.with(guestFunction{})
	members := make([]int, 100)
	for i := range members {
		members[i] = fnScore + i + 1
	}
	g.tables = [][]byte{functionTable(100, 100)}
	g.elements = [][]byte{activeElements(members...)}
	return g.encode()
}

// fib returns the function fib(n i64) i64, naively recursive, as function number self.
func fib(self int) guestFunction {
	previous := func(n int64) []byte { return concat(localGet(0), i64Const(n), op(0x7d), callFunc(self)) }
	return guestFunction{params: tI64, results: tI64, body: concat(
		localGet(0), i64Const(2), op(0x54, 0x04, 0x7e), localGet(0), op(0x05),
		previous(1), previous(2), op(0x7c, 0x0b))}
}

// recursionDepth is the call depth that a layer with small frames may rely on (sdk/ABI.md section 5).
const recursionDepth = 20_000

// deep returns a function that calls itself n times and then runs code, and the code that starts it.
func deep(self, n int, code ...[]byte) (start []byte, f guestFunction) {
	return concat(i32Const(n), callFunc(self)), guestFunction{params: tI32, body: concat(
		localGet(0), op(0x04, 0x40), localGet(0), i32Const(-1), opAdd, callFunc(self), op(0x05),
		concat(code...), op(0x0b))}
}

// growTo64MiB grows a memory of one page to 64 MiB and pushes that size.
var growTo64MiB = concat(i32Const(1023), opMemoryGrow, opDrop, i32Const(64<<20))

func copyForever() []byte {
	copying := concat(i32Const(8), i32Const(0), localGet(0), opMemoryCopy)
	return scoring(growTo64MiB, i32Const(-8), opAdd, localSet(0), endless(copying), returnScored).encode()
}

// initForever copies a passive segment of 1 MiB.
func initForever() []byte {
	initialise := concat(i32Const(0), i32Const(0), i32Const(1<<20), opMemoryInit)
	g := scoring(growTo64MiB, opDrop, endless(initialise), returnScored)
	g.passive = make([]byte, 1<<20)
	return g.encode()
}

// touchForever writes to every 4 KiB page in turn, so that the kernel must allocate each of them.
func touchForever() []byte {
	page := concat(localGet(0), i32Const(1), opStore, localGet(0), i32Const(4096), opAdd, op(0x22, 0), i32Const(63<<20),
		op(0x49, 0x0d, 0))
	all := concat(i32Const(0), localSet(0), op(0x03, 0x40), page, op(0x0b))
	return scoring(growTo64MiB, opDrop, endless(all), returnScored).encode()
}

func loopInStart() *guest {
	g := healthy().with(guestFunction{body: endless()})
	g.start = fnScore + 1
	return g
}

// Guests that trap, exit, or overflow a limit.

func trapping(code ...[]byte) func() []byte { return scoring(concat(code...), returnScored).encode }

// mistypedCall calls a function in a table as one of another type.
func mistypedCall() []byte {
	g := scoring(callTable(0, fnScore), opDrop, returnScored).with(guestFunction{params: tI64})
	g.tables = [][]byte{functionTable(1, 1)}
	g.elements = [][]byte{activeElements(fnScore + 1)}
	return g.encode()
}

// recurseAndReturn recurses as deeply as the interface allows, and scores.
func recurseAndReturn() []byte {
	g := newGuest()
	start, f := deep(fnScore+1, recursionDepth)
	return g.scoring(start, g.signal(3, codeOne, "Returned"), returnScored).with(f).encode()
}

// recurseWithResults has a frame of 8 kB for two instructions.
func recurseWithResults() []byte {
	return scoring(callFunc(fnScore+1), bytes.Repeat(opDrop, 1000), returnScored).
		with(guestFunction{results: strings.Repeat(tI64, 1000), body: callFunc(fnScore + 1)}).encode()
}

// recurseWithColdFrame has a frame of 24 kB for code that never runs.
func recurseWithColdFrame() []byte {
	const values = 3000
	cold := concat(bytes.Repeat(concat(i32Const(0), opLoad), values), bytes.Repeat(opXor, values-1))
	recurse := concat(localGet(0), op(0x45, 0x04, 0x40), cold, callFunc(fnScore+2), opDrop, op(0x0b),
		localGet(0), callFunc(fnScore+1))
	return scoring(i32Const(1), callFunc(fnScore+1), returnScored).with(guestFunction{params: tI32, body: recurse},
		guestFunction{params: tI32, results: tI32, body: localGet(0)}).encode()
}

// recurseWithLocals has a frame for the locals that nested loops carry, and never runs the loops.
func recurseWithLocals() []byte {
	const locals, loops = 900, 10
	var cold []byte
	for i := range uint32(locals) {
		cold = concat(cold, localGet(i), i32Const(1), opAdd, localSet(i))
	}
	for range loops {
		cold = concat(op(0x03, 0x40), cold, localGet(0), op(0x0d, 0, 0x0b))
	}
	recurse := concat(localGet(0), ifTrue(cold), localGet(0), callFunc(fnScore+1))
	return scoring(i32Const(0), callFunc(fnScore+1), returnScored).
		with(guestFunction{params: tI32, locals: strings.Repeat(tI32, locals), body: recurse}).encode()
}

// once runs code in the first call of an instance, and scores 66 points in the second.
func once(first ...[]byte) func() []byte {
	g := newGuest()
	return g.scoring(i32Const(bufferAt), opLoad,
		ifTrue(g.signal(66, codeOne, "A broken instance was reused"), returnScored, opReturn),
		i32Const(bufferAt), i32Const(1), opStore, concat(first...), returnScored).encode
}
