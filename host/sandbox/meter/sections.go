package meter

import "math"

// Section ids, core specification 5.5.2.
const (
	idType     = 1
	idImport   = 2
	idFunction = 3
	idTable    = 4
	idMemory   = 5
	idGlobal   = 6
	idExport   = 7
	idStart    = 8
	idElement  = 9
	idCode     = 10
	idData     = 11
	idCount    = 12
	idTag      = 13
)

// order is the order in which sections must appear: "data count" stands before "code".
var order = [...]int{idType: 1, idImport: 2, idFunction: 3, idTable: 4, idMemory: 5, idGlobal: 6, idExport: 7,
	idStart:   8,
	idElement: 9, idCount: 10, idCode: 11, idData: 12, idTag: 0}

// parser vets a module in one pass and, when rewriting, builds the new one as it goes: all that an index shift depends
// on comes earlier in the file than what is shifted.
type parser struct {
	limits  Limits
	scheme  scheme
	rewrite bool

	sum          Summary
	restorable   []Global
	restorableAt []uint32 // the index of each

	types       []Signature
	functions   []uint32 // the type of each, imports first
	globals     int
	tables      []tableState
	segments    int // element segments
	dataCount   int // from the data count section; -1 without one
	codes       int
	data        int // data segments
	elements    int
	localsTotal int
	work        int

	out  []byte // finished sections
	body []byte // the section being written
	from int    // what of the input is copied to body up to here
	code codeScanner

	start   uint32 // the start function, when starts
	starts  bool
	declare span // the function section in out
	helpers helpers
}

type tableState struct{ unbounded bool }

// span is a part of a file.
type span struct{ at, end int }

func (p *parser) module(wasm []byte) error {
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
	p.start, p.starts = startFunction(r)
	if p.rewrite {
		p.out = append(make([]byte, 0, len(wasm)+len(wasm)/2), magic...)
	}
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
			if order[id] <= last && id != idTag {
				s.failAt(at, "%s section out of order or repeated", s.section)
				return s.err
			}
			p.addMissing(last, order[id])
			last = max(last, order[id])
			p.section(id, &s)
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
	p.addMissing(last, len(order))
	r.section = "code"
	if defined := len(p.functions) - len(p.sum.Imports); defined != p.codes {
		r.failAt(len(wasm), "%d functions declared, %d bodies given", defined, p.codes)
		return r.err
	}
	r.section = "data"
	if p.dataCount >= 0 && p.dataCount != p.data {
		r.failAt(len(wasm), "%d segments announced by the data count section, %d given", p.dataCount, p.data)
		return r.err
	}
	return nil
}

// addMissing writes the sections that rewriting extends, where the module has none of its own between two places.
func (p *parser) addMissing(last, next int) {
	if !p.rewrite {
		return
	}
	for _, id := range [...]byte{idType, idImport, idGlobal, idExport} {
		if last < order[id] && order[id] < next {
			p.section(id, &reader{data: []byte{0}, end: 1, section: sectionNames[id]})
		}
	}
}

func (p *parser) section(id byte, s *reader) {
	p.body, p.from = p.body[:0], s.pos
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
	case idCount:
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
	if s.err != nil || !p.rewrite {
		return
	}
	p.copyTo(s.data, s.end)
	switch id {
	case idStart:
		return // exported instead
	case idCode:
		p.declareHelpers()
	}
	at := len(p.out)
	p.out = appendSection(p.out, id, p.body)
	if id == idFunction {
		p.declare = span{at, len(p.out)}
	}
}

func appendSection(b []byte, id byte, content []byte) []byte {
	return append(appendU32(append(b, id), uint32(len(content))), content...)
}

// copyTo copies what precedes at in the input and is not copied yet.
func (p *parser) copyTo(data []byte, at int) {
	if p.rewrite && at > p.from {
		p.body = append(p.body, data[p.from:at]...)
		p.from = at
	}
}

// replaceU32 writes x in place of the input from at to the reader's position.
func (p *parser) replaceU32(r *reader, at int, x uint32) {
	if p.rewrite && r.err == nil {
		p.copyTo(r.data, at)
		p.body = appendU32(p.body, x)
		p.from = r.pos
	}
}

// vector reads a section's leading count, and writes it increased by what rewriting appends.
func (p *parser) vector(r *reader, what string, limit, size, added int) int {
	at := r.pos
	n := r.count(what, limit, size)
	p.replaceU32(r, at, uint32(n+added))
	return n
}

// functionIndex reads a function's index, and writes the new one.
func (p *parser) functionIndex(r *reader) uint32 {
	at := r.pos
	x := r.index("function", len(p.functions))
	p.replaceU32(r, at, p.shifted(x))
	return x
}

// shifted is a function's index as it is after the import was added.
func (p *parser) shifted(x uint32) uint32 {
	if int(x) >= len(p.sum.Imports) {
		x++
	}
	return x
}

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

func (p *parser) referenceType(r *reader) ValueType {
	at := r.pos
	t := p.valueType(r)
	if r.err == nil && t != FuncRef && t != ExternRef {
		r.failAt(at, "%s is not a reference type", t)
	}
	return t
}
