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

// recursionDepth is what a layer with small frames may rely on (sdk/ABI.md section 5).
const recursionDepth = 20_000

// recurseTooDeepAndReturn is back within a slice or two of fuel.
func recurseTooDeepAndReturn() []byte {
	body, f := deep(score+1, 10*recursionDepth)
	return scoring(body, scored).with(f).encode()
}

// recurseByTable never names what it calls.
func recurseByTable() []byte {
	l := scoring(viaTable(0), scored)
	l.tables = [][]byte{cat([]byte(funcref), op(1, 1, 1))}
	l.elements = [][]byte{cat(op(0), num(0), op(0x0b), vector([][]byte{unsigned(score)}))}
	return l.encode()
}

// recurseWithResults has a frame of eight kilobytes for two instructions.
func recurseWithResults() []byte {
	return scoring(call(score+1), bytes.Repeat(drop, 1000), scored).
		with(function{results: strings.Repeat(i64, 1000), body: call(score + 1)}).encode()
}

// recurseWithColdFrame has a frame of 24 kilobytes, all of it for code that never runs.
func recurseWithColdFrame() []byte {
	cold := bytes.Repeat(cat(num(0), load), 3000)
	for range 3000 - 1 {
		cold = append(cold, 0x73)
	}
	return scoring(num(1), call(score+1), scored).with(function{params: i32, body: cat(
		local(0), op(0x45, 0x04, 0x40), cold, op(0x10), unsigned(score+2), drop, op(0x0b), local(0), call(score+1))},
		function{params: i32, results: i32, body: local(0)}).encode()
}

// recurseWithLocals has a frame for all that nested loops would carry, and never runs them.
func recurseWithLocals() []byte {
	const locals, loops = 900, 10
	var change []byte
	for i := range locals {
		change = cat(change, op(0x20), unsigned(uint32(i)), num(1), add, op(0x21), unsigned(uint32(i)))
	}
	cold := change
	for range loops {
		cold = cat(op(0x03, 0x40), cold, local(0), op(0x0d, 0, 0x0b))
	}
	return scoring(num(0), call(score+1), scored).with(function{params: i32, locals: strings.Repeat(i32, locals),
		body: cat(local(0), op(0x04, 0x40), cold, op(0x0b), local(0), call(score+1))}).encode()
}

// recurseInStart overflows before anybody can call it.
func recurseInStart() []byte {
	l := healthy().with(function{body: call(score + 1)})
	l.start = score + 1
	return l.encode()
}

func trapAtDepth() []byte {
	body, f := deep(score+1, recursionDepth, unreachable)
	return scoring(body, scored).with(f).encode()
}

func growAtOnce() []byte {
	l := newLayer()
	return l.scoring(num(65535), growMemory, num(-1), op(0x46), when(l.says(9, said, "refused"), scored, returns),
		unreachable).encode()
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
