package sandbox

import (
	"bytes"
	"strings"
)

// Guests that trap, exit, or overflow a limit.

func trapping(code ...[]byte) func() []byte {
	return func() []byte { return scoring(concat(code...), returnScored).encode() }
}

// mistypedCall calls a function in a table as one of another type.
func mistypedCall() []byte {
	g := scoring(callTable(0, fnScore), opDrop, returnScored).with(guestFunction{params: tI64})
	g.tables = [][]byte{functionTable(1, 1)}
	g.elements = [][]byte{activeElements(fnScore + 1)}
	return g.encode()
}

func exiting(code int) func() []byte {
	return func() []byte {
		return newGuest().importing(wasiExitImport).scoring(i32Const(code), callFunc(fnLog+1), returnScored).encode()
	}
}

func recurseForever() []byte {
	return scoring(callFunc(fnScore+1), returnScored).with(guestFunction{body: callFunc(fnScore + 1)}).encode()
}

// recurseAndReturn recurses as deeply as the interface allows, and scores.
func recurseAndReturn() []byte {
	g := newGuest()
	start, f := deep(fnScore+1, recursionDepth)
	return g.scoring(start, g.signal(3, codeOne, "Returned"), returnScored).with(f).encode()
}

// recurseTooDeepAndReturn exceeds the depth, and returns within a slice or two of fuel.
func recurseTooDeepAndReturn() []byte {
	start, f := deep(fnScore+1, 10*recursionDepth)
	return scoring(start, returnScored).with(f).encode()
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

// scoreIfEqual emits a signal and returns if the two values on the stack are equal, and traps otherwise.
func (g *guest) scoreIfEqual(points int) []byte {
	return concat(opEqual, ifTrue(g.signal(points, codeOne, "Refused"), returnScored, opReturn), opUnreachable)
}

// once runs code in the first call of an instance, and scores 66 points in the second.
func once(first ...[]byte) func() []byte {
	return func() []byte {
		g := newGuest()
		return g.scoring(i32Const(bufferAt), opLoad,
			ifTrue(g.signal(66, codeOne, "A broken instance was reused"), returnScored, opReturn),
			i32Const(bufferAt), i32Const(1), opStore, concat(first...), returnScored).encode()
	}
}
