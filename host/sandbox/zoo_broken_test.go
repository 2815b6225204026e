package sandbox_test

import (
	"bytes"
	"strings"
)

// Guests that break: their traps, their stacks and their ends.

func trapping(code ...[]byte) func() []byte {
	return func() []byte { return scoring(cat(code...), scored).encode() }
}

// tabled has a table of three: a function of another type than asked for, and two empty places.
func tabled(code ...[]byte) func() []byte {
	return func() []byte {
		l := scoring(cat(code...), scored).with(function{params: i64, body: nil})
		l.tables = [][]byte{cat([]byte(funcref), op(1, 3, 3))}
		l.elements = [][]byte{cat(op(0), num(0), op(0x0b), vector([][]byte{unsigned(score + 1)}))}
		return l.encode()
	}
}

// viaTable calls what the table has at a place, as a function of the type of the score function.
func viaTable(place int) []byte { return cat(num(place), op(0x11), unsigned(score), op(0), drop) }

func exiting(code int) func() []byte {
	return func() []byte {
		return newLayer().importing(wasi("proc_exit", i32, "")).scoring(num(code), call(log+1), scored).encode()
	}
}

func recurseForever() []byte {
	return scoring(call(score+1), scored).with(function{body: call(score + 1)}).encode()
}

// recurseInTurns has two functions call each other, with a frame of a hundred values each.
func recurseInTurns() []byte {
	const values = 100
	many, ones := strings.Repeat(i64, values), bytes.Repeat(long(1), values)
	there := func(other int) function {
		var pass []byte
		for i := range values {
			pass = cat(pass, local(byte(i)))
		}
		return function{params: many, results: i64, body: cat(pass, call(other), local(values-1), op(0x7c))}
	}
	return scoring(ones, call(score+1), drop, scored).with(there(score+2), there(score+1)).encode()
}

// recurseAndReturn goes as deep as it can without a trap, and answers.
func recurseAndReturn() []byte {
	l := newLayer()
	body, f := deep(score+1, recursionDepth)
	return l.scoring(body, l.says(3, said, "back again"), scored).with(f).encode()
}

// recursionDepth takes a megabyte or two of the engine's stack, which ends at about 80.
const recursionDepth = 20_000

func trapAtDepth() []byte {
	body, f := deep(score+1, recursionDepth, unreachable)
	return scoring(body, scored).with(f).encode()
}

func growAtOnce() []byte {
	l := newLayer()
	return l.scoring(num(65535), growMemory, num(-1), op(0x46), when(l.says(9, said, "refused"), scored, returns), unreachable).encode()
}

func growTableAtOnce() []byte {
	l := newLayer()
	l.tables = [][]byte{cat([]byte(funcref), op(1, 1), unsigned(0xffffffff))}
	return l.scoring(op(0xd0, 0x70), num(0x7fffffff), op(0xfc, 15, 0), num(-1), op(0x46),
		when(l.says(9, said, "refused"), scored, returns), unreachable).encode()
}

// once does what code says if this instance has never been called before; if it has, it gives 66 points.
func once(first ...[]byte) func() []byte {
	return func() []byte {
		l := newLayer()
		return l.scoring(num(buffer), load, when(l.says(66, said, "a broken instance was used again"), scored, returns),
			num(buffer), num(1), store, cat(first...), scored).encode()
	}
}
