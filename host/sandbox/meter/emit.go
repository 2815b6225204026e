package meter

func appendU32(b []byte, x uint32) []byte {
	for x >= 0x80 {
		b = append(b, byte(x)|0x80)
		x >>= 7
	}
	return append(b, byte(x))
}

func appendS64(b []byte, x int64) []byte {
	for {
		c := byte(x & 0x7f)
		x >>= 7
		if (x == 0 && c&0x40 == 0) || (x == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, name string) []byte {
	return append(appendU32(b, uint32(len(name))), name...)
}

// emitter writes the instructions that metering adds. None of them leaves anything on the stack. In a function with a
// loop the fuel is cached in a local, which an engine can keep in a register: a counter in memory would bound a tight
// loop's speed by the time that a store takes to reach the next load.
type emitter struct {
	fuel   uint32 // index of the fuel global
	refill uint32 // index of the imported function
	helper uint32 // index of the first helper
	pieces uint32 // index of the helpers' type
	cached bool
	cache  uint32 // index of an i64 local of our own
	size   uint32 // index of an i32 local of our own
}

func (e *emitter) get(b []byte) []byte {
	if e.cached {
		return appendU32(append(b, opLocalGet), e.cache)
	}
	return appendU32(append(b, opGlobalGet), e.fuel)
}

func (e *emitter) set(b []byte) []byte {
	if e.cached {
		return appendU32(append(b, opLocalSet), e.cache)
	}
	return appendU32(append(b, opGlobalSet), e.fuel)
}

// load fills the cache.
func (e *emitter) load(b []byte) []byte {
	if !e.cached {
		return b
	}
	return e.set(appendU32(append(b, opGlobalGet), e.fuel))
}

// store empties the cache.
func (e *emitter) store(b []byte) []byte {
	if !e.cached {
		return b
	}
	return appendU32(append(e.get(b), opGlobalSet), e.fuel)
}

// look calls for a refill when there is less than no fuel left.
func (e *emitter) look(b []byte) []byte {
	b = append(e.get(b), opI64Const, 0, opI64LtS, opIf, emptyBlock)
	b = appendU32(append(e.store(b), opCall), e.refill)
	return append(e.load(b), opEnd)
}

// wrap opens what stands around a loop of the given block type, so that the call of refill stands outside of it: a call
// inside, even one that is never made, would have an engine keep the loop's variables in memory. The whole is
//
//	block done
//	  loop again
//	    block low
//	      loop: if fuel < 0, br low; ... end
//	      br done
//	    end
//	    call refill
//	    br again
//	  end
//	end
//
// Going back to the loop's start is no change to it: with no parameters, all that its iterations share is in locals.
func (e *emitter) wrap(b, blockType []byte) []byte {
	b = append(append(b, opBlock), blockType...)
	b = append(append(b, opLoop), blockType...)
	return append(b, opBlock, emptyBlock)
}

// wrapLabels is the number of labels that wrap adds.
const wrapLabels = 3

// leave stands at a wrapped loop's start.
func (e *emitter) leave(b []byte) []byte {
	return append(e.get(b), opI64Const, 0, opI64LtS, opIf, emptyBlock, opBr, 2, opEnd)
}

// unwrap follows a wrapped loop's end.
func (e *emitter) unwrap(b []byte) []byte {
	b = append(b, opBr, 2, opEnd)
	b = e.load(appendU32(append(e.store(b), opCall), e.refill))
	return append(b, opBr, 0, opEnd, opEnd)
}

// charge takes cost from the fuel, and looks at what is left if wanted.
func (e *emitter) charge(b []byte, cost int64, look bool) []byte {
	if cost > 0 {
		b = e.set(append(appendS64(append(e.get(b), opI64Const), cost), opI64Sub))
	}
	if look {
		b = e.look(b)
	}
	return b
}

// bulk charges for the unsigned i32 on top of the stack, and leaves it there. In 64 bits neither shift overflows.
func (e *emitter) bulk(b []byte, shift uint32, op byte) []byte {
	return e.size64(appendU32(append(b, opLocalTee), e.size), shift, op)
}

// size64 charges for the unsigned i32 in the local size.
func (e *emitter) size64(b []byte, shift uint32, op byte) []byte {
	b = appendU32(append(e.get(b), opLocalGet), e.size)
	return e.look(e.set(append(b, opI64ExtendU, opI64Const, byte(shift), op, opI64Sub)))
}

// bytes has a bulk memory instruction that works on more than a piece done by a helper, and charges for any other.
func (e *emitter) bytes(b, instruction []byte, helper uint32) []byte {
	b = appendU32(append(b, opLocalTee), e.size)
	b = appendU32(append(b, opLocalGet), e.size)
	b = appendS64(append(b, opI32Const), pieceBytes)
	b = appendS64(append(b, opI32GtU, opIf), int64(e.pieces))
	b = e.load(appendU32(append(e.store(b), opCall), e.helper+helper))
	b = e.size64(append(b, opElse), byteShift, opI64ShrU)
	return append(append(b, instruction...), opEnd)
}
