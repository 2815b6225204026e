package main

import (
	"math/bits"

	"assay/plugins/internal/brand"
)

// nameIndex finds the names of brands and sites in a text, exactly or within their edit limits. Guests start often, so
// it is built with counting sorts into arrays of fixed size, without further allocations.
type nameIndex struct {
	names      [maxNames]nameEntry // brands in the order of package brand, then sites
	count      int                 // of names
	brandCount int
	skeletons  [maxSkeletonBytes]byte // of all names, concatenated
	siteStarts [maxSites]uint16       // offsets in brand.Sites
	owners     brand.Index

	// Brands by the first three letters of their skeletons. Bucket k is
	// brandsByPrefix[prefixStarts[k]:prefixStarts[k+1]].
	prefixStarts   [prefixBuckets + 1]uint16
	brandsByPrefix [maxBrands]uint16

	// Names by the pieces of their skeletons. Bucket k is namesByPiece[pieceStarts[k]:pieceStarts[k+1]].
	pieceStarts    [pieceBuckets + 1]uint16
	namesByPiece   [maxPieces]uint16
	limitsByLength [maxNameLetters + 1]uint8 // bit n: a name of this length has the edit limit n
	piecesByLength [maxNameLetters + 1][maxEditLimit + 1]pieces
	powers         [powerCount]uint32 // of radix

	// For words of each length, probes[first:end] are the places to look pieces up.
	probesByLength [maxNameLetters + maxEditLimit + 1]struct{ first, end uint16 }
	probes         [maxProbes]probe
}

// nameEntry describes the skeleton of a name.
type nameEntry struct {
	letterBits uint32 // see letterBits
	offset     uint16 // nameIndex.skeletons[offset:][:length]
	length     uint8
	editLimit  uint8 // 0 if only equal skeletons match
}

const (
	maxBrands        = 760
	maxSites         = 800
	maxNames         = maxBrands + maxSites
	maxSkeletonBytes = 10 * maxNames
	maxPieces        = 3 * maxNames
	prefixBits       = 11
	prefixBuckets    = 1 << prefixBits
	pieceBits        = 13
	pieceBuckets     = 1 << pieceBits
	maxProbes        = 2000
	powerCount       = 64 // a power of two greater than maxNameLetters
	maxNameLetters   = 32 // of a skeleton
)

var index = buildIndex()

// buildIndex indexes all brands and sites.
func buildIndex() *nameIndex {
	x := new(nameIndex)
	x.powers[0] = 1
	for i := range powerCount - 1 {
		x.powers[i+1] = x.powers[i] * radix
	}
	used := 0
	add := func(key string, limit int) {
		var s skeleton
		readSkeleton(key, &s)
		copy(x.skeletons[used:], s.text[:s.n])
		x.names[x.count] = nameEntry{letterBits(s.text[:s.n]), uint16(used), uint8(s.n), uint8(limit)}
		used += s.n
		x.count++
	}
	for i := range brand.Count() {
		b := brand.At(i)
		edits := 0
		if b.Kind() != brand.Short {
			edits = keyEditLimit(b.Key)
		}
		add(b.Key, edits)
	}
	x.brandCount = x.count
	for start := 0; start < len(brand.Sites); {
		x.siteStarts[x.count-x.brandCount] = uint16(start)
		var label string
		label, start = brand.NextSite(start)
		add(label, siteEditLimit(len(label)))
	}
	for i := range x.brandCount {
		f := x.skeletonOf(i)
		x.prefixStarts[prefixBucket(f[0], f[1], f[2])+1]++
	}
	for i := range x.count {
		n := &x.names[i]
		if have := &x.limitsByLength[n.length]; *have&(1<<n.editLimit) == 0 {
			*have |= 1 << n.editLimit
			x.piecesByLength[n.length][n.editLimit] = splitName(int(n.length), int(n.editLimit))
		}
		x.eachPieceBucket(i, func(bucket uint32) { x.pieceStarts[bucket+1]++ })
	}
	bucketEnds(x.prefixStarts[:])
	bucketEnds(x.pieceStarts[:])
	for i := x.brandCount - 1; i >= 0; i-- {
		f := x.skeletonOf(i)
		place(x.prefixStarts[:], x.brandsByPrefix[:], prefixBucket(f[0], f[1], f[2]), i)
	}
	for i := x.count - 1; i >= 0; i-- {
		x.eachPieceBucket(i, func(bucket uint32) { place(x.pieceStarts[:], x.namesByPiece[:], bucket, i) })
	}
	x.buildProbes()
	x.owners.Fill()
	return x
}

// bucketEnds turns counts, with the count of bucket k at k+1, into the ends of the buckets. place then moves each end
// down to the start.
func bucketEnds(ends []uint16) {
	for k := 1; k < len(ends); k++ {
		ends[k] += ends[k-1]
	}
	copy(ends, ends[1:])
}

// place adds member to the front of a bucket.
func place(ends, members []uint16, bucket uint32, member int) {
	ends[bucket]--
	members[ends[bucket]] = uint16(member)
}

// skeletonOf returns the skeleton of a name by its number.
func (x *nameIndex) skeletonOf(name int) []byte {
	n := &x.names[name]
	return x.skeletons[n.offset:][:n.length]
}

