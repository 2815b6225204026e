package ngram

import "math"

// Table holds learned weights: four bits for each slot, which select one of sixteen levels. It is split into pieces to
// keep the files of the repository small, and read in place, so that a guest has nothing to unpack.
type Table struct {
	pieces [Pieces]string
	levels [Levels]int32
}

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
func Open(head string, pieces ...string) (*Table, error) {
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
		t.pieces[i] = p
	}
	return t, nil
}

// Weight returns the weight of the feature with hash h, in units of Unit.
func (t *Table) Weight(h uint32) int32 {
	slot := Slot(h)
	b := t.pieces[slot>>(pieceBits+1)][slot>>1&(pieceBytes-1)]
	return t.levels[b>>(slot&1*4)&0xf]
}

// Sums are the weights of an address's features, in units of Unit.
type Sums struct {
	Parts [Parts]int32
	Bytes [maxName]int32 // the weights of the runs, each spread evenly over the bytes of the name that it covers
}

// Sum adds up the weights of a's features in one pass.
func (t *Table) Sum(a *Address, s *Sums) {
	name := a.Name
	last := len(name)
	total, open := int32(0), int32(0)
	var ends [maxName + 1]int32 // what ends before a byte
	for from := -1; from <= last; from++ {
		h, start := seedName, max(from, 0)
		if from > 0 {
			open -= ends[from]
		}
		for at := from; at <= last && at < from+longestRun; at++ {
			c := byte('^')
			if at == last {
				c = '$'
			} else if at >= 0 {
				c = name[at]
			}
			h = (h ^ uint32(c)) * prime
			w := t.Weight(h)
			if w == 0 {
				continue
			}
			total += w
			if end := min(at+1, last); end > start {
				share := w * shares[end-start] >> 8
				open += share
				ends[end] += share
			}
		}
		if from >= 0 && from < last {
			s.Bytes[from] = open
		}
	}
	s.Parts[Name] = total
	var list [maxOthers]uint32
	n, suffixAt := a.others(&list)
	for i := range n {
		w := t.Weight(list[i])
		if i < suffixAt {
			s.Parts[Shape] += w
		} else {
			s.Parts[Suffix] += w
		}
	}
}

// shares are 1/n in 256ths.
var shares = [longestRun + 1]int32{0, 256, 128, 85, 64, 51}
