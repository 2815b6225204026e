package ngram

import (
	"encoding/binary"
	"math"
)

// Table holds learned weights, a signed byte for each slot. It is split into pieces to keep the files of the repository
// small, and read in place, so that a guest has nothing to unpack.
type Table struct {
	pieces [Pieces][]byte
	scale  float64 // of a weight of 1, in Unit
	bias   int     // in Unit
}

// The dimensions of a table.
const (
	Pieces = 2 // files of a table

	slotBits   = 19
	Slots      = 1 << slotBits
	pieceSlots = Slots / Pieces

	// Unit is the part of a point that sums are in.
	Unit = 1024
)

// magic is the start of the head. The digit is the version of the features: weights for another version are useless.
const magic = "assay.lexical/3\n"

// EncodeHead returns the head of a table: magic, the points of a weight of 1, and those of every name, as the bits of
// float64s in little-endian order.
func EncodeHead(points, bias float64) []byte {
	head := binary.LittleEndian.AppendUint64([]byte(magic), math.Float64bits(points))
	return binary.LittleEndian.AppendUint64(head, math.Float64bits(bias))
}

// FaultError is the reason why [Open] rejects a table. It does not use fmt, which would double the size of a guest.
type FaultError string

// Error returns the reason.
func (e FaultError) Error() string { return "opening the table of weights: " + string(e) }

// Open reads a table from its head and its pieces. An error is a [FaultError].
func Open(head string, pieces ...[]byte) (*Table, error) {
	if len(head) != len(magic)+16 || head[:len(magic)] != magic {
		return nil, FaultError("the head is not one of " + magic[:len(magic)-1])
	}
	if len(pieces) != Pieces {
		return nil, FaultError("a piece is missing")
	}
	t := new(Table)
	numbers := []byte(head[len(magic):])
	t.scale = Unit * math.Float64frombits(binary.LittleEndian.Uint64(numbers))
	bias := math.Float64frombits(binary.LittleEndian.Uint64(numbers[8:]))
	if !(t.scale > 0 && t.scale < 1<<20 && math.Abs(bias) < 1<<10) {
		return nil, FaultError("the scale or the bias is out of range")
	}
	t.bias = int(math.Round(Unit * bias))
	for i, p := range pieces {
		if len(p) != pieceSlots {
			return nil, FaultError("a piece has the wrong length")
		}
		t.pieces[i] = p
	}
	return t, nil
}

// Weight returns the weight of the feature with hash h.
func (t *Table) Weight(h uint32) int32 {
	slot := Slot(h)
	return int32(int8(t.pieces[slot/pieceSlots][slot%pieceSlots]))
}

// Sums are the weights of an address's features.
type Sums struct {
	Parts [Parts]int // in Unit
	Bias  int        // in Unit
	// Bytes holds the weights of the features about each byte of the name, in any unit.
	Bytes [maxName]int32
}

// Sum adds up the weights of an address's features. Every sum is divided by the square root of the number of features,
// so that long names do not get higher ones.
func (t *Table) Sum(features []Feature, s *Sums) {
	*s = Sums{Bias: t.bias}
	var parts [Parts]int32
	for i := range features {
		f := &features[i]
		w := t.Weight(f.Hash)
		parts[f.Part] += w
		if f.To > f.From {
			w = w * 16 / int32(f.To-f.From)
			for at := f.From; at < f.To; at++ {
				s.Bytes[at] += w
			}
		}
	}
	scale := t.scale / math.Sqrt(float64(max(len(features), 1)))
	for i, p := range parts {
		s.Parts[i] = int(math.Round(float64(p) * scale))
	}
}
