package ngram

import (
	"math"
	"strconv"
)

// Table holds learned weights: four bits for each slot, which select one of sixteen levels. It is split into pieces to
// keep the files of the repository small, and read in place, so that a guest has nothing to unpack.
type Table struct {
	pieces []string
	each   uint32 // bytes in a piece
	slots  uint32
	levels [Levels]float32
	scale  float32
	offset float32
}

// Levels is the number of different weights in a table. The first is 0.
const Levels = 16

// Pieces is the number of files of a table.
const Pieces = 3

// magic is the start of the head. The digit is the version of the features: weights for another version are useless.
const magic = "assay.lexical/1\n"

// headBytes is the length of a head: magic, the number of slots, the levels, scale and offset, all little-endian.
const headBytes = len(magic) + 4 + 4*Levels + 4 + 4

// Head holds the parameters of a table.
type Head struct {
	Slots  uint32 // a multiple of 2*Pieces
	Levels [Levels]float32
	// Points of an address are Offset + Scale times the sum of its weights.
	Scale, Offset float32
}

// Encode returns the bytes of h, as [Open] reads them.
func (h Head) Encode() []byte {
	out := []byte(magic)
	word := func(w uint32) { out = append(out, byte(w), byte(w>>8), byte(w>>16), byte(w>>24)) }
	word(h.Slots)
	for _, l := range h.Levels {
		word(math.Float32bits(l))
	}
	word(math.Float32bits(h.Scale))
	word(math.Float32bits(h.Offset))
	return out
}

// FaultError is the reason why [Open] rejects a table. It does not use fmt, which would double the size of a guest.
type FaultError string

// Error returns the reason.
func (e FaultError) Error() string { return "opening the table of weights: " + string(e) }

// Open reads a table from its head and its pieces. Pieces have the same length and hold two slots a byte, the lower
// half first. An error is a [FaultError].
func Open(head string, pieces ...string) (*Table, error) {
	if len(head) != headBytes || head[:len(magic)] != magic {
		return nil, FaultError("the head is not one of " + magic[:len(magic)-1])
	}
	word := func(i int) uint32 {
		w := head[len(magic)+4*i:][:4]
		return uint32(w[0]) | uint32(w[1])<<8 | uint32(w[2])<<16 | uint32(w[3])<<24
	}
	t := &Table{pieces: pieces, slots: word(0)}
	for i := range t.levels {
		t.levels[i] = math.Float32frombits(word(1 + i))
	}
	t.scale, t.offset = math.Float32frombits(word(1+Levels)), math.Float32frombits(word(2+Levels))
	if t.slots == 0 || t.slots%(2*Pieces) != 0 || len(pieces) != Pieces {
		return nil, FaultError(strconv.Itoa(int(t.slots)) + " slots in " + strconv.Itoa(len(pieces)) + " pieces")
	}
	t.each = t.slots / (2 * Pieces)
	for i, p := range pieces {
		if len(p) != int(t.each) {
			return nil, FaultError("piece " + strconv.Itoa(i) + " has " + strconv.Itoa(len(p)) + " bytes, not " +
				strconv.Itoa(int(t.each)))
		}
	}
	for _, v := range append(t.levels[:], t.scale, t.offset) {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, FaultError("the head has a number that is NaN or infinite")
		}
	}
	return t, nil
}

// Slot maps the hash of a feature evenly to a slot, 0 to slots-1.
func Slot(hash, slots uint32) uint32 { return uint32(uint64(hash) * uint64(slots) >> 32) }

// Weight returns the weight of the feature with a hash, in the model's unit of log-odds that a name is reported.
func (t *Table) Weight(hash uint32) float32 {
	slot := Slot(hash, t.slots)
	at, piece := slot/2, 0
	for at >= t.each {
		at -= t.each
		piece++
	}
	b := t.pieces[piece][at]
	if slot&1 == 1 {
		b >>= 4
	}
	return t.levels[b&0xf]
}

// Points maps a sum of weights to the layer's points, neither limited to 0 to 100 nor rounded.
func (t *Table) Points(sum float32) float32 { return t.offset + float32(t.scale*sum) }
