package ngram

import (
	"math"
	"unsafe"
)

// Table holds learned weights: four bits for each slot, which select one of sixteen levels. It is split into pieces to
// keep the files of the repository small, and read in place, so that a guest has nothing to unpack.
type Table struct {
	pieces [Pieces]unsafe.Pointer // to pieceBytes bytes each
	levels [Levels]int32
}

// The dimensions of a table.
const (
	Levels = 16 // different weights in a table; the first is 0
	Pieces = 2  // files of a table

	slotBits   = 20
	Slots      = 1 << slotBits
	pieceBits  = slotBits - 2 // slots are two a byte, in two pieces
	pieceBytes = 1 << pieceBits

	// Unit is the weight that is worth a point.
	Unit = 1024
)

// magic is the start of the head. The digit is the version of the features: weights for another version are useless.
const magic = "assay.lexical/2\n"

// EncodeLevels returns the head of a table: magic and the levels, in little-endian order.
func EncodeLevels(levels [Levels]int32) []byte {
	out := []byte(magic)
	for _, l := range levels {
		w := uint32(l)
		out = append(out, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return out
}

// FaultError is the reason why [Open] rejects a table. It does not use fmt, which would double the size of a guest.
type FaultError string

// Error returns the reason.
func (e FaultError) Error() string { return "opening the table of weights: " + string(e) }

// Open reads a table from its head and its pieces, which hold two slots a byte, the lower half first. An error is a
// [FaultError].
func Open(head string, pieces ...[]byte) (*Table, error) {
	if len(head) != len(magic)+4*Levels || head[:len(magic)] != magic {
		return nil, FaultError("the head is not one of " + magic[:len(magic)-1])
	}
	if len(pieces) != Pieces {
		return nil, FaultError("a piece is missing")
	}
	t := new(Table)
	for i := range t.levels {
		w := head[len(magic)+4*i:][:4]
		t.levels[i] = int32(uint32(w[0]) | uint32(w[1])<<8 | uint32(w[2])<<16 | uint32(w[3])<<24)
		if t.levels[i] == math.MinInt32 {
			return nil, FaultError("a level is too low")
		}
	}
	for i, p := range pieces {
		if len(p) != pieceBytes {
			return nil, FaultError("a piece has the wrong length")
		}
		t.pieces[i] = unsafe.Pointer(unsafe.SliceData(p))
	}
	return t, nil
}

// Weight returns the weight of the feature with hash h, in units of Unit. It reads without the checks of an index,
// which no hash can fail, because a guest looks up a hundred weights for a name.
func (t *Table) Weight(h uint64) int32 {
	h *= spread // see Slot: the piece is bit 31, the byte the bits below it, and bit 12 the half of the byte
	pair := *(*byte)(unsafe.Add(t.pieces[h>>31&1], h>>(32-slotBits+1)&(pieceBytes-1)))
	return t.levels[pair>>(h>>(32-slotBits-2)&4)&0xf]
}

// Sums are the weights of an address's features, in units of Unit. It is large, for a guest's stack.
type Sums struct {
	Parts [Parts]int32
	// Bytes holds the weights of the runs whose middle is a byte of the name, after those of the mark of its start.
	Bytes [byteRoom]int32

	text   [maxName + 2]byte // the name with the marks of its start and end
	others [maxOthers]uint64
}

const byteRoom = 128 // a power of two above maxName+2, so that an index needs no check

// Sum adds up the weights of a's features in one pass.
func (t *Table) Sum(a *Address, s *Sums) {
	last := len(a.Name)
	s.text[0] = '^'
	copy(s.text[1:], a.Name)
	s.text[last+1] = '$'
	text := s.text[:last+2]
	clear(s.Bytes[:])
	total, from := int32(0), 0
	here, next := int32(0), int32(0) // of runs before from, for the bytes at from and after it
	for ; from+longestRun <= len(text); from++ {
		h := (seedName ^ uint64(text[from])) * prime
		w := t.Weight(h)
		h = (h ^ uint64(text[from+1])) * prime
		w += t.Weight(h)
		total += w
		s.Bytes[from&(byteRoom-1)] = here + w
		h = (h ^ uint64(text[from+2])) * prime
		w = t.Weight(h)
		h = (h ^ uint64(text[from+3])) * prime
		w += t.Weight(h)
		total += w
		here = next + w
		next = t.Weight((h ^ uint64(text[from+4])) * prime)
		total += next
	}
	s.Bytes[from&(byteRoom-1)], s.Bytes[(from+1)&(byteRoom-1)] = here, next
	for ; from < len(text); from++ { // shorter runs at the end
		h := seedName
		for n, c := range text[from:] {
			h = (h ^ uint64(c)) * prime
			w := t.Weight(h)
			total += w
			s.Bytes[(from+n>>1)&(byteRoom-1)] += w
		}
	}
	n, suffixAt := a.others(&s.others)
	s.Parts = [Parts]int32{Name: total}
	for i, h := range s.others[:n] {
		if i < suffixAt {
			s.Parts[Shape] += t.Weight(h)
		} else {
			s.Parts[Suffix] += t.Weight(h)
		}
	}
}
