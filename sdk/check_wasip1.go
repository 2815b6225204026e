//go:build wasip1

package sdk

import "unsafe"

//go:wasmimport assay fact
func hostFact(name unsafe.Pointer, nameLen uint32, buf unsafe.Pointer, bufCap uint32) int32

//go:wasmimport assay signal
func hostSignal(points int32, code unsafe.Pointer, codeLen uint32, text unsafe.Pointer, textLen uint32)

//go:wasmimport assay threat
func hostThreat(name unsafe.Pointer, nameLen uint32)

//go:wasmimport assay log
func hostLog(level int32, text unsafe.Pointer, textLen uint32)

// Register sets the layer that assay_v1_score runs. Call it once, from init; main stays empty.
func Register(layer Layer) {
	registered = layer
	warmUp()
	deepen()
}

// deepen uses more stack than layers do, so that the stack has already grown in the host's snapshot of the guest.
// Otherwise a call that outgrows Go's initial stack would cost tens of thousands of units of fuel.
//
//go:noinline
func deepen() byte {
	var frame [16 << 10]byte
	return frame[used]
}

// warmUp allocates an object of each small size, so that Go's allocator has free memory for each in the host's snapshot
// of the guest. Otherwise the first object of each size in every call would cost several thousand units of fuel.
func warmUp() {
	for size := 8; size <= 512; size += 8 {
		warm.bytes, warm.pointers = make([]byte, size), make([]*byte, size/8)
	}
	warm.bytes, warm.pointers = nil, nil
}

// warm makes warmUp's objects escape to the heap.
var warm struct {
	bytes    []byte
	pointers []*byte
}

// registered is the module's only layer. A guest has one thread, so this needs no lock.
var registered Layer

//go:wasmexport assay_v1_score
func score() int32 { return int32(registered(&Check{})) }

// Check is one call of a layer: the facts to read and the answer to build.
type Check struct{ _ [0]func() }

// room receives facts and joined texts, one after the other, because an allocation for each would cost more than
// everything else. Nothing in it is overwritten, because a layer may keep its strings. Once it is full, a new room
// replaces it.
var (
	room = &firstRoom
	used int // bytes of room

	firstRoom [roomBytes]byte
)

const roomBytes = 4096

func ptr[S ~string](s S) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(string(s))) }

// Fact returns the named fact and whether it is known. Facts that the manifest does not declare are never known.
func (c *Check) Fact(name TextFact) (value string, known bool) {
	n := int(hostFact(ptr(name), uint32(len(name)), unsafe.Add(unsafe.Pointer(room), used), uint32(roomBytes-used)))
	switch {
	case n < 0:
		return "", false
	case n >= roomBytes-used: // a pointer into the room must not reach its end
		return longFact(name, n), true
	}
	used += n
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(room), used-n)), n), true
}

// longFact returns a fact of n bytes, which do not fit into the rest of the room.
func longFact(name TextFact, n int) string {
	buf := take(n)
	hostFact(ptr(name), uint32(len(name)), unsafe.Pointer(&buf[0]), uint32(n))
	return unsafe.String(&buf[0], n)
}

// take returns n bytes of memory, usually in the room.
func take(n int) []byte {
	if n >= roomBytes-used {
		if n > roomBytes/4 {
			return make([]byte, n)
		}
		room, used = new([roomBytes]byte), 0
	}
	used += n
	return room[used-n : used]
}

// Has reports whether the named fact is known. In a guest it costs less than Fact.
func (c *Check) Has(name TextFact) bool {
	return hostFact(ptr(name), uint32(len(name)), nil, 0) >= 0
}

// Join returns the concatenated parts of a signal's text. In a guest it costs less than the operator +, which allocates
// memory.
func Join(parts ...string) string {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	text := take(n)
	rest := text
	for _, part := range parts {
		rest = rest[copy(rest, part):]
	}
	return unsafe.String(unsafe.SliceData(text), n)
}

// Signal adds one reason: points from -100 (reassuring) to 100 (alarming), a code that the manifest declares, and a
// sentence that names the evidence. The layer's score is the sum of its points, limited to the manifest's score_range.
// The caller may overwrite text after the call.
func (c *Check) Signal(points int, code, text string) {
	points = min(max(points, -1<<31), 1<<31-1) // truncating to int32 could otherwise make it valid
	hostSignal(int32(points), ptr(code), uint32(len(code)), ptr(text), uint32(len(text)))
}

// Threat names the category of fraud that this layer found. The last call counts.
func (c *Check) Threat(t Threat) { hostThreat(ptr(t), uint32(len(t))) }

// Log writes a line for the layer's author, up to LogBytes a call. Customers never see it.
func (c *Check) Log(level Level, text string) { hostLog(int32(level), ptr(text), uint32(len(text))) }
