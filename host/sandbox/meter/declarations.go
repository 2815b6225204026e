package meter

import "strconv"

// This file parses the sections with declarations: types, imports, functions, tables, memories and globals.

// typeSection parses the type section (section 5.5.4).
func (p *parser) typeSection(r *reader) {
	n := p.vectorCount(r, "types", p.limits.Types, 3, 2)
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
	p.append(0x60, 0, 0)                                  // type of refill
	p.append(0x60, 3, byte(I32), byte(I32), byte(I32), 0) // type of the helpers
}

// valueTypes parses a result type (section 5.3.5). before is the number of types that already count against the limit.
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

// append writes bytes to the current section.
func (p *parser) append(b ...byte) { p.section = append(p.section, b...) }

// importSection parses the import section (section 5.5.5).
func (p *parser) importSection(r *reader) {
	n := p.vectorCount(r, "imports", p.limits.Imports, 4, 1)
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
		p.module.Imports = append(p.module.Imports, Import{module, name, p.types[t]})
	}
	p.copyTo(r.data, r.pos)
	p.section = appendName(p.section, ImportModule)
	p.section = appendName(p.section, ImportName)
	p.section = appendU32(append(p.section, byte(FunctionKind)), uint32(len(p.types)))
}

// functionSection parses the function section (section 5.5.6).
func (p *parser) functionSection(r *reader) {
	n := p.vectorCount(r, "functions", p.limits.Functions, 1, 0)
	for i := 0; i < n && r.err == nil; i++ {
		p.functions = append(p.functions, r.index("type", len(p.types)))
	}
}

const (
	unitPages = "pages"
	maxPages  = 65_536 // 4 GiB (section 3.2.5)
)

// sizeLimits parses the limits of a table or memory (section 5.3.7), and writes them with a maximum that
// does not exceed allowed. hasMax reports whether the module declares a maximum.
func (p *parser) sizeLimits(r *reader, unit string, allowed uint32) (minSize, maxSize uint32, hasMax bool) {
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
	minSize, maxSize = r.u32(), allowed
	if minSize > allowed {
		r.failAt(minAt, "minimum of %d %s, over the limit of %d", minSize, unit, allowed)
	}
	if flag == 1 {
		maxAt := r.pos
		hasMax = true
		if maxSize = r.u32(); maxSize < minSize {
			r.failAt(maxAt, "maximum of %d %s is below the minimum of %d", maxSize, unit, minSize)
		}
		if unit == unitPages && maxSize > maxPages {
			r.failAt(maxAt, "maximum of %d pages, more than 32-bit addresses reach", maxSize)
		}
	}
	maxSize = min(maxSize, allowed)
	if r.err == nil {
		p.copyTo(r.data, at)
		p.section = appendU32(appendU32(append(p.section, 1), minSize), maxSize)
		p.copied = r.pos
	}
	return minSize, maxSize, hasMax
}

// tableSection parses the table section (section 5.5.7).
func (p *parser) tableSection(r *reader) {
	n := p.vectorCount(r, "tables", p.limits.Tables, 3, 0)
	for i := 0; i < n && r.err == nil; i++ {
		if !r.eof() && r.data[r.pos] == 0x40 {
			r.failAt(r.pos, "table with an initial value: typed references are not accepted")
			return
		}
		p.referenceType(r)
		_, _, hasMax := p.sizeLimits(r, "entries", p.limits.TableEntries)
		p.tableHasMax = append(p.tableHasMax, hasMax)
	}
}

// memorySection parses the memory section (section 5.5.8).
func (p *parser) memorySection(r *reader) {
	at := r.pos
	n := p.vectorCount(r, "memories", r.left(), 2, 0)
	if n > 1 {
		r.failAt(at, "%d memories: more than one is not accepted", n)
	}
	if n == 1 && r.err == nil {
		p.hasMemory = true
		p.module.MemoryMin, p.module.MemoryMax, _ = p.sizeLimits(r, unitPages, min(p.limits.MemoryPages, maxPages))
	}
}

// globalSection parses the global section (section 5.5.9), exports each mutable global that a host can set, and adds
// the fuel global.
func (p *parser) globalSection(r *reader) {
	n := p.vectorCount(r, "globals", p.limits.Globals, 4, 1)
	for i := 0; i < n && r.err == nil; i++ {
		t := p.valueType(r)
		at := r.pos
		mutable := r.byte()
		if r.err == nil && mutable > 1 {
			r.failAt(at, "mutability %d is neither 0 nor 1", mutable)
		}
		p.constantExpression(r)
		p.globals++
		switch {
		case mutable == 0:
		case t == V128: // wazero cannot set all of its 128 bits
			p.addUnrestored("mutable v128 global")
		default:
			p.module.Globals = append(p.module.Globals, Global{globalPrefix + strconv.Itoa(i), t})
			p.globalIndices = append(p.globalIndices, uint32(i))
		}
	}
	p.copyTo(r.data, r.pos)
	p.append(byte(I64), 1, opI64Const, 0, opEnd)
}
