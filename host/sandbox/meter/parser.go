package meter

import "math"

// Section ids (section 5.5.2). The tag section belongs to the exception handling proposal.
const (
	idType      = 1
	idImport    = 2
	idFunction  = 3
	idTable     = 4
	idMemory    = 5
	idGlobal    = 6
	idExport    = 7
	idStart     = 8
	idElement   = 9
	idCode      = 10
	idData      = 11
	idDataCount = 12
	idTag       = 13
)

// sectionOrder is the order in which sections must appear (section 5.5.16): the data count precedes the code.
var sectionOrder = [...]int{idType: 1, idImport: 2, idFunction: 3, idTable: 4, idMemory: 5, idGlobal: 6, idExport: 7,
	idStart: 8, idElement: 9, idDataCount: 10, idCode: 11, idData: 12, idTag: 0}

// parser validates and instruments a module in one pass. It can write each section as it reads it, because everything
// that changes an index precedes the uses of the index in the file. Only the function section is extended later, with
// the helpers.
type parser struct {
	limits Limits
	policy policy

	module          Module
	globalIndices   []uint32 // of module.Globals
	types           []Signature
	functions       []uint32 // type index of each function, imports first
	globals         int
	tableHasMax     []bool // of each table
	hasMemory       bool
	elementSegments int
	elements        int // in all element segments
	dataCount       int // from the data count section; -1 without one
	dataSegments    int
	bodies          int // function bodies
	localsTotal     int
	compileWork     int
	start           uint32 // index of the start function, if hasStart
	hasStart        bool

	out               []byte // finished sections
	section           []byte // content of the section being written
	copied            int    // position in the file up to which the input has been copied to section or replaced
	code              functionState
	functionSectionAt span // in out
	helpers           helpers
}

// span is a range of positions.
type span struct{ at, end int }

// parse parses the binary format of a module (section 5.5.16).
func (p *parser) parse(wasm []byte) error {
	r := reader{data: wasm, end: len(wasm), section: "header"}
	if len(wasm) > p.limits.ModuleBytes {
		r.failAt(0, "file of %d bytes, over the limit of %d", len(wasm), p.limits.ModuleBytes)
		return r.err
	}
	if len(wasm) > math.MaxInt32 {
		r.failAt(0, "file of %d bytes", len(wasm))
		return r.err
	}
	r.header()
	p.dataCount = -1
	p.start, p.hasStart = startFunction(r)
	p.out = append(make([]byte, 0, len(wasm)+len(wasm)/2), magic...)
	last := 0
	for r.err == nil {
		at := r.pos
		id, s, ok := r.next()
		if !ok {
			break
		}
		if id == 0 {
			s.name(p.limits.NameBytes)
		} else {
			if sectionOrder[id] <= last && id != idTag {
				s.failAt(at, "%s section out of order or repeated", s.section)
				return s.err
			}
			p.addMissing(last, sectionOrder[id])
			last = max(last, sectionOrder[id])
			p.parseSection(id, &s)
		}
		if s.err != nil {
			return s.err
		}
		if len(p.out) > p.limits.MeteredBytes {
			s.failAt(at, "module grows to over %d bytes by metering", p.limits.MeteredBytes)
			return s.err
		}
	}
	if r.err != nil {
		return r.err
	}
	p.addMissing(last, len(sectionOrder))
	r.section = "code"
	if defined := len(p.functions) - len(p.module.Imports); defined != p.bodies {
		r.failAt(len(wasm), "%d functions declared, %d bodies given", defined, p.bodies)
		return r.err
	}
	r.section = "data"
	if p.dataCount >= 0 && p.dataCount != p.dataSegments {
		r.failAt(len(wasm), "%d segments declared by the data count section, %d given", p.dataCount, p.dataSegments)
		return r.err
	}
	return nil
}

// addMissing writes the sections that instrumentation extends if the module lacks them and they belong between the
// places last and next in sectionOrder.
func (p *parser) addMissing(last, next int) {
	for _, id := range [...]byte{idType, idImport, idGlobal, idExport} {
		if last < sectionOrder[id] && sectionOrder[id] < next {
			p.parseSection(id, &reader{data: []byte{0}, end: 1, section: sectionNames[id]})
		}
	}
}

