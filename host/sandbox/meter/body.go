package meter

import "slices"

// The opcodes that the scanner or the emitter name, core specification 5.4.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opBrTable     = 0x0e
	opReturn      = 0x0f
	opCall        = 0x10
	opIndirect    = 0x11
	opSelect      = 0x1b
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opLocalTee    = 0x22
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opI32Const    = 0x41
	opI64Const    = 0x42
	opI32LtU      = 0x49
	opI32GtU      = 0x4b
	opI64LtS      = 0x53
	opI32Add      = 0x6a
	opI32Sub      = 0x6b
	opI64Sub      = 0x7d
	opI64Shl      = 0x86
	opI64ShrU     = 0x88
	opI64ExtendU  = 0xad
	opRefFunc     = 0xd2
	opMisc        = 0xfc
	opVector      = 0xfd
	emptyBlock    = 0x40
)

// codeScanner reads one function's body after the other, reusing its memory.
type codeScanner struct {
	planner
	out      []byte // the rewritten body
	locals   int    // parameters included
	operands int    // values passed so far
	joins    int    // branch targets times locals so far
	scratch  bool   // the body needs a local of ours
}

// function vets a body and, when rewriting, leaves the new one in p.code.out.
func (p *parser) function(r *reader, t Signature) {
	c := &p.code
	c.scheme = p.scheme
	c.locals, c.operands, c.joins, c.scratch = len(t.Params), 0, 0, false
	groups := p.locals(r)
	code := r.pos
	c.edits = slices.Grow(c.edits[:0], r.left()/4)
	c.begin(code, len(t.Results))
	for len(c.frames) > 0 && r.err == nil {
		if r.eof() {
			r.failAt(r.pos, "function body ends inside a block")
			return
		}
		c.split(r.pos)
		p.instruction(r)
	}
	if r.err == nil && !r.eof() {
		r.failAt(r.pos, "%d bytes left over after the function's end", r.left())
	}
	if p.work += c.planner.work(c.joins); p.work > p.limits.Work && r.err == nil {
		r.failAt(code, "blocks and branches that would take a compiler over %d units of work", p.limits.Work)
	}
	if r.err != nil || !p.rewrite {
		return
	}
	c.settle(c.operands + c.joins)
	e := p.emitter()
	e.cached, e.cache, e.size = c.loops, uint32(c.locals), uint32(c.locals)
	var own []byte
	if e.cached {
		own = append(own, 1, byte(I64))
		e.size++
	}
	if c.scratch {
		own = append(own, 1, byte(I32))
	}
	out := appendU32(c.out[:0], uint32(groups.n+len(own)/2))
	out = append(out, r.data[groups.first:code]...)
	c.out = c.applyEdits(e, append(out, own...), r.data[:r.end], uint32(code))
}

// emitter writes for a function that keeps the fuel nowhere but in its global.
func (p *parser) emitter() emitter {
	return emitter{fuel: uint32(p.globals), refill: uint32(len(p.sum.Imports)), helper: uint32(len(p.functions) + 1),
		pieces: uint32(len(p.types) + 1)}
}

// localGroups says where the declarations of a function's locals stand.
type localGroups struct{ n, first int }

