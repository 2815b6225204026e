package sandbox

import "bytes"

// Guests that never return, or only after a very long time.

func loopForever() []byte { return scoring(endless(), returnScored).encode() }

func loopByBranchTable() []byte {
	return scoring(op(0x03, 0x40), i32Const(0), op(0x0e, 1, 0, 0, 0x0b), returnScored).encode()
}

func loopThroughHost() []byte {
	g := newGuest()
	return g.scoring(endless(g.fact("entity.value", 100), opDrop), returnScored).encode()
}

// callTree has a hundred functions that each call the next one twice: 2^100 calls without a loop.
func callTree() []byte {
	g := scoring(callFunc(fnScore+1), returnScored)
	for i := range 99 {
		g.with(guestFunction{body: bytes.Repeat(callFunc(fnScore+i+2), 2)})
	}
	return g.with(guestFunction{}).encode()
}

// callTreeByTable is callTree with indirect calls.
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

func naiveFib() []byte {
	return scoring(i64Const(90), callFunc(fnScore+1), opDrop, returnScored).with(fib(fnScore + 1)).encode()
}

// straightLine has 5 MiB of code without a loop, which a call tree runs again and again. With the race detector, which
// slows the compiler down, it has an eighth of that.
func straightLine() []byte {
	size := 5 << 20
	if raceDetector {
		size /= 8
	}
	g := scoring(callFunc(fnScore+1), returnScored)
	for i := range 30 {
		g.with(guestFunction{body: bytes.Repeat(callFunc(fnScore+i+2), 2)})
	}
	step := concat(localGet(0), i32Const(1), opAdd, localSet(0))
	return g.with(guestFunction{locals: tI32, body: bytes.Repeat(step, size/len(step))}).encode()
}

// recursionDepth is the call depth that a layer with small frames may rely on (sdk/ABI.md section 5).
const recursionDepth = 20_000

// deep returns a function that calls itself n times and then runs code, and the code that starts it.
func deep(self, n int, code ...[]byte) (start []byte, f guestFunction) {
	return concat(i32Const(n), callFunc(self)), guestFunction{params: tI32, body: concat(
		localGet(0), op(0x04, 0x40), localGet(0), i32Const(-1), opAdd, callFunc(self), op(0x05),
		concat(code...), op(0x0b))}
}

func loopAtDepth() []byte {
	start, f := deep(fnScore+1, recursionDepth, endless())
	return scoring(start, returnScored).with(f).encode()
}

// recurseRepeatedly recurses deeply, returns, and starts again.
func recurseRepeatedly() []byte {
	start, f := deep(fnScore+1, recursionDepth)
	return scoring(endless(start), returnScored).with(f).encode()
}

func growForever() []byte {
	return scoring(endless(i32Const(1), opMemoryGrow, opDrop), returnScored).encode()
}

// growTo64MiB grows a memory of one page to 64 MiB and pushes that size.
var growTo64MiB = concat(i32Const(1023), opMemoryGrow, opDrop, i32Const(64<<20))

func fillForever() []byte {
	fill := concat(i32Const(0), i32Const(0xff), localGet(0), opMemoryFill)
	return scoring(growTo64MiB, localSet(0), endless(fill), returnScored).encode()
}

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

func yieldForever() []byte {
	return newGuest().importing(importOf(wasiModule, "sched_yield", "", tI32)).
		scoring(endless(callFunc(fnLog+1), opDrop), returnScored).encode()
}

func logForever() []byte {
	g := newGuest()
	return g.scoring(endless(g.log("%s%n is a format\n")), returnScored).encode()
}

// endlessHostCall calls an imported function again and again with the arguments that code pushes.
func endlessHostCall(f guestImport, code ...[]byte) func() []byte {
	return func() []byte {
		return newGuest().importing(f).
			scoring(growTo64MiB, opDrop, endless(concat(code...), callFunc(fnLog+1), opDrop), returnScored).encode()
	}
}

var (
	// randomForever has the host write 64 MiB per instruction.
	randomForever = endlessHostCall(wasiRandomGetImport, i32Const(0), i32Const(64<<20))
	// printVectors prints eight million empty buffers per call.
	printVectors = endlessHostCall(wasiWriteImport, i32Const(1), i32Const(64), i32Const(8_000_000), i32Const(0))
	// pollVectors subscribes to more than a million clocks per call.
	pollVectors = endlessHostCall(wasiPollImport, i32Const(64), i32Const(64), i32Const(1_300_000), i32Const(0))
)