// siteEditLimit returns the edit limit of a site's label. It is lower than that of a brand, because ordinaryWords does
// not cover the neighbours of sites.
func siteEditLimit(letters int) int {
	if letters < 10 {
		return 1
	}
	return 2
}

// brand returns a brand or site by the number of its name.
func (x *nameIndex) brand(name int) *brand.Brand {
	if name < x.brandCount {
		return brand.At(name)
	}
	return brand.SiteAt(int(x.siteStarts[name-x.brandCount]))
}

// hashMultiplier is 2^32 divided by the golden ratio. Multiplying by it spreads a hash over the upper bits (Knuth, The
// Art of Computer Programming, volume 3, section 6.4).
const hashMultiplier = 0x9e3779b1

// prefixBucket returns the bucket of names whose skeletons begin with a, b and c.
func prefixBucket(a, b, c byte) uint32 {
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * hashMultiplier >> (32 - prefixBits)
}

// Misspellings are found by the pigeonhole principle. A name with an edit limit of k is split into k+1 pieces, with one
// letter left out between neighbouring pieces, so that each edit, even a transposition, changes at most one piece.
// Every text within the limit therefore contains a piece unchanged, shifted by no more than the edits on its shorter
// side allow.

// piece is a part of a name.
type piece struct{ start, length uint8 }

// pieces are the limit+1 pieces of a name.
type pieces [maxEditLimit + 1]piece

// splitName returns the pieces of a name with the given number of letters.
func splitName(letters, limit int) (split pieces) {
	length := (letters - limit) / (limit + 1)
	longer := (letters - limit) % (limit + 1) // number of pieces with one more letter
	start := 0
	for j := range limit + 1 {
		n := length
		if j < longer {
			n++
		}
		split[j] = piece{uint8(start), uint8(n)}
		start += n + 1
	}
	return split
}

// eachPieceBucket calls visit with the bucket of each piece of a name.
func (x *nameIndex) eachPieceBucket(name int, visit func(bucket uint32)) {
	limit := int(x.names[name].editLimit)
	if limit == 0 {
		return
	}
	skeleton := x.skeletonOf(name)
	for j, c := range x.piecesByLength[len(skeleton)][limit][:limit+1] {
		var h uint32
		for _, letter := range skeleton[c.start : c.start+c.length] {
			h = h*radix + uint32(letter)
		}
		visit((h ^ pieceSalt(len(skeleton), limit, j)) * hashMultiplier >> (32 - pieceBits))
	}
}

// radix is the base of the polynomial hash of pieces, the 32-bit FNV prime.
const radix = 0x01000193

// pieceSalt separates the hashes of pieces by their names' length and limit and by their position j.
func pieceSalt(letters, limit, j int) uint32 { return uint32(letters<<4|limit<<2|j) * 0x85ebca6b }

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

// probe is a place in a word of a given length where a piece of a name may occur.
type probe struct {
	start, length      uint8
	letters, editLimit uint8 // of the name
	salt               uint32
}

// buildProbes lists the probes for words of each length.
func (x *nameIndex) buildProbes() {
	n := 0
	for word := range x.probesByLength {
		x.probesByLength[word].first = uint16(n)
		for letters := max(word-maxEditLimit, 0); letters <= min(word+maxEditLimit, maxNameLetters); letters++ {
			for limit := max(letters-word, word-letters, 1); limit <= maxEditLimit; limit++ {
				if x.limitsByLength[letters]&(1<<limit) == 0 {
					continue
				}
				for j, c := range x.piecesByLength[letters][limit][:limit+1] {
					start := int(c.start)
					if 2*j > limit {
						start += word - letters // closer to the end of the name
					}
					shift := 1
					if j == 0 || j == limit {
						shift = 0 // no edits on the outer side
					}
					for p := max(start-shift, 0); p <= min(start+shift, word-int(c.length)); p++ {
						x.probes[n] = probe{uint8(p), c.length, uint8(letters), uint8(limit),
							pieceSalt(letters, limit, j)}
						n++
					}
				}
			}
		}
		x.probesByLength[word].end = uint16(n)
	}
}

// candidates calls visit with every name that may be within its edit limit of text[from:to], including equal names. s
// holds the hashes of text. A name may be visited twice.
func (x *nameIndex) candidates(text []byte, s *prefixHashes, from, to int, visit func(name int)) {
	if to-from >= len(x.probesByLength) {
		return
	}
	span := x.probesByLength[to-from]
	set, counted := uint32(0), false
	heads := s[from:]
	for i := span.first; i < span.end; i++ {
		p := &x.probes[i]
		hash := heads[p.start+p.length] - heads[p.start]*x.powers[p.length&(powerCount-1)]
		k := (hash ^ p.salt) * hashMultiplier >> (32 - pieceBits)
		next, last := x.pieceStarts[k], x.pieceStarts[k+1]
		if next == last {
			continue
		}
		if !counted {
			set, counted = letterBits(text[from:to]), true
		}
		for _, name := range x.namesByPiece[next:last] {
			n := &x.names[name]
			if n.length == p.letters && n.editLimit == p.editLimit &&
				bits.OnesCount32(set^n.letterBits) <= 2*int(p.editLimit) {
				visit(int(name))
			}
		}
	}
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