// parseSection parses one section and writes the instrumented one.
func (p *parser) parseSection(id byte, s *reader) {
	p.section, p.copied = p.section[:0], s.pos
	switch id {
	case idType:
		p.typeSection(s)
	case idImport:
		p.importSection(s)
	case idFunction:
		p.functionSection(s)
	case idTable:
		p.tableSection(s)
	case idMemory:
		p.memorySection(s)
	case idGlobal:
		p.globalSection(s)
	case idExport:
		p.exportSection(s)
	case idStart:
		p.startSection(s)
	case idElement:
		p.elementSection(s)
	case idDataCount:
		n := s.pos
		p.dataCount = int(s.u32())
		if p.dataCount > p.limits.DataSegments {
			s.failAt(n, "%d data segments, over the limit of %d", p.dataCount, p.limits.DataSegments)
		}
	case idCode:
		p.codeSection(s)
	case idData:
		p.dataSection(s)
	case idTag:
		s.failAt(s.pos, "exception handling is not accepted")
	}
	if s.err == nil && !s.eof() {
		s.failAt(s.pos, "%d bytes left over at the end of the section", s.left())
	}
	if s.err != nil {
		return
	}
	p.copyTo(s.data, s.end)
	switch id {
	case idStart:
		return // an export replaces it
	case idCode:
		p.declareHelpers()
	}
	at := len(p.out)
	p.out = appendSection(p.out, id, p.section)
	if id == idFunction {
		p.functionSectionAt = span{at, len(p.out)}
	}
}

func appendSection(b []byte, id byte, content []byte) []byte {
	return append(appendU32(append(b, id), uint32(len(content))), content...)
}

// copyTo copies the input up to position at, except for what has been copied or replaced already.
func (p *parser) copyTo(data []byte, at int) {
	if at > p.copied {
		p.section = append(p.section, data[p.copied:at]...)
		p.copied = at
	}
}

// replaceU32 writes x in place of the input from at to the reader's position.
func (p *parser) replaceU32(r *reader, at int, x uint32) {
	if r.err == nil {
		p.copyTo(r.data, at)
		p.section = appendU32(p.section, x)
		p.copied = r.pos
	}
}

// vectorCount reads the count at the start of a section's vector (section 5.1.3), and writes it plus the number of
// added items.
func (p *parser) vectorCount(r *reader, what string, limit, size, added int) int {
	at := r.pos
	n := r.count(what, limit, size)
	p.replaceU32(r, at, uint32(n+added))
	return n
}

// functionIndex reads a function index (section 5.5.1), and writes the index in the instrumented module.
func (p *parser) functionIndex(r *reader) uint32 {
	at := r.pos
	x := r.index("function", len(p.functions))
	p.replaceU32(r, at, p.shifted(x))
	return x
}

// shifted returns the index that a function has after the import was added.
func (p *parser) shifted(x uint32) uint32 {
	if int(x) >= len(p.module.Imports) {
		x++
	}
	return x
}

// valueType reads a value type (section 5.3.4).
func (p *parser) valueType(r *reader) ValueType {
	at := r.pos
	t := ValueType(r.byte())
	if r.err == nil && t.String() == "unknown" {
		switch t {
		case 0x63, 0x64, 0x6e, 0x6d, 0x6c, 0x6b, 0x6a, 0x71, 0x72, 0x73:
			r.failAt(at, "value type %#x: typed references and garbage collection are not accepted", byte(t))
		case 0x69, 0x74:
			r.failAt(at, "value type %#x: exception handling is not accepted", byte(t))
		default:
			r.failAt(at, "unknown value type %#x", byte(t))
		}
	}
	return t
}

// referenceType reads a reference type (section 5.3.3).
func (p *parser) referenceType(r *reader) {
	at := r.pos
	t := p.valueType(r)
	if r.err == nil && t != FuncRef && t != ExternRef {
		r.failAt(at, "%s is not a reference type", t)
	}
}
