package meter

import "strconv"

// This file holds the sections that declare: types, imports, functions, tables, memories and globals.

func (p *parser) typeSection(r *reader) {
	n := p.vector(r, "types", p.limits.Types, 3, 2)
	p.types = make([]Signature, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		switch form := r.byte(); {
		case r.err != nil || form == 0x60:
		case form == 0x4e || form == 0x4f || form == 0x50 || form == 0x5e || form == 0x5f:
			r.failAt(at, "type form %#x: garbage collection is not accepted", form)
		default:
			r.failAt(at, "unknown type form %#x", form)
		}
		var s Signature
		s.Params = p.valueTypes(r, "parameters", 0)
		s.Results = p.valueTypes(r, "results", len(s.Params))
		p.types = append(p.types, s)
	}
	p.copyTo(r.data, r.pos)
	p.append(0x60, 0, 0)                                  // of refill
	p.append(0x60, 3, byte(I32), byte(I32), byte(I32), 0) // of helpers
}

func (p *parser) valueTypes(r *reader, what string, before int) []ValueType {
	n := r.count(what, p.limits.ParamsAndResults-before, 1)
	if n == 0 {
		return nil
	}
	list := make([]ValueType, n)
	for i := range list {
		list[i] = p.valueType(r)
	}
	return list
}

// append writes bytes of our own, when rewriting.
func (p *parser) append(b ...byte) {
	if p.rewrite {
		p.body = append(p.body, b...)
	}
}

func (p *parser) importSection(r *reader) {
	n := p.vector(r, "imports", p.limits.Imports, 4, 1)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		module, name := string(r.name(p.limits.NameBytes)), string(r.name(p.limits.NameBytes))
		kind := r.byte()
		if r.err != nil {
			return
		}
		switch kind {
		case 0:
		case 1, 2, 3:
			r.failAt(at, "import of %s %q.%q: only functions may be imported", Kind(kind), module, name)
		case 4:
			r.failAt(at, "import of a tag: exception handling is not accepted")
		default:
			r.failAt(at, "unknown import kind %d", kind)
		}
		if module == ImportModule {
			r.failAt(at, "import module %q is reserved: is the module metered already?", module)
		}
		t := r.index("type", len(p.types))
		if r.err != nil {
			return
		}
		p.functions = append(p.functions, t)
		p.sum.Imports = append(p.sum.Imports, Import{module, name, p.types[t]})
	}
	p.copyTo(r.data, r.pos)
	if p.rewrite {
		p.body = appendName(p.body, ImportModule)
		p.body = appendName(p.body, ImportName)
		p.body = appendU32(append(p.body, 0), uint32(len(p.types)))
	}
}

func (p *parser) functionSection(r *reader) {
	n := p.vector(r, "functions", p.limits.Functions, 1, 0)
	p.sum.Functions = n
	for i := 0; i < n && r.err == nil; i++ {
		p.functions = append(p.functions, r.index("type", len(p.types)))
	}
}

const (
	pages    = "pages"
	maxPages = 65_536 // 4 GiB
)

// bounds reads limits (core specification 5.3.7) and writes them with the maximum held to most.
func (p *parser) bounds(r *reader, unit string, most uint32) (least, top uint32, given bool) {
	at := r.pos
	flag := r.byte()
	switch {
	case r.err != nil || flag <= 1:
	case flag <= 3:
		r.failAt(at, "shared memory or table: threads are not accepted")
	case flag <= 7:
		r.failAt(at, "64-bit memory or table is not accepted")
	default:
		r.failAt(at, "unknown limits flag %#x", flag)
	}
	minAt := r.pos
	least, top = r.u32(), most
	if least > most {
		r.failAt(minAt, "minimum of %d %s, over the limit of %d", least, unit, most)
	}
	if flag == 1 {
		maxAt := r.pos
		given = true
		if top = r.u32(); top < least {
			r.failAt(maxAt, "maximum of %d %s is below the minimum of %d", top, unit, least)
		}
		if unit == pages && top > maxPages {
			r.failAt(maxAt, "maximum of %d pages, more than 32-bit addresses reach", top)
		}
	}
	top = min(top, most)
	if p.rewrite && r.err == nil {
		p.copyTo(r.data, at)
		p.body = appendU32(appendU32(append(p.body, 1), least), top)
		p.from = r.pos
	}
	return least, top, given
}

func (p *parser) tableSection(r *reader) {
	n := p.vector(r, "tables", p.limits.Tables, 3, 0)
	for i := 0; i < n && r.err == nil; i++ {
		if !r.eof() && r.data[r.pos] == 0x40 {
			r.failAt(r.pos, "table with an initial value: typed references are not accepted")
			return
		}
		t := Table{Type: p.referenceType(r)}
		var bounded bool
		t.Min, t.Max, bounded = p.bounds(r, "entries", p.limits.TableEntries)
		p.sum.Tables = append(p.sum.Tables, t)
		p.tables = append(p.tables, tableState{unbounded: !bounded})
	}
}

func (p *parser) memorySection(r *reader) {
	at := r.pos
	n := p.vector(r, "memories", r.left(), 2, 0)
	if n > 1 {
		r.failAt(at, "%d memories: more than one is not accepted", n)
	}
	if n == 1 && r.err == nil {
		p.sum.HasMemory = true
		p.sum.MemoryMin, p.sum.MemoryMax, _ = p.bounds(r, pages, min(p.limits.MemoryPages, maxPages))
	}
}

func (p *parser) globalSection(r *reader) {
	n := p.vector(r, "globals", p.limits.Globals, 4, 1)
	for i := 0; i < n && r.err == nil; i++ {
		t := p.valueType(r)
		at := r.pos
		mutable := r.byte()
		if r.err == nil && mutable > 1 {
			r.failAt(at, "mutability %d is neither 0 nor 1", mutable)
		}
		p.constant(r)
		p.globals++
		switch {
		case mutable == 0:
		case t == V128: // no engine interface sets all of its 128 bits
			p.unrestored("mutable v128 global")
		default:
			p.restorable = append(p.restorable, Global{globalPrefix + strconv.Itoa(i), t})
			p.restorableAt = append(p.restorableAt, uint32(i))
		}
	}
	p.copyTo(r.data, r.pos)
	p.append(byte(I64), 1, 0x42, 0, 0x0b)
}
