// Package fingerprint stores a set of names as 40-bit hashes, in a file that is read in place. A layer has nothing to
// build when it starts, and nobody can read the names from the file.
package fingerprint

import (
	"encoding/binary"
	"slices"
)

// Set is the content of a file: for each bucket the number of entries before it, then the number of all entries, 2
// bytes each; then the entries in order, 4 bytes each: the hash without its bucket, and a number from 1 to MaxNumber.
type Set string

// MaxNumber is the highest number that a set stores with a name.
const MaxNumber = 1<<numberBits - 1

const (
	hashBits   = 40
	entryBytes = 4
	numberBits = 3
	restBits   = 8*entryBytes - numberBits  // of the hash, in an entry
	buckets    = 1 << (hashBits - restBits) // by the first bits of the hash
	head       = 2 * (buckets + 1)
)

// Of returns the fingerprint of a name: the first bits of its 64-bit FNV-1a hash, mixed by the finaliser of
// MurmurHash3.
func Of(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return (h ^ h>>33) >> (64 - hashBits)
}

// Find returns the number of a name, or 0 if the set does not have it. If the set has 40,000 names, it is wrong about
// one in 25 million other names.
func (s Set) Find(name string) int {
	if len(s) < head {
		return 0
	}
	h := Of(name)
	rest, at := h&(1<<restBits-1), 2*int(h>>restBits)
	for i := s.number(at, 2); i < s.number(at+2, 2); i++ {
		if entry := s.number(head+entryBytes*i, entryBytes); uint64(entry>>numberBits) == rest {
			return entry & MaxNumber
		}
	}
	return 0
}

// Len returns the number of entries.
func (s Set) Len() int { return s.number(head-2, 2) }

// number reads a number of this many bytes, the lowest first.
func (s Set) number(at, bytes int) (n int) {
	for i := range bytes {
		n |= int(s[at+i]) << (8 * i)
	}
	return n
}

// Encode returns the set of names with these fingerprints and numbers. There must be fewer than 65,536.
func Encode(numbers map[uint64]int) Set {
	prints := make([]uint64, 0, len(numbers))
	for h := range numbers {
		prints = append(prints, h)
	}
	slices.Sort(prints)
	file := make([]byte, head, head+entryBytes*len(prints))
	next := 0
	for b := range buckets + 1 {
		for next < len(prints) && int(prints[next]>>restBits) < b {
			next++
		}
		file[2*b], file[2*b+1] = byte(next), byte(next>>8)
	}
	for _, h := range prints {
		entry := uint32(h&(1<<restBits-1)<<numberBits) | uint32(min(max(numbers[h], 1), MaxNumber))
		file = binary.LittleEndian.AppendUint32(file, entry)
	}
	return Set(file)
}
