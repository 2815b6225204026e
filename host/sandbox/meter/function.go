package meter

import "slices"

// Opcodes with names in this package (section 5.4).
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opSelect       = 0x1b
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opI32Const     = 0x41
	opI64Const     = 0x42
	opI32LtU       = 0x49
	opI32GtU       = 0x4b
	opI64LtS       = 0x53
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI64Sub       = 0x7d
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd
	emptyBlock     = 0x40
)

// functionState is the state of the function body being parsed. It is reused to save allocations.
type functionState struct {
	planner
	out       []byte // the instrumented body
	locals    int    // including parameters
	operands  int    // values passed so far
	joins     int    // blocks times locals so far
	needsSize bool   // the instrumented body needs an i32 local
}

// functionBody parses one function body (section 5.5.13) and leaves the instrumented one in p.code.out.
func (p *parser) functionBody(r *reader, t Signature) {
	c := &p.code
	c.policy = p.policy
	c.locals, c.operands, c.joins, c.needsSize = len(t.Params), 0, 0, false
	groups, firstGroup := p.localGroups(r)
	start := r.pos
	c.edits = slices.Grow(c.edits[:0], r.left()/4)
	c.begin(start, len(t.Results))
	for len(c.frames) > 0 && r.err == nil {
		if r.eof() {
			r.failAt(r.pos, "function body ends inside a block")
			return
		}
		c.splitBlock(r.pos)
		p.instruction(r)
	}
	if r.err == nil && !r.eof() {
		r.failAt(r.pos, "%d bytes left over after the function's end", r.left())
	}
	if p.compileWork += c.planner.compileWork(c.joins); p.compileWork > p.limits.CompileWork && r.err == nil {
		r.failAt(start, "blocks and branches that would take a compiler over %d units of work", p.limits.CompileWork)
	}
	if r.err != nil {
		return
	}
	c.finishEntry(c.operands + c.joins)
	e := p.emitter()
	e.cached, e.cacheLocal, e.sizeLocal = c.hasLoop, uint32(c.locals), uint32(c.locals)
	var added []byte // groups of locals
	if e.cached {
		added = append(added, 1, byte(I64))
		e.sizeLocal++
	}
	if c.needsSize {
		added = append(added, 1, byte(I32))
	}
	out := appendU32(c.out[:0], uint32(groups+len(added)/2))
	out = append(out, r.data[firstGroup:start]...)
	c.out = c.applyEdits(e, append(out, added...), r.data[:r.end], uint32(start))
}

// emitter returns an emitter for a function that does not cache the fuel.
func (p *parser) emitter() emitter {
	return emitter{
		fuelGlobal:  uint32(p.globals),
		refill:      uint32(len(p.module.Imports)),
		firstHelper: uint32(len(p.functions) + 1),
		helperType:  uint32(len(p.types) + 1),
	}
}

// localGroups parses the declarations of locals and returns the number of groups and the position of the first.
func (p *parser) localGroups(r *reader) (n, first int) {
	n = r.count("groups of locals", r.left(), 2)
	first = r.pos
	sum := uint64(p.code.locals)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		sum += uint64(r.u32())
		p.valueType(r)
		if sum > uint64(p.limits.Locals) {
			r.failAt(at, "%d locals, over the limit of %d", sum, p.limits.Locals)
		} else if uint64(p.localsTotal)+sum > uint64(p.limits.LocalsTotal) {
			r.failAt(at, "over %d locals in all functions together", p.limits.LocalsTotal)
		}
	}
	p.code.locals = int(sum)
	p.localsTotal += int(sum)
	return n, first
}

// applyEdits appends data from position from on to out, with the edits applied.
func (c *functionState) applyEdits(e emitter, out, data []byte, from uint32) []byte {
	for _, d := range c.edits {
		out = append(out, data[from:d.at]...)
		from = d.end
		switch d.kind {
		case editCharge:
			b := c.blocks[d.n]
			if b.loopHeader {
				out = e.loopHeader(out)
			}
			out = e.charge(out, int64(b.cost), b.check && !b.loopHeader)
		case editIndex:
			out = appendU32(out, d.n)
		case editOpenWrapper:
			out = e.openWrapper(out, data[d.at+1:d.n])
		case editCloseWrapper:
			out = e.closeWrapper(out)
		case editFlush:
			out = e.flush(out)
		case editReload:
			out = e.reload(out)
		case editChargeEntries:
			out = e.chargeOperand(out, entryShift, opI64ShrU)
		case editChargePages:
			out = e.chargeOperand(out, pageShift, opI64Shl)
		case editBulkMemory:
			out = e.bulkMemory(out, data[d.at:d.end], d.n)
		}
	}
	return append(out, data[from:]...)
}

