package meter

import "encoding/binary"

func appendU32(b []byte, x uint32) []byte { return binary.AppendUvarint(b, uint64(x)) }

// AppendSigned appends a signed LEB128 integer (section 5.2.2).
func AppendSigned(b []byte, x int64) []byte {
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

// emitter writes the instructions that instrumentation adds. Each sequence leaves the operand stack unchanged. A
// function with a loop caches the fuel in a local, which an engine can keep in a register: if a tight loop kept its
// counter in memory, each iteration would wait for the store of the previous one.
type emitter struct {
	fuelGlobal  uint32
	refill      uint32 // index of the imported function
	firstHelper uint32 // index of the first helper function
	helperType  uint32
	cached      bool   // the function caches the fuel
	cacheLocal  uint32 // i64
	sizeLocal   uint32 // i32, the size of a bulk operation
}

func (e *emitter) getFuel(b []byte) []byte {
	if e.cached {
		return appendU32(append(b, opLocalGet), e.cacheLocal)
	}
	return appendU32(append(b, opGlobalGet), e.fuelGlobal)
}

func (e *emitter) setFuel(b []byte) []byte {
	if e.cached {
		return appendU32(append(b, opLocalSet), e.cacheLocal)
	}
	return appendU32(append(b, opGlobalSet), e.fuelGlobal)
}

// reload copies the fuel from the global to the cache, if there is one.
func (e *emitter) reload(b []byte) []byte {
	if !e.cached {
		return b
	}
	return e.setFuel(appendU32(append(b, opGlobalGet), e.fuelGlobal))
}

// flush copies the fuel from the cache to the global, if there is a cache.
func (e *emitter) flush(b []byte) []byte {
	if !e.cached {
		return b
	}
	return appendU32(append(e.getFuel(b), opGlobalSet), e.fuelGlobal)
}

// check calls refill if the fuel is below zero.
func (e *emitter) check(b []byte) []byte {
	b = append(e.getFuel(b), opI64Const, 0, opI64LtS, opIf, emptyBlock)
	return append(e.callRefill(b), opEnd)
}

func (e *emitter) callRefill(b []byte) []byte {
	return e.reload(appendU32(append(e.flush(b), opCall), e.refill))
}

// openWrapper opens the wrapper of a loop of the given block type, which keeps the call of refill outside the loop.
// Inside the loop, even a call that never runs would make an engine keep the loop's variables in memory. The result is
//
//	block done
//	  loop again
//	    block empty
//	      loop: if fuel < 0, br empty; ... end
//	      br done
//	    end
//	    call refill
//	    br again
//	  end
//	end
//
// Restarting the loop after a refill changes nothing: it has no parameters, so its iterations share locals only.
func (e *emitter) openWrapper(b, blockType []byte) []byte {
	b = append(append(b, opBlock), blockType...)
	b = append(append(b, opLoop), blockType...)
	return append(b, opBlock, emptyBlock)
}

// wrapperLabels is the number of labels that a wrapper adds.
const wrapperLabels = 3

// loopHeader is the fuel check at the start of a wrapped loop.
func (e *emitter) loopHeader(b []byte) []byte {
	return append(e.getFuel(b), opI64Const, 0, opI64LtS, opIf, emptyBlock, opBr, 2, opEnd)
}

// closeWrapper closes the wrapper after the end of its loop.
func (e *emitter) closeWrapper(b []byte) []byte {
	b = e.callRefill(append(b, opBr, 2, opEnd))
	return append(b, opBr, 0, opEnd, opEnd)
}

// charge subtracts a constant cost from the fuel, and checks it if check is set.
func (e *emitter) charge(b []byte, cost int64, check bool) []byte {
	if cost > 0 {
		b = e.setFuel(append(AppendSigned(append(e.getFuel(b), opI64Const), cost), opI64Sub))
	}
	if check {
		b = e.check(b)
	}
	return b
}

// chargeOperand charges for the unsigned i32 on top of the operand stack, shifted by the instruction op, and checks the
// fuel.
func (e *emitter) chargeOperand(b []byte, shift byte, op byte) []byte {
	return e.chargeSize(appendU32(append(b, opLocalTee), e.sizeLocal), shift, op)
}

// chargeSize charges for the unsigned i32 in sizeLocal, shifted by the instruction op, and checks the fuel. It works
// with 64 bits, so that no shift overflows.
func (e *emitter) chargeSize(b []byte, shift byte, op byte) []byte {
	b = appendU32(append(e.getFuel(b), opLocalGet), e.sizeLocal)
	return e.check(e.setFuel(append(b, opI64ExtendU, opI64Const, shift, op, opI64Sub)))
}

// bulkMemory calls a helper if a bulk memory instruction exceeds a chunk, and otherwise charges for it and runs it.
func (e *emitter) bulkMemory(b, instruction []byte, helper uint32) []byte {
	b = appendU32(append(b, opLocalTee), e.sizeLocal)
	b = appendU32(append(b, opLocalGet), e.sizeLocal)
	b = AppendSigned(append(b, opI32Const), chunkBytes)
	b = AppendSigned(append(b, opI32GtU, opIf), int64(e.helperType))
	b = e.reload(appendU32(append(e.flush(b), opCall), e.firstHelper+helper))
	b = e.chargeSize(append(b, opElse), byteShift, opI64ShrU)
	return append(append(b, instruction...), opEnd)
}
