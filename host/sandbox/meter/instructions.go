package meter

// plainInstruction parses the immediates of an unprefixed instruction without control flow (sections 5.4.2 to 5.4.7),
// or refuses the instruction.
func (p *parser) plainInstruction(r *reader, at int, op byte) {
	switch {
	case op == 0x01, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	case op == 0x1c:
		if n := r.count("types of select", r.left(), 1); n != 1 && r.err == nil {
			r.failAt(at, "select with %d types", n)
		}
		p.valueType(r)
	case op >= 0x20 && op <= 0x22:
		r.index("local", p.code.locals)
	case op == 0x23 || op == 0x24:
		r.index("global", p.globals)
	case op == 0x25:
		r.index("table", len(p.tableHasMax))
	case op == 0x26:
		r.index("table", len(p.tableHasMax))
		p.addUnrestored("table.set")
	case op >= 0x28 && op <= 0x3e:
		p.memoryArgument(r)
	case op == 0x3f:
		p.memoryIndex(r)
	case op == 0x40:
		p.memoryIndex(r)
		p.chargeOperand(at, editChargePages)
	case op == 0x41:
		r.signed(32)
	case op == 0x42:
		r.signed(64)
	case op == 0x43:
		r.skip(4)
	case op == 0x44:
		r.skip(8)
	case op == 0xd0:
		p.referenceType(r)
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		r.failAt(at, "instruction %#x: exception handling is not accepted", op)
	case op == 0x12 || op == 0x13:
		r.failAt(at, "instruction %#x: tail calls are not accepted", op)
	case op == 0x14, op == 0x15, op >= 0xd3 && op <= 0xd6:
		r.failAt(at, "instruction %#x: typed function references are not accepted", op)
	case op == 0xfb:
		r.failAt(at, "instruction %#x: garbage collection is not accepted", op)
	case op == 0xfe:
		r.failAt(at, "instruction %#x: threads are not accepted", op)
	default:
		r.failAt(at, "unknown instruction %#x", op)
	}
}

// memoryIndex parses the reserved byte that stands for memory 0 (section 5.4.6).
func (p *parser) memoryIndex(r *reader) {
	at := r.pos
	b := r.byte()
	switch {
	case r.err != nil:
	case b != 0:
		r.failAt(at, "memory %d: more than one memory is not accepted", b)
	case !p.hasMemory:
		r.failAt(at, "memory 0 is out of range, there are 0")
	}
}

// memoryArgument parses the alignment and offset of a memory access (section 5.4.6).
func (p *parser) memoryArgument(r *reader) {
	p.code.memoryAccess()
	at := r.pos
	align := r.u32()
	r.u32()
	switch {
	case r.err != nil:
	case align >= 64 && align < 128:
		r.failAt(at, "memory argument names a memory: more than one memory is not accepted")
	case align > 4:
		r.failAt(at, "alignment of 2^%d bytes", align)
	case !p.hasMemory:
		r.failAt(at, "memory 0 is out of range, there are 0")
	}
}

// chargeOperand charges for the operand on top of the stack before the instruction at position at.
func (p *parser) chargeOperand(at int, kind editKind) {
	if c := &p.code; c.reachable && p.policy.chargeBulk {
		c.needsSize = true
		c.insert(at, kind, 0)
		c.distance = 0
	}
}

// Costs of bulk operations as shifts of their operand: a unit for 64 bytes or 8 table entries, and 1024 units for a
// page.
const (
	byteShift  = 6
	entryShift = 3
	pageShift  = 10
)

