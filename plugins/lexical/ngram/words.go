package ngram

import "encoding/binary"

// Words is a vocabulary with the cost of each word, in sixteenths of the negative natural logarithm of its share. It is
// a hash table that is read in place, so that a guest has nothing to unpack. It holds fingerprints, not words.
type Words struct {
	entries []byte // four bytes each, in little-endian order: a fingerprint of 24 bits and the cost; 0 is free
	shift   uint
}

// The dimensions of a vocabulary.
const (
	WordBits    = 15 // of the layer's table
	MinWord     = 2  // letters of a word
	MaxWord     = 14
	unknownCost = 12 * 16 // of a letter that no word covers
)

// OpenWords reads a vocabulary of 1<<bits entries. An error is a [FaultError].
func OpenWords(data []byte, bits int) (*Words, error) {
	if len(data) != 4<<bits {
		return nil, FaultError("the vocabulary has the wrong length")
	}
	return &Words{data, uint(32 - bits)}, nil
}

// EncodeWords returns the table of a vocabulary, which must leave at least a quarter of 1<<bits entries free. Costs are
// from 1 to 255. If two words have the same fingerprint in the same place, the first one stays.
func EncodeWords(words []string, costs []uint8, bits int) []byte {
	table := make([]byte, 4<<bits)
	for i, word := range words {
		h := text(seedWord, word) & (1<<32 - 1)
		at := slotOf(h, uint(32-bits))
		for ; binary.LittleEndian.Uint32(table[4*at:]) != 0; at = (at + 1) & (1<<bits - 1) {
			if binary.LittleEndian.Uint32(table[4*at:])>>8 == uint32(h)&0xffffff {
				break
			}
		}
		if entry := table[4*at:][:4]; binary.LittleEndian.Uint32(entry) == 0 {
			binary.LittleEndian.PutUint32(entry, uint32(h)<<8|uint32(costs[i]))
		}
	}
	return table
}

// slotOf spreads the bits of a hash (Fibonacci hashing).
func slotOf(h uint64, shift uint) uint64 { return h * spread & (1<<32 - 1) >> shift }

// cost returns the cost of the word with hash h, or 0 if there is none.
func (w *Words) cost(h uint64) int32 {
	at := slotOf(h, w.shift) * 4
	for {
		entry := binary.LittleEndian.Uint32(w.entries[at:])
		if entry == 0 {
			return 0
		}
		if entry>>8 == uint32(h)&0xffffff {
			return int32(entry & 0xff)
		}
		at = (at + 4) & uint64(len(w.entries)-1)
	}
}

// Segments is a name cut into words. It is large for a guest's stack.
type Segments struct {
	cost [maxName + 1]int32 // of the cheapest cut before a letter
	from [maxName + 1]uint8 // where the last word of that cut starts
	ends [maxName + 1]uint8
}

// Cost returns the mean cost of a letter of a run, in sixteenths of a nat. It is high for letters in an order that
// words rarely have.
func (w *Words) Cost(letters string, s *Segments) int {
	w.Segment(letters, s)
	n := min(len(letters), maxName)
	return int(s.cost[n]) / max(n, 1)
}

// Segment cuts a run of at most maxName letters into the words with the smallest sum of costs, and returns where each
// ends. A part of one letter is not a word: no word covers that letter. The slice aliases s.
func (w *Words) Segment(letters string, s *Segments) []uint8 {
	n := min(len(letters), maxName)
	s.cost[0] = 0
	for i := 1; i <= n; i++ {
		s.cost[i] = 1 << 30
	}
	for i := range n {
		before := s.cost[i]
		if c := before + unknownCost; c < s.cost[i+1] {
			s.cost[i+1], s.from[i+1] = c, uint8(i)
		}
		h := step(seedWord, letters[i])
		for end := i + 1; end < n && end < i+MaxWord; end++ {
			h = step(h, letters[end])
			if c := w.cost(h & (1<<32 - 1)); c > 0 && before+c < s.cost[end+1] {
				s.cost[end+1], s.from[end+1] = before+c, uint8(i)
			}
		}
	}
	at := len(s.ends)
	for end := uint8(n); end > 0; end = s.from[end] {
		at--
		s.ends[at] = end
	}
	return s.ends[at:]
}
