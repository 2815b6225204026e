package meter

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// reader reads one section of a module. After the first error, every read returns zero and the position is the
// section's end, so that loops that run until eof end.
type reader struct {
	data    []byte // the whole file, so that positions are file offsets
	pos     int
	end     int // of the section
	section string
	err     *Error
}

// failAt records an error, unless there is one already.
func (r *reader) failAt(offset int, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Section: r.section, Offset: offset, Reason: fmt.Sprintf(format, args...)}
	}
	r.pos = r.end
}

func (r *reader) left() int { return r.end - r.pos }
func (r *reader) eof() bool { return r.pos >= r.end }

func (r *reader) byte() byte {
	if r.pos >= r.end {
		r.failAt(r.pos, "truncated")
		return 0
	}
	b := r.data[r.pos]
	r.pos++
	return b
}

// skip skips n bytes.
func (r *reader) skip(n int) {
	if n < 0 || n > r.left() {
		r.failAt(r.pos, "truncated: %d bytes wanted, %d left", n, r.left())
		return
	}
	r.pos += n
}

// u32 reads an unsigned LEB128 integer of at most 32 bits and 5 bytes (section 5.2.2).
func (r *reader) u32() uint32 {
	if r.pos < r.end && r.data[r.pos] < 0x80 {
		r.pos++
		return uint32(r.data[r.pos-1])
	}
	start := r.pos
	var x uint32
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		if shift == 28 && b > 0x0f {
			r.failAt(start, "integer of more than 32 bits")
			return 0
		}
		x |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return x
		}
	}
}

// signed reads a signed LEB128 integer of 32, 33 or 64 bits (section 5.2.2). It has at most ceil(bits/7) bytes, and the
// unused bits of the last byte repeat the sign.
func (r *reader) signed(bits int) int64 {
	start := r.pos
	var x int64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		if used := bits - shift; used <= 7 {
			rest := int8(b<<1) >> used // the sign bit and all above it, sign-extended
			if b >= 0x80 || (rest != 0 && rest != -1) {
				r.failAt(start, "integer of more than %d bits", bits)
				return 0
			}
		}
		x |= int64(b&0x7f) << shift
		if b < 0x80 {
			if shift+7 < 64 {
				x = x << (64 - shift - 7) >> (64 - shift - 7)
			}
			return x
		}
	}
}

// count reads the length of a vector (section 5.1.3) whose items take at least size bytes each.
func (r *reader) count(what string, limit, size int) int {
	at := r.pos
	n := r.u32()
	if r.err != nil {
		return 0
	}
	if uint64(n)*uint64(size) > uint64(r.left()) {
		r.failAt(at, "%d %s declared with %d bytes left", n, what, r.left())
		return 0
	}
	if uint64(n) > uint64(max(limit, 0)) {
		r.failAt(at, "%d %s, over the limit of %d", n, what, limit)
		return 0
	}
	return int(n)
}

// index reads an index (section 5.5.1), which must be below n.
func (r *reader) index(what string, n int) uint32 {
	at := r.pos
	x := r.u32()
	if r.err == nil && uint64(x) >= uint64(n) {
		r.failAt(at, "%s %d is out of range, there are %d", what, x, n)
		return 0
	}
	return x
}

// name reads a name of at most limit bytes (section 5.2.4).
func (r *reader) name(limit int) []byte {
	n := r.count("bytes of name", limit, 1)
	if r.err != nil {
		return nil
	}
	name := r.data[r.pos : r.pos+n]
	if !utf8.Valid(name) {
		r.failAt(r.pos, "name is not UTF-8")
		return nil
	}
	r.pos += n
	return name
}

var magic = []byte("\x00asm\x01\x00\x00\x00")

// header reads the magic number and version 1 (section 5.5.16). The error identifies other kinds of files that people
// upload.
func (r *reader) header() {
	switch d := r.data; {
	case bytes.HasPrefix(d, magic):
		r.pos = len(magic)
	case len(d) == 0:
		r.failAt(0, "empty file")
	case bytes.HasPrefix(d, []byte("\x1f\x8b")):
		r.failAt(0, "compressed by gzip: not a WebAssembly module")
	case bytes.HasPrefix(d, []byte("\x7fELF")):
		r.failAt(0, "an ELF executable: not a WebAssembly module")
	case bytes.HasPrefix(magic, d):
		r.failAt(len(d), "truncated")
	case !bytes.HasPrefix(d, magic[:4]):
		r.failAt(0, "magic number missing: not a WebAssembly module")
	case len(d) >= 8 && d[6] == 1 && d[7] == 0:
		r.failAt(4, "component-model binary: only core modules are accepted")
	default:
		r.failAt(4, "version is not 1")
	}
}

// startFunction looks ahead for the start section and returns its function index, because the export section precedes
// it. It ignores malformed sections, which the parser reports later.
func startFunction(r reader) (index uint32, ok bool) {
	for {
		id, s, more := r.next()
		if !more {
			return 0, false
		}
		if id == idStart {
			index = s.u32()
			return index, s.err == nil
		}
	}
}

// sectionNames are the names of sections by id (section 5.5.2).
var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start",
	"element", "code", "data", "data count", "tag"}

// next returns a reader of the next section (section 5.5.2) and skips it. ok is false at the end of the file or after
// an error.
func (r *reader) next() (id byte, s reader, ok bool) {
	r.section = "header"
	if r.err != nil || r.eof() {
		return 0, reader{}, false
	}
	at := r.pos
	id = r.byte()
	if int(id) >= len(sectionNames) {
		r.failAt(at, "unknown section id %d", id)
		return 0, reader{}, false
	}
	r.section = sectionNames[id]
	size := r.count("bytes of section", r.end, 1)
	if r.err != nil {
		return 0, reader{}, false
	}
	s = reader{data: r.data, pos: r.pos, end: r.pos + size, section: r.section}
	r.pos += size
	return id, s, true
}
