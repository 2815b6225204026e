package meter

import (
	"slices"
	"strings"
)

// This file holds the sections that refer to what was declared: exports, the start function, elements, code and data.

func (p *parser) exportSection(r *reader) {
	added := 1 + len(p.restorable)
	if p.starts {
		added++
	}
	n := p.vector(r, "exports", p.limits.Exports, 3, added)
	seen := make(map[string]struct{}, n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		e := Export{Name: string(r.name(p.limits.NameBytes))}
		if _, twice := seen[e.Name]; twice {
			r.failAt(at, "second export named %q", e.Name)
		}
		seen[e.Name] = struct{}{}
		if e.Name == FuelExport || e.Name == StartExport || strings.HasPrefix(e.Name, globalPrefix) {
			r.failAt(at, "export name %q is reserved", e.Name)
		}
		at = r.pos
		e.Kind = Kind(r.byte())
		switch {
		case r.err != nil:
			return
		case e.Kind == Function:
			if x := p.functionIndex(r); r.err == nil {
				e.Signature = p.types[p.functions[x]]
			}
		case e.Kind == TableKind:
			r.index("table", len(p.tables))
		case e.Kind == MemoryKind:
			r.index("memory", p.memories())
		case e.Kind == GlobalKind:
			r.index("global", p.globals)
		case e.Kind == 4:
			r.failAt(at, "export of a tag: exception handling is not accepted")
		default:
			r.failAt(at, "unknown export kind %d", byte(e.Kind))
		}
		p.sum.Exports = append(p.sum.Exports, e)
	}
	p.copyTo(r.data, r.pos)
	if !p.rewrite {
		return
	}
	if p.starts {
		p.body = appendName(p.body, StartExport)
		p.body = appendU32(append(p.body, byte(Function)), p.shifted(p.start))
	}
	p.body = appendName(p.body, FuelExport)
	p.body = appendU32(append(p.body, byte(GlobalKind)), uint32(p.globals))
	for i, g := range p.restorable {
		p.body = appendName(p.body, g.Name)
		p.body = appendU32(append(p.body, byte(GlobalKind)), p.restorableAt[i])
	}
}

// startSection vets the start function, which is exported rather than started. Its type is the engine's to check no
// more.
func (p *parser) startSection(r *reader) {
	at := r.pos
	x := r.index("function", len(p.functions))
	if r.err != nil {
		return
	}
	if t := p.types[p.functions[x]]; !t.Equal(Signature{}) {
		r.failAt(at, "start function of type %s", t)
	}
	p.sum.HasStart = true
}

func (p *parser) memories() int {
	if p.sum.HasMemory {
		return 1
	}
	return 0
}

// constant reads a constant expression: exactly one instruction and end (core specification 3.3.10, without the
// extended constant expressions of later versions).
func (p *parser) constant(r *reader) {
	at := r.pos
	switch op := r.byte(); {
	case r.err != nil:
	case op == 0x41:
		r.signed(32)
	case op == 0x42:
		r.signed(64)
	case op == 0x43:
		r.skip(4)
	case op == 0x44:
		r.skip(8)
	case op == 0x23:
		r.index("global", p.globals)
	case op == 0xd0:
		p.referenceType(r)
	case op == 0xd2:
		p.functionIndex(r)
	case op == 0xfd:
		if r.byte() != 0x0c {
			r.failAt(at, "vector instruction other than v128.const in a constant expression")
		}
		r.skip(16)
	case op == 0x0b:
		r.failAt(at, "empty constant expression")
	default:
		r.failAt(at, "instruction %#x in a constant expression", op)
	}
	at = r.pos
	if end := r.byte(); r.err == nil && end != 0x0b {
		r.failAt(at, "extended constant expressions are not accepted")
	}
}

// elementSection reads all eight forms of core specification 5.5.12: bit 0 passive or declarative, bit 1 an explicit
// table or declarative, bit 2 expressions rather than indices.
func (p *parser) elementSection(r *reader) {
	n := p.vector(r, "element segments", p.limits.ElementSegments, 2, 0)
	p.segments = n
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		form := r.u32()
		if form > 7 {
			r.failAt(at, "unknown element segment form %d", form)
			return
		}
		active := form&1 == 0
		if active {
			if form&2 != 0 {
				r.index("table", len(p.tables))
			} else if len(p.tables) == 0 {
				r.failAt(at, "table 0 is out of range, there are 0")
			}
			p.constant(r)
		}
		if form&3 != 0 {
			at := r.pos
			if form&4 != 0 {
				p.referenceType(r)
			} else if kind := r.byte(); r.err == nil && kind != 0 {
				r.failAt(at, "unknown element kind %#x", kind)
			}
		}
		entries := r.count("elements", p.limits.Elements-p.elements, 1)
		p.elements += entries
		for j := 0; j < entries && r.err == nil; j++ {
			if form&4 != 0 {
				p.constant(r)
			} else {
				p.functionIndex(r)
			}
		}
	}
}

// dataSection reads the three forms of core specification 5.5.14.
func (p *parser) dataSection(r *reader) {
	at := r.pos
	p.data = p.vector(r, "data segments", p.limits.DataSegments, 2, 0)
	if p.dataCount >= 0 && p.dataCount != p.data {
		r.failAt(at, "%d segments announced by the data count section, %d given", p.dataCount, p.data)
	}
	for i := 0; i < p.data && r.err == nil; i++ {
		at := r.pos
		switch form := r.u32(); form {
		case 0, 2:
			if form == 2 {
				r.index("memory", p.memories())
			} else if !p.sum.HasMemory {
				r.failAt(at, "memory 0 is out of range, there are 0")
			}
			p.constant(r)
		case 1:
		default:
			r.failAt(at, "unknown data segment form %d", form)
		}
		r.skip(r.count("bytes of data", r.end, 1))
	}
}

func (p *parser) codeSection(r *reader) {
	at := r.pos
	p.codes = r.count("function bodies", p.limits.Functions, 2)
	imports := len(p.sum.Imports)
	if p.codes != len(p.functions)-imports && r.err == nil {
		r.failAt(at, "%d functions declared, %d bodies given", len(p.functions)-imports, p.codes)
	}
	p.from = r.end // all of it is written anew
	for i := 0; i < p.codes && r.err == nil; i++ {
		at := r.pos
		size := r.count("bytes of function body", p.limits.FunctionBytes, 1)
		if r.err != nil {
			return
		}
		body := *r
		body.end = body.pos + size
		p.function(&body, p.types[p.functions[imports+i]])
		r.pos, r.err = body.end, body.err
		if r.err != nil {
			return
		}
		if p.rewrite {
			p.addBody(p.code.out)
			if len(p.body) > p.limits.MeteredBytes {
				r.failAt(at, "module grows to over %d bytes by metering", p.limits.MeteredBytes)
			}
		}
	}
	if p.rewrite && r.err == nil {
		for _, h := range p.helpers.list {
			p.addBody(h.body(p.emitter()))
		}
		p.body = slices.Insert(p.body, 0, appendU32(nil, uint32(p.codes+len(p.helpers.list)))...)
	}
}

func (p *parser) addBody(body []byte) { p.body = append(appendU32(p.body, uint32(len(body))), body...) }

func (p *parser) unrestored(what string) {
	for _, known := range p.sum.Unrestored {
		if known == what {
			return
		}
	}
	p.sum.Unrestored = append(p.sum.Unrestored, what)
}
