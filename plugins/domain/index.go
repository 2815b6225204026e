package main

import (
	"math/bits"

	"assay/plugins/internal/brand"
)

const (
	prefixBits     = 13 // of buckets of brands by the first three letters of their skeletons
	halfBits       = 14 // of buckets of names by a half of their skeletons
	endBits        = 10 // of buckets of long names by the first and the last letter of their skeletons
	maxNameLetters = 32 // of a skeleton
)

// skeletonOf returns the skeleton of a name by its number.
func skeletonOf(name int) string {
	n := &index.names[name]
	return index.skeletons[n.offset:][:n.length]
}

// brandOf returns a brand or site by its number in nameEntry.of.
func brandOf(of int) *brand.Brand {
	if of < brand.Count() {
		return brand.At(of)
	}
	return brand.SiteAt(int(index.siteStarts[of-brand.Count()]))
}

// hashMultiplier is 2^32 divided by the golden ratio. Multiplying by it spreads a hash over the upper bits (Knuth, The
// Art of Computer Programming, volume 3, section 6.4).
const hashMultiplier = 0x9e3779b1

// prefixBucket returns the bucket of names whose skeletons begin with three letters: the first in the lowest byte of
// letters, the third in the third.
func prefixBucket(letters uint32) uint32 { return letters * hashMultiplier >> (32 - prefixBits) }

// Names with one edit are found by the pigeonhole principle: a name is split into two halves with one letter left out
// between them, so that one edit, even a transposition, changes only one of them. A text within one edit therefore
// begins with the first half or ends with the second. With more edits, the first and last letters must be the name's.

// firstHalf returns the length of the first half of a name with this many letters.
func firstHalf(letters int) int { return letters / 2 }

// halfBucket returns the bucket of the names with this many letters that have a half with this hash. second
// distinguishes the two halves.
func halfBucket(hash uint32, letters int, second uint32) uint32 {
	return (hash ^ (uint32(letters)<<1|second)*0x85ebca6b) * hashMultiplier >> (32 - halfBits)
}

// endBucket returns the bucket of long names that begin and end with these letters.
func endBucket(first, last byte) uint32 {
	return (uint32(first) | uint32(last)<<8) * hashMultiplier >> (32 - endBits)
}

// radix is the base of the polynomial hash of halves, the 32-bit FNV prime.
const radix = 0x01000193

// prefixHashes holds the polynomial hashes of all prefixes of a text, which give the hash of any part.
type prefixHashes [maxLetters*2 + 1]uint32

// compute sets s for text.
func (s *prefixHashes) compute(text []byte) {
	h := uint32(0)
	for i, c := range text {
		h = h*radix + uint32(c)
		s[i+1] = h
	}
}

// hash returns the hash of text[from:to].
func (s *prefixHashes) hash(from, to int) uint32 { return s[to] - s[from]*index.powers[to-from] }

// candidates appends to found the names that may be within their edit limit of text[from:to], including equal names. s
// holds the hashes of text. A name may be appended twice.
func candidates(text []byte, s *prefixHashes, from, to int, found []uint16) []uint16 {
	length := to - from
	if length > maxNameLetters {
		return found
	}
	set := letterBits(text[from:to])
	for letters := length - 1; letters <= min(length+1, maxNameLetters); letters++ {
		half := firstHalf(letters)
		rest := letters - 1 - half
		k := halfBucket(s.hash(from, from+half), letters, 0)
		found = appendClose(found, index.namesByHalf[index.halfStarts[k]:index.halfStarts[k+1]], set, letters, letters)
		k = halfBucket(s.hash(to-rest, to), letters, 1)
		found = appendClose(found, index.namesByHalf[index.halfStarts[k]:index.halfStarts[k+1]], set, letters, letters)
	}
	if length >= minLongName {
		k := endBucket(text[from], text[to-1])
		bucket := index.namesByEnds[index.endStarts[k]:index.endStarts[k+1]]
		found = appendClose(found, bucket, set, length-maxEditLimit, length+maxEditLimit)
	}
	return found
}

// minLongName is the least number of letters of a text that can be two edits from a name.
const minLongName = 6

// appendClose appends to found the names of bucket that have between shortest and longest letters, few of which are not
// in set.
func appendClose(found, bucket []uint16, set uint32, shortest, longest int) []uint16 {
	for _, name := range bucket {
		n := &index.names[name]
		if int(n.length) >= shortest && int(n.length) <= longest &&
			bits.OnesCount32(set^n.letterBits) <= 2*int(n.editLimit) && len(found) < cap(found) {
			found = append(found, name)
		}
	}
	return found
}

// letterBits returns the set of letters in s, with other bytes hashed to six further bits. One edit changes at most two
// bits, which rejects most candidates before their distance is computed.
func letterBits(s []byte) uint32 {
	var set uint32
	for _, c := range s {
		if c >= 'a' && c <= 'z' {
			set |= 1 << (c - 'a')
		} else {
			set |= 1 << (26 + c%6)
		}
	}
	return set
}