// miscInstruction parses the instructions with prefix 0xfc: saturating conversions, bulk memory and table instructions
// (sections 5.4.5 to 5.4.7).
func (p *parser) miscInstruction(r *reader, at int) {
	switch sub := p.prefixedOpcode(r); sub {
	case 0, 1, 2, 3, 4, 5, 6, 7:
	case memoryInit:
		segment := p.dataSegment(r)
		p.memoryIndex(r)
		p.bulkMemory(r, at, helper{sub, segment})
	case 9:
		p.dataSegment(r)
		p.addUnrestored("data.drop")
	case memoryCopy:
		p.memoryIndex(r)
		p.memoryIndex(r)
		p.bulkMemory(r, at, helper{instruction: sub})
	case memoryFill:
		p.memoryIndex(r)
		p.bulkMemory(r, at, helper{instruction: sub})
	case 12:
		r.index("element segment", p.elementSegments)
		r.index("table", len(p.tableHasMax))
		p.addUnrestored("table.init")
		p.chargeOperand(at, editChargeEntries)
	case 13:
		r.index("element segment", p.elementSegments)
		p.addUnrestored("elem.drop")
	case 14:
		r.index("table", len(p.tableHasMax))
		r.index("table", len(p.tableHasMax))
		p.addUnrestored("table.copy")
		p.chargeOperand(at, editChargeEntries)
	case 15:
		if x := r.index("table", len(p.tableHasMax)); r.err == nil && !p.tableHasMax[x] {
			r.failAt(at, "table.grow on table %d, which has no maximum", x)
		}
		p.addUnrestored("table.grow")
		p.chargeOperand(at, editChargeEntries)
	case 16:
		r.index("table", len(p.tableHasMax))
	case 17:
		r.index("table", len(p.tableHasMax))
		p.addUnrestored("table.fill")
		p.chargeOperand(at, editChargeEntries)
	default:
		if r.err == nil {
			r.failAt(at, "unknown instruction 0xfc %#x", sub)
		}
	}
}

// prefixedOpcode reads the opcode after a prefix. The specification allows encodings longer than necessary. They are
// refused, because no compiler writes them and engines disagree on them.
func (p *parser) prefixedOpcode(r *reader) uint32 {
	at := r.pos
	x := r.u32()
	if n := r.pos - at; r.err == nil && (n > 2 || n == 2 && x < 0x80) {
		r.failAt(at, "opcode %#x is not in its shortest form", x)
	}
	return x
}

// dataSegment reads the index of a data segment (section 5.5.1). It requires a data count section (section 5.5.16).
func (p *parser) dataSegment(r *reader) uint32 {
	if p.dataCount < 0 && r.err == nil {
		r.failAt(r.pos, "data segment named without a data count section")
		return 0
	}
	return r.index("data segment", p.dataCount)
}

// lanes are the numbers of lanes of the extract_lane and replace_lane instructions 0x15 to 0x22.
var lanes = [...]byte{16, 16, 16, 8, 8, 8, 4, 4, 2, 2, 4, 4, 2, 2}

// vectorInstruction parses the instructions with prefix 0xfd (section 5.4.8).
func (p *parser) vectorInstruction(r *reader, at int) {
	sub := p.prefixedOpcode(r)
	switch {
	case r.err != nil:
	case sub <= 0x0b || sub == 0x5c || sub == 0x5d:
		p.memoryArgument(r)
	case sub == 0x0c:
		r.skip(16)
	case sub == 0x0d:
		for range 16 {
			p.lane(r, 32)
		}
	case sub >= 0x15 && sub <= 0x22:
		p.lane(r, lanes[sub-0x15])
	case sub >= 0x54 && sub <= 0x5b:
		p.memoryArgument(r)
		p.lane(r, 16>>((sub-0x54)&3))
	case sub >= 0x100 && sub <= 0x12f:
		r.failAt(at, "instruction 0xfd %#x: relaxed SIMD is not accepted", sub)
	case sub > 0xff || unassigned(sub):
		r.failAt(at, "unknown instruction 0xfd %#x", sub)
	}
}

// unassigned reports whether an opcode after prefix 0xfd has no instruction.
func unassigned(sub uint32) bool {
	switch sub {
	case 0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb, 0xc2, 0xc5, 0xc6, 0xcf, 0xd0, 0xd2, 0xd3, 0xd4,
		0xe2, 0xee:
		return true
	}
	return false
}

// lane parses a lane index, which must be below n.
func (p *parser) lane(r *reader, n byte) {
	at := r.pos
	if x := r.byte(); r.err == nil && x >= n {
		r.failAt(at, "lane %d is out of range, there are %d", x, n)
	}
}
