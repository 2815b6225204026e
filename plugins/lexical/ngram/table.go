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

	// Bar is the number of points from which a name may be blocked.
	Bar int
}

// The dimensions of a table.
const (
	Pieces = 2 // files of a table

	slotBits   = 19
	Slots      = 1 << slotBits
	pieceSlots = Slots / Pieces

	// Unit is the number of units in a point. Sums are in units.
	Unit = 1024
)

// magic is the start of the head. The digit is the version of the features: weights for another version are useless.
const magic = "assay.lexical/4\n"

// Head describes a table.
type Head struct {
	Points float64 // of a weight of 1
	Bias   float64 // the points of every name
	Bar    float64 // the points from which a name may be blocked, an integer
}

// Encode returns the head's file: magic, and the numbers as the bits of float64s in little-endian order.
func (h Head) Encode() []byte {
	file := []byte(magic)
	for _, number := range [...]float64{h.Points, h.Bias, h.Bar} {
		file = binary.LittleEndian.AppendUint64(file, math.Float64bits(number))
	}
	return file
}

// FaultError is the reason why [Open] rejects a table. It does not use fmt, which would double the size of a guest.
type FaultError string

// Error returns the reason.
func (e FaultError) Error() string { return "opening the table of weights: " + string(e) }

// OpenHead parses the result of Encode. An error is a [FaultError].
func OpenHead(file string) (h Head, err error) {
	if len(file) != len(magic)+24 || file[:len(magic)] != magic {
		return h, FaultError("the head is not one of " + magic[:len(magic)-1])
	}
	numbers := []byte(file[len(magic):])
	for i, number := range [...]*float64{&h.Points, &h.Bias, &h.Bar} {
		*number = math.Float64frombits(binary.LittleEndian.Uint64(numbers[8*i:]))
	}
	if !(h.Points > 0 && h.Points < 1<<10 && math.Abs(h.Bias) < 1<<10 && h.Bar > 0 && h.Bar <= 1<<10) {
		return h, FaultError("a number of the head is out of range")
	}
	return h, nil
}

// Open reads a table from its head and its pieces. An error is a [FaultError].
func Open(head string, pieces ...[]byte) (*Table, error) {
	h, err := OpenHead(head)
	if err != nil {
		return nil, err
	}
	if len(pieces) != Pieces {
		return nil, FaultError("a piece is missing")
	}
	t := &Table{scale: Unit * h.Points, bias: int(math.Round(Unit * h.Bias)), Bar: int(h.Bar)}
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
