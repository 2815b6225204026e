package meter

import "slices"

// chunkBytes is the maximum size of a bulk memory instruction that runs at once. Memory that the guest has not used
// before can take the system up to a nanosecond a byte, and an engine cannot be stopped in the middle of an
// instruction. A larger operation runs in chunks, in a helper function that charges and checks the fuel before each
// chunk. Table instructions need no chunks, because the largest table takes half a megabyte.
const chunkBytes = 64 << 10

// Bulk memory instructions, as opcodes after the prefix (section 5.4.6).
const (
	memoryInit = 8
	memoryCopy = 10
	memoryFill = 11
)

// helper is a function that runs one bulk memory instruction in chunks. It takes the operands of the instruction.
type helper struct {
	instruction uint32
	segment     uint32 // data segment of memory.init
}

// helpers are the helper functions that are added to a module, in order and without duplicates.
type helpers struct {
	list    []helper
	numbers map[helper]int
}

// add returns the number of a helper in the list, after adding it if it is new.
func (s *helpers) add(h helper) int {
	n, known := s.numbers[h]
	if !known {
		if s.numbers == nil {
			s.numbers = map[helper]int{}
		}
		n = len(s.list)
		s.list = append(s.list, h)
		s.numbers[h] = n
	}
	return n
}

// declareHelpers adds the helpers to the function section, which is already written.
func (p *parser) declareHelpers() {
	if len(p.helpers.list) == 0 {
		return
	}
	declared := p.functions[len(p.module.Imports):]
	types := appendU32(nil, uint32(len(declared)+len(p.helpers.list)))
	for _, t := range declared {
		types = appendU32(types, t)
	}
	for range p.helpers.list {
		types = appendU32(types, p.emitter().helperType)
	}
	p.out = slices.Replace(p.out, p.functionSectionAt.at, p.functionSectionAt.end,
		appendSection(nil, idFunction, types)...)
}

// bulkMemory replaces a bulk memory instruction, from at to the reader's position, with one that charges for its size
// and runs a large operation in chunks.
func (p *parser) bulkMemory(r *reader, at int, h helper) {
	c := &p.code
	if r.err != nil || !c.reachable || !p.policy.chargeBulk {
		return
	}
	n := p.helpers.add(h)
	if len(p.helpers.list) > p.limits.Functions {
		r.failAt(at, "memory.init of more than %d segments", p.limits.Functions)
		return
	}
	c.needsSize = true
	c.edits = append(c.edits, edit{at: uint32(at), end: uint32(r.pos), n: uint32(n), kind: editBulkMemory})
	c.distance = 0
}

// Locals of a helper. The first three are its parameters.
const (
	localTarget = iota
	localSource // the source address, or the value of memory.fill
	localTotal  // the size of the whole operation
	localSize   // the size of the chunk
	localDone   // bytes in the chunks before
	localOffset // of the chunk in the whole operation
)

// body returns the helper's function body:
//
//	if target + total exceeds 32 bits: instruction(target, source, total); return
//	instruction(target + total, source + total, 0)
//	done = 0
//	loop
//	  size = min(total - done, chunkBytes)
//	  charge for size
//	  offset = done, or total - done - size for a copy to higher addresses
//	  instruction(target + offset, source + offset, size)
//	  done += size; if done < total, repeat
//	end
//
// An access out of bounds must trap before anything is written, as a single instruction does (section 4.4.7). The
// instruction of size zero at the end of the range checks that; a source that wraps around 32 bits is out of bounds
// from the first chunk on. A copy of overlapping ranges starts at the end that it would otherwise overwrite.
func (h helper) body(e emitter) []byte {
	b := code{1, localOffset - localTotal, byte(I32)}
	b = b.get(localTarget).get(localTotal).op(opI32Add).get(localTarget).op(opI32LtU)
	b = h.run(b.op(opIf, emptyBlock).get(localTarget).get(localSource).get(localTotal)).op(opReturn, opEnd)
	b = h.run(h.addresses(b, localTotal).op(opI32Const, 0))

	b = b.op(opLoop, emptyBlock)
	b = b.get(localTotal).get(localDone).op(opI32Sub).set(localSize).get(localSize).num(chunkBytes)
	b = b.get(localSize).num(chunkBytes).op(opI32LtU, opSelect).set(localSize)
	e.sizeLocal = localSize
	b = e.chargeSize(b, byteShift, opI64ShrU)
	if h.instruction == memoryCopy {
		b = b.get(localTotal).get(localDone).op(opI32Sub).get(localSize).op(opI32Sub)
		b = b.get(localDone).get(localTarget).get(localSource).op(opI32GtU, opSelect)
	} else {
		b = b.get(localDone)
	}
	b = h.run(h.addresses(b.set(localOffset), localOffset).get(localSize))
	b = b.get(localDone).get(localSize).op(opI32Add).set(localDone)
	return b.get(localDone).get(localTotal).op(opI32LtU, opBrIf, 0, opEnd, opEnd)
}

// addresses pushes the target and the source, both plus the local offset. The value of memory.fill is pushed unchanged.
func (h helper) addresses(b code, offset byte) code {
	b = b.get(localTarget).get(offset).op(opI32Add).get(localSource)
	if h.instruction != memoryFill {
		b = b.get(offset).op(opI32Add)
	}
	return b
}

// run appends the instruction with its immediates.
func (h helper) run(b code) code {
	b = b.op(opMisc, byte(h.instruction))
	switch h.instruction {
	case memoryInit:
		return append(appendU32(b, h.segment), 0)
	case memoryCopy:
		return b.op(0, 0)
	}
	return b.op(0)
}

// code is a sequence of instructions.
type code []byte

func (c code) op(b ...byte) code    { return append(c, b...) }
func (c code) get(local byte) code  { return append(c, opLocalGet, local) }
func (c code) set(local byte) code  { return append(c, opLocalSet, local) }
func (c code) num(value int64) code { return AppendSigned(append(c, opI32Const), value) }
