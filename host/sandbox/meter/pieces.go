package meter

import "slices"

// pieceBytes is how much one bulk memory instruction does at a time: memory that the guest has not touched before takes
// a system up to a nanosecond a byte, and nothing can stop an engine in the middle of an instruction. A larger
// operation is done piece by piece, by a function added to the module, which pays for each piece and looks at the fuel
// before it. Tables need none of this: the largest are half a megabyte.
const pieceBytes = 64 << 10

// The bulk memory instructions, by what follows the prefix.
const (
	memoryInit = 8
	memoryCopy = 10
	memoryFill = 11
)

// helper is a function that does one instruction piece by piece; it takes the same operands.
type helper struct {
	instruction uint32
	segment     uint32 // of memory.init
}

// helpers are the functions added to a module, in order.
type helpers struct {
	list    []helper
	numbers map[helper]int
}

// number is the place of a helper in the list, where it is put when it is not there yet.
func (s *helpers) number(h helper) int {
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

// declareHelpers adds the helpers to the function section, which is written already.
func (p *parser) declareHelpers() {
	if len(p.helpers.list) == 0 {
		return
	}
	declared := p.functions[len(p.sum.Imports):]
	types := appendU32(nil, uint32(len(declared)+len(p.helpers.list)))
	for _, t := range declared {
		types = appendU32(types, t)
	}
	for range p.helpers.list {
		types = appendU32(types, p.emitter().pieces)
	}
	p.out = slices.Replace(p.out, p.declare.at, p.declare.end, appendSection(nil, idFunction, types)...)
}

// bytes has a bulk memory instruction, which stands from at to the reader's position, paid for and interrupted.
func (p *parser) bytes(r *reader, at int, h helper) {
	c := &p.code
	if r.err != nil || !c.live || !p.scheme.bulk {
		return
	}
	n := p.helpers.number(h)
	if len(p.helpers.list) > p.limits.Functions {
		r.failAt(at, "memory.init of over %d segments", p.limits.Functions)
		return
	}
	c.scratch = true
	c.edits = append(c.edits, edit{at: uint32(at), end: uint32(r.pos), n: uint32(n), kind: editBytes})
	c.distance = 0
}

// The locals of a helper: the instruction's three operands, and its own.
const (
	pieceTarget = iota
	pieceSource // where to copy from, or what to fill with
	pieceWhole  // the size
	pieceSize   // of the piece
	pieceDone   // bytes in the pieces before it
	pieceAt     // where it stands in the whole
)

// body is the helper's function body:
//
//	if target + whole is beyond 32 bits: instruction(target, source, whole); return
//	instruction(target + whole, source + whole, 0)
//	done = 0
//	loop
//	  size = min(whole - done, pieceBytes)
//	  pay for size
//	  at = done, or whole - done - size for a copy to higher addresses
//	  instruction(target + at, source + at, size)
//	  done += size; if done < whole, again
//	end
//
// What lies outside must trap before anything is written, as in a single instruction (core specification 4.4.7). The
// one at the end, with a size of zero, sees to that; a source that wraps around 32 bits lies outside from its first
// piece on. Where areas overlap, a copy begins at the end that it would overwrite.
func (h helper) body(e emitter) []byte {
	b := code{1, pieceAt - pieceWhole, byte(I32)}
	b = b.get(pieceTarget).get(pieceWhole).op(opI32Add).get(pieceTarget).op(opI32LtU)
	b = h.do(b.op(opIf, emptyBlock).get(pieceTarget).get(pieceSource).get(pieceWhole)).op(opReturn, opEnd)
	b = h.do(h.from(b, pieceWhole).op(opI32Const, 0))

	b = b.op(opLoop, emptyBlock)
	b = b.get(pieceWhole).get(pieceDone).op(opI32Sub).set(pieceSize).get(pieceSize).num(pieceBytes)
	b = b.get(pieceSize).num(pieceBytes).op(opI32LtU, opSelect).set(pieceSize)
	e.size = pieceSize
	b = e.size64(b, byteShift, opI64ShrU)
	if h.instruction == memoryCopy {
		b = b.get(pieceWhole).get(pieceDone).op(opI32Sub).get(pieceSize).op(opI32Sub)
		b = b.get(pieceDone).get(pieceTarget).get(pieceSource).op(opI32GtU, opSelect)
	} else {
		b = b.get(pieceDone)
	}
	b = h.do(h.from(b.set(pieceAt), pieceAt).get(pieceSize))
	b = b.get(pieceDone).get(pieceSize).op(opI32Add).set(pieceDone)
	return b.get(pieceDone).get(pieceWhole).op(opI32LtU, opBrIf, 0, opEnd, opEnd)
}

// from pushes the first two operands, by that much further on, save for what to fill with.
func (h helper) from(b code, by byte) code {
	b = b.get(pieceTarget).get(by).op(opI32Add).get(pieceSource)
	if h.instruction != memoryFill {
		b = b.get(by).op(opI32Add)
	}
	return b
}

// do is the instruction.
func (h helper) do(b code) code {
	b = b.op(opMisc, byte(h.instruction))
	switch h.instruction {
	case memoryInit:
		return append(appendU32(b, h.segment), 0)
	case memoryCopy:
		return b.op(0, 0)
	}
	return b.op(0)
}

// code is a piece of a function's body.
type code []byte

func (c code) op(b ...byte) code    { return append(c, b...) }
func (c code) get(local byte) code  { return append(c, opLocalGet, local) }
func (c code) set(local byte) code  { return append(c, opLocalSet, local) }
func (c code) num(value int64) code { return appendS64(append(c, opI32Const), value) }