func (p *parser) locals(r *reader) localGroups {
	g := localGroups{n: r.count("groups of locals", r.left(), 2)}
	g.first = r.pos
	sum := uint64(p.code.locals)
	for i := 0; i < g.n && r.err == nil; i++ {
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
	return g
}

func (c *codeScanner) applyEdits(e emitter, out, data []byte, from uint32) []byte {
	for _, d := range c.edits {
		out = append(out, data[from:d.at]...)
		from = d.end
		switch d.kind {
		case editCharge:
			s := c.segments[d.n]
			if s.header {
				out = e.leave(out)
			}
			out = e.charge(out, int64(s.cost), s.check && !s.header)
		case editIndex:
			out = appendU32(out, d.n)
		case editWrap:
			out = e.wrap(out, data[d.at+1:d.n])
		case editUnwrap:
			out = e.unwrap(out)
		case editStore:
			out = e.store(out)
		case editLoad:
			out = e.load(out)
		case editEntries:
			out = e.bulk(out, entryShift, opI64ShrU)
		case editPages:
			out = e.bulk(out, pageShift, opI64Shl)
		case editBytes:
			out = e.bytes(out, data[d.at:d.end], d.n)
		}
	}
	return append(out, data[from:]...)
}

// instruction reads one instruction with its immediates and tells the planner what it does to the flow.
func (p *parser) instruction(r *reader) {
	c := &p.code
	at := r.pos
	op := r.byte()
	switch op {
	case opBlock, opLoop, opIf:
		if op == opIf {
			c.spend(1)
		}
		params, results := p.blockType(r)
		if len(c.frames) > p.limits.Nesting {
			r.failAt(at, "blocks nested deeper than %d", p.limits.Nesting)
			return
		}
		p.operands(r, at, params+results)
		c.joins += c.locals
		if c.joins > p.limits.Joins {
			r.failAt(at, "blocks times locals of one function are over the limit of %d", p.limits.Joins)
			return
		}
		c.enter(op, at, r.pos, params, results)
		return
	case opElse:
		if c.frames[len(c.frames)-1].kind != opIf {
			r.failAt(at, "else without an if")
			return
		}
		c.otherwise(r.pos)
		return
	case opEnd:
		if len(c.frames) == 1 {
			c.returning(at)
		}
		c.end(r.pos)
		return
	}
	c.spend(1)
	switch op {
	case opUnreachable:
		c.leave()
	case opBr, opBrIf:
		if probe := *r; probe.u32() == uint32(len(c.frames)-1) {
			c.returning(at)
		}
		p.label(r)
		if op == opBr {
			c.leave()
		}
	case opBrTable:
		n := r.count("branch targets", r.left(), 1) + 1
		for probe, i := *r, n; i > 0; i-- {
			if probe.u32() == uint32(len(c.frames)-1) {
				c.returning(at)
				break
			}
		}
		for ; n > 0 && r.err == nil; n-- {
			p.label(r)
		}
		c.leave()
	case opReturn:
		p.operands(r, at, c.frames[0].arity)
		c.returning(at)
		c.branch(uint32(len(c.frames) - 1))
		c.leave()
	case opCall:
		p.call(r, at)
	case opIndirect:
		c.calling(at)
		t := r.index("type", len(p.types))
		r.index("table", len(p.tables))
		if r.err == nil {
			p.operands(r, at, len(p.types[t].Params)+len(p.types[t].Results))
			c.called(r.pos, false, p.last(r))
		}
	case opRefFunc:
		p.functionRef(r)
	case opMisc:
		p.misc(r, at)
	case opVector:
		p.vectorInstruction(r, at)
	default:
		p.plain(r, at, op)
	}
}

// operands counts values that an instruction passes.
func (p *parser) operands(r *reader, at, n int) {
	if p.code.operands += n; p.code.operands > p.limits.Operands && r.err == nil {
		r.failAt(at, "calls, branches and blocks of one function pass over %d values", p.limits.Operands)
	}
}

func (p *parser) label(r *reader) {
	c := &p.code
	at := r.pos
	depth := r.index("label", len(c.frames))
	if r.err == nil {
		p.operands(r, at, c.frames[len(c.frames)-1-int(depth)].arity)
		if to := c.branch(depth); to != depth {
			c.replace(at, r.pos, to)
		}
	}
}

// blockType reads core specification 5.4.1's blocktype: empty, one result, or a type's index.
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

// functionRef reads a function's index inside a body and notes its new value.
func (p *parser) functionRef(r *reader) uint32 {
	at := r.pos
	x := r.index("function", len(p.functions))
	if r.err == nil && int(x) >= len(p.sum.Imports) {
		p.code.replace(at, r.pos, x+1)
	}
	return x
}

func (p *parser) call(r *reader, at int) {
	p.code.calling(at)
	x := p.functionRef(r)
	if r.err != nil {
		return
	}
	t := p.types[p.functions[x]]
	p.operands(r, at, len(t.Params)+len(t.Results))
	host := int(x) < len(p.sum.Imports)
	if host {
		p.code.spend(p.scheme.hostCall)
	}
	p.code.called(r.pos, host, p.last(r))
}

// last says whether nothing but the function's return follows.
func (p *parser) last(r *reader) bool {
	if r.eof() {
		return false
	}
	next := r.data[r.pos]
	return next == opReturn || next == opEnd && len(p.code.frames) == 1
}
