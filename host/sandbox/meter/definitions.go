package meter

import (
	"slices"
	"strings"
)

// This file parses the sections that refer to declarations: exports, start function, element and data segments, code.

// exportSection parses the export section (section 5.5.10). Export names must be unique (section 3.4.10).
func (p *parser) exportSection(r *reader) {
	added := 1 + len(p.module.Globals)
	if p.hasStart {
		added++
	}
	n := p.vectorCount(r, "exports", p.limits.Exports, 3, added)
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
		case e.Kind == FunctionKind:
			if x := p.functionIndex(r); r.err == nil {
				e.Signature = p.types[p.functions[x]]
			}
		case e.Kind == TableKind:
			r.index("table", len(p.tableHasMax))
		case e.Kind == MemoryKind:
			r.index("memory", p.memories())
		case e.Kind == GlobalKind:
			r.index("global", p.globals)
		case e.Kind == 4:
			r.failAt(at, "export of a tag: exception handling is not accepted")
		default:
			r.failAt(at, "unknown export kind %d", byte(e.Kind))
		}
		p.module.Exports = append(p.module.Exports, e)
	}
	p.copyTo(r.data, r.pos)
	if p.hasStart {
		p.section = appendName(p.section, StartExport)
		p.section = appendU32(append(p.section, byte(FunctionKind)), p.shifted(p.start))
	}
	p.section = appendName(p.section, FuelExport)
	p.section = appendU32(append(p.section, byte(GlobalKind)), uint32(p.globals))
	for i, g := range p.module.Globals {
		p.section = appendName(p.section, g.Name)
		p.section = appendU32(append(p.section, byte(GlobalKind)), p.globalIndices[i])
	}
}

// startSection parses the start section (section 5.5.11). An export replaces it, so the engine does not check the
// function's type (section 3.4.7).
func (p *parser) startSection(r *reader) {
	at := r.pos
	x := r.index("function", len(p.functions))
	if r.err != nil {
		return
	}
	if t := p.types[p.functions[x]]; !t.Equal(Signature{}) {
		r.failAt(at, "start function of type %s", t)
	}
}

// memories returns the number of memories.
func (p *parser) memories() int {
	if p.hasMemory {
		return 1
	}
	return 0
}

// constantExpression parses a constant expression: exactly one instruction and end (sections 3.3.10 and 5.4.9). Later
// versions of the specification have extended constant expressions with more instructions.
func (p *parser) constantExpression(r *reader) {
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

// elementSection parses the element section with all eight forms of segments (section 5.5.12). Bit 0 of the form means
// passive or declarative, bit 1 an explicit table or declarative, and bit 2 expressions instead of indices.
func (p *parser) elementSection(r *reader) {
	n := p.vectorCount(r, "element segments", p.limits.ElementSegments, 2, 0)
	p.elementSegments = n
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
				r.index("table", len(p.tableHasMax))
			} else if len(p.tableHasMax) == 0 {
				r.failAt(at, "table 0 is out of range, there are 0")
			}
			p.constantExpression(r)
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
				p.constantExpression(r)
			} else {
				p.functionIndex(r)
			}
		}
	}
}

// dataSection parses the data section with all three forms of segments (section 5.5.14).
func (p *parser) dataSection(r *reader) {
	at := r.pos
	p.dataSegments = p.vectorCount(r, "data segments", p.limits.DataSegments, 2, 0)
	if p.dataCount >= 0 && p.dataCount != p.dataSegments {
		r.failAt(at, "%d segments declared by the data count section, %d given", p.dataCount, p.dataSegments)
	}
	for i := 0; i < p.dataSegments && r.err == nil; i++ {
		at := r.pos
		switch form := r.u32(); form {
		case 0, 2:
			if form == 2 {
				r.index("memory", p.memories())
			} else if !p.hasMemory {
				r.failAt(at, "memory 0 is out of range, there are 0")
			}
			p.constantExpression(r)
		case 1:
		default:
			r.failAt(at, "unknown data segment form %d", form)
		}
		r.skip(r.count("bytes of data", r.end, 1))
	}
}

// codeSection parses the code section (section 5.5.13).
func (p *parser) codeSection(r *reader) {
	at := r.pos
	p.bodies = r.count("function bodies", p.limits.Functions, 2)
	imports := len(p.module.Imports)
	if p.bodies != len(p.functions)-imports && r.err == nil {
		r.failAt(at, "%d functions declared, %d bodies given", len(p.functions)-imports, p.bodies)
	}
	p.copied = r.end // the whole section is rewritten
	for i := 0; i < p.bodies && r.err == nil; i++ {
		at := r.pos
		size := r.count("bytes of function body", p.limits.FunctionBytes, 1)
		if r.err != nil {
			return
		}
		body := *r
		body.end = body.pos + size
		p.functionBody(&body, p.types[p.functions[imports+i]])
		r.pos, r.err = body.end, body.err
		if r.err != nil {
			return
		}
		p.addBody(p.code.out)
		if len(p.section) > p.limits.MeteredBytes {
			r.failAt(at, "module grows to over %d bytes by metering", p.limits.MeteredBytes)
		}
	}
	if r.err == nil {
		for _, h := range p.helpers.list {
			p.addBody(h.body(p.emitter()))
		}
		p.section = slices.Insert(p.section, 0, appendU32(nil, uint32(p.bodies+len(p.helpers.list)))...)
	}
}

func (p *parser) addBody(body []byte) {
	p.section = append(appendU32(p.section, uint32(len(body))), body...)
}

// addUnrestored adds an instruction or global to Module.Unrestored.
func (p *parser) addUnrestored(name string) {
	if !slices.Contains(p.module.Unrestored, name) {
		p.module.Unrestored = append(p.module.Unrestored, name)
	}
}