// instruction parses one instruction with its immediates and reports its control flow to the planner.
func (p *parser) instruction(r *reader) {
	c := &p.code
	at := r.pos
	op := r.byte()
	switch op {
	case opBlock, opLoop, opIf:
		if op == opIf {
			c.addCost(1)
		}
		params, results := p.blockType(r)
		if len(c.frames) > p.limits.Nesting {
			r.failAt(at, "blocks nested deeper than %d", p.limits.Nesting)
			return
		}
		p.passValues(r, at, params+results)
		c.joins += c.locals
		if c.joins > p.limits.Joins {
			r.failAt(at, "blocks times locals of one function are over the limit of %d", p.limits.Joins)
			return
		}
		c.enterBlock(op, at, r.pos, params, results)
		return
	case opElse:
		if c.frames[len(c.frames)-1].opcode != opIf {
			r.failAt(at, "else without an if")
			return
		}
		c.elseBranch(r.pos)
		return
	case opEnd:
		if len(c.frames) == 1 {
			c.beforeReturn(at)
		}
		c.endBlock(r.pos)
		return
	}
	c.addCost(1)
	switch op {
	case opUnreachable:
		c.markUnreachable()
	case opBr, opBrIf:
		if probe := *r; probe.u32() == uint32(len(c.frames)-1) {
			c.beforeReturn(at)
		}
		p.label(r)
		if op == opBr {
			c.markUnreachable()
		}
	case opBrTable:
		n := r.count("branch targets", r.left(), 1) + 1
		for probe, i := *r, n; i > 0; i-- {
			if probe.u32() == uint32(len(c.frames)-1) {
				c.beforeReturn(at)
				break
			}
		}
		for ; n > 0 && r.err == nil; n-- {
			p.label(r)
		}
		c.markUnreachable()
	case opReturn:
		p.passValues(r, at, c.frames[0].labelArity)
		c.beforeReturn(at)
		c.branch(uint32(len(c.frames) - 1))
		c.markUnreachable()
	case opCall:
		p.call(r, at)
	case opCallIndirect:
		c.beforeCall(at)
		t := r.index("type", len(p.types))
		r.index("table", len(p.tableHasMax))
		if r.err == nil {
			p.passValues(r, at, len(p.types[t].Params)+len(p.types[t].Results))
			c.afterCall(r.pos, false, p.isLast(r))
		}
	case opRefFunc:
		p.addUnrestored("ref.func")
		p.functionOperand(r)
	case opMisc:
		p.miscInstruction(r, at)
	case opVector:
		p.vectorInstruction(r, at)
	default:
		p.plainInstruction(r, at, op)
	}
}

// passValues counts the values that an instruction passes.
func (p *parser) passValues(r *reader, at, n int) {
	if p.code.operands += n; p.code.operands > p.limits.Operands && r.err == nil {
		r.failAt(at, "calls, branches and blocks of one function pass over %d values", p.limits.Operands)
	}
}

// label parses the label of a branch (section 5.4.1).
func (p *parser) label(r *reader) {
	c := &p.code
	at := r.pos
	depth := r.index("label", len(c.frames))
	if r.err == nil {
		p.passValues(r, at, c.frames[len(c.frames)-1-int(depth)].labelArity)
		if to := c.branch(depth); to != depth {
			c.replaceIndex(at, r.pos, to)
		}
	}
}

// blockType parses a block type (section 5.4.1): empty, one result, or the index of a type.
func (p *parser) blockType(r *reader) (params, results int) {
	at := r.pos
	switch {
	case !r.eof() && r.data[r.pos] == emptyBlock:
		r.skip(1)
		return 0, 0
	case !r.eof() && r.data[r.pos]&0xc0 == 0x40:
		p.valueType(r)
		return 0, 1
	}
	x := r.signed(33)
	if r.err == nil && (x < 0 || x >= int64(len(p.types))) {
		r.failAt(at, "block type %d is out of range, there are %d types", x, len(p.types))
	}
	if r.err != nil {
		return 0, 0
	}
	return len(p.types[x].Params), len(p.types[x].Results)
}

// functionOperand parses the function index of an instruction and adjusts it for the added import.
func (p *parser) functionOperand(r *reader) uint32 {
	at := r.pos
	x := r.index("function", len(p.functions))
	if r.err == nil && int(x) >= len(p.module.Imports) {
		p.code.replaceIndex(at, r.pos, x+1)
	}
	return x
}

// call parses the function index of a call and records the call.
func (p *parser) call(r *reader, at int) {
	p.code.beforeCall(at)
	x := p.functionOperand(r)
	if r.err != nil {
		return
	}
	t := p.types[p.functions[x]]
	p.passValues(r, at, len(t.Params)+len(t.Results))
	toImport := int(x) < len(p.module.Imports)
	if toImport && p.code.reachable {
		p.code.distance += ImportCost
	}
	p.code.afterCall(r.pos, toImport, p.isLast(r))
}

// isLast reports whether the function returns after the current instruction.
func (p *parser) isLast(r *reader) bool {
	if r.eof() {
		return false
	}
	next := r.data[r.pos]
	return next == opReturn || next == opEnd && len(p.code.frames) == 1
}
