package sandbox_test

import "bytes"

// Guests that do not end, or not soon.

func loopForever() []byte { return scoring(endless(), scored).encode() }

func loopByTable() []byte {
	return scoring(op(0x03, 0x40), num(0), op(0x0e, 1, 0, 0, 0x0b), scored).encode()
}

func loopThroughHost() []byte {
	l := newLayer()
	return l.scoring(endless(l.text("entity.value"), num(buffer), num(100), call(fact), drop), scored).encode()
}

// callTree is a hundred functions that each call the next one twice: 2^100 calls without a loop.
func callTree() []byte {
	l := scoring(call(score+1), scored)
	for i := range 99 {
		l.with(function{body: cat(call(score+i+2), call(score+i+2))})
	}
	return l.with(function{}).encode()
}

// callTreeByTable does so through a table.
func callTreeByTable() []byte {
	l := scoring(call(score+1), scored)
	for i := range 99 {
		next := cat(num(i+1), op(0x11), unsigned(score+100), op(0))
		l.with(function{body: cat(next, next)})
	}
	l.with(function{})
	l.tables = [][]byte{cat([]byte(funcref), op(1, 100, 100))}
	members := make([][]byte, 100)
	for i := range members {
		members[i] = unsigned(uint32(score + i + 1))
	}
	l.elements = [][]byte{cat(op(0), num(0), op(0x0b), vector(members))}
	return l.encode()
}

// fib is fib(n i64) i64 without memory, as function number self.
func fib(self int) function {
	less := func(n int64) []byte { return cat(local(0), long(n), op(0x7d), call(self)) }
	return function{params: i64, results: i64, body: cat(local(0), long(2), op(0x54, 0x04, 0x7e), local(0), op(0x05),
		less(1), less(2), op(0x7c, 0x0b))}
}

func naiveFib() []byte {
	return scoring(long(90), call(score+1), drop, scored).with(fib(score + 1)).encode()
}

// straightLine is 5 MB of code without a loop, which a tree of calls runs again and again.
func straightLine() []byte {
	l := scoring(call(score+1), scored)
	for i := range 30 {
		l.with(function{body: cat(call(score+i+2), call(score+i+2))})
	}
	step := cat(local(0), num(1), add, setLocal(0))
	return l.with(function{locals: i32, body: bytes.Repeat(step, 5<<20/len(step))}).encode()
}

// deep calls itself n times, and then does what code says.
func deep(self, n int, code ...[]byte) (body []byte, f function) {
	return cat(num(n), call(self)), function{params: i32, body: cat(local(0), op(0x04, 0x40),
		local(0), num(-1), add, call(self), op(0x05), cat(code...), op(0x0b))}
}

func loopAtDepth() []byte {
	body, f := deep(score+1, recursionDepth, endless())
	return scoring(body, scored).with(f).encode()
}

// climbForever goes deep, comes back and goes deep again.
func climbForever() []byte {
	body, f := deep(score+1, recursionDepth)
	return scoring(endless(body), scored).with(f).encode()
}

func growForever() []byte { return scoring(endless(num(1), growMemory, drop), scored).encode() }

// wholeMemory grows to 64 MiB and pushes that size.
var wholeMemory = cat(num(1023), growMemory, drop, num(64<<20))

func fillForever() []byte {
	return scoring(wholeMemory, setLocal(0), endless(num(0), num(0xff), local(0), op(0xfc, 11, 0)), scored).encode()
}

func copyForever() []byte {
	return scoring(wholeMemory, num(-8), add, setLocal(0), endless(num(8), num(0), local(0), op(0xfc, 10, 0, 0)),
		scored).encode()
}

// initForever copies a passive segment of a megabyte.
func initForever() []byte {
	l := scoring(wholeMemory, drop, endless(num(0), num(0), num(1<<20), op(0xfc, 8, 0, 0)), scored)
	l.passive = make([]byte, 1<<20)
	return l.encode()
}

// touchForever writes to each page of the system's, so that the kernel has to find memory all the time: it drops what
// it has by growing no more.
func touchForever() []byte {
	page := cat(local(0), num(1), store, local(0), num(4096), add, op(0x22, 0), num(63<<20), op(0x49, 0x0d, 0))
	return scoring(wholeMemory, drop, endless(num(0), setLocal(0), op(0x03, 0x40), page, op(0x0b)), scored).encode()
}

func fillTableForever() []byte {
	l := scoring(endless(num(0), op(0xd0, 0x70), num(65536), op(0xfc, 17, 0)), scored)
	l.tables = [][]byte{cat([]byte(funcref), op(1), unsigned(65536), unsigned(65536))}
	return l.encode()
}

func yieldForever() []byte {
	return newLayer().importing(wasi("sched_yield", "", i32)).scoring(endless(call(log+1), drop), scored).encode()
}

func logForever() []byte {
	l := newLayer()
	return l.scoring(endless(num(0), l.text("%s%n is a format\n"), call(log)), scored).encode()
}

// randomForever has the host write 64 MiB, over and over: a single instruction each.
func randomForever() []byte {
	l := newLayer().importing(randomGet)
	return l.scoring(wholeMemory, setLocal(0), endless(num(0), local(0), call(log+1), drop), scored).encode()
}

// printVectors prints eight million pieces of nothing with one call.
func printVectors() []byte {
	l := newLayer().importing(fdWrite)
	return l.scoring(wholeMemory, drop, endless(num(1), num(64), num(8_000_000), num(0), call(log+1), drop),
		scored).encode()
}

// pollVectors waits for a million clocks with one call.
func pollVectors() []byte {
	l := newLayer().importing(pollOneoff)
	return l.scoring(wholeMemory, drop, endless(num(64), num(64), num(1_300_000), num(0), call(log+1), drop),
		scored).encode()
}

// WASI functions that can be asked for a lot of work at once.
var (
	randomGet  = wasi("random_get", i32+i32, i32)
	fdWrite    = wasi("fd_write", i32+i32+i32+i32, i32)
	pollOneoff = wasi("poll_oneoff", i32+i32+i32+i32, i32)
)

func wasi(name, params, results string) imported {
	return imported{"wasi_snapshot_preview1", name, params, results}
}
