package sandbox

import "bytes"

// Guests that never return, or only after a very long time.

func loopForever() []byte { return scoring(endless(), returnScored).encode() }

func loopThroughHost() []byte {
	g := newGuest()
	return g.scoring(endless(g.fact("entity.value", 100), opDrop), returnScored).encode()
}

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

func loopAtDepth() []byte {
	start, f := deep(fnScore+1, recursionDepth, endless())
	return scoring(start, returnScored).with(f).encode()
}

func growForever() []byte {
	return scoring(endless(i32Const(1), opMemoryGrow, opDrop), returnScored).encode()
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

func yieldForever() []byte {
	return newGuest().importing(importOf(wasiModule, "sched_yield", "", tI32)).
		scoring(endless(callFunc(fnLog+1), opDrop), returnScored).encode()
}

func logForever() []byte {
	g := newGuest()
	return g.scoring(endless(g.log("%s%n is a format\n")), returnScored).encode()
}

func loopInStart() *guest {
	g := healthy().with(guestFunction{body: endless()})
	g.start = fnScore + 1
	return g
}
