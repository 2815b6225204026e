package main

import (
	"math/bits"

	"assay/plugins/internal/brand"
)

// directory finds brands and sites: what a text spells from some place on, and what a word lies a few slips away from.
// It is filled when the guest starts, with counting sorts into arrays of the module's own memory: nothing is allocated.
type nameIndex struct {
	names          [maxNames]nameEntry
	skeletons      [maxSkeletonBytes]byte // all names as foldKey makes them, one after another
	count          int                    // of names, brands first
	brandCount     int
	prefixStarts   [prefixBuckets + 1]uint16
	brandsByPrefix [maxBrands]uint16 // names by how they begin: spelt[k] to spelt[k+1] are those of bucket k
	pieceStarts    [pieceBuckets + 1]uint16
	namesByPiece   [maxPieces]uint16 // names by their pieces, likewise
	// the slacks of the names of so many letters: bit 1 for slack 1
	limitsByLength [maxNameLetters + 1]uint8
	piecesByLength [maxNameLetters + 1][maxEditLimit + 1][maxEditLimit + 1]piece // of names of so many letters, by their slack
	powers         [powerCount]uint32                                            // of radix
	probes         [maxProbes]probe
	// aimed[first:end] are for words of so many letters
	probesByLength [maxNameLetters + maxEditLimit + 1]struct{ first, end uint16 }
	siteStarts     [maxSites]uint16 // where a site begins in brand.Sites
	owners         brand.Index
}

// named is what searching needs of a name.
type nameEntry struct {
	letterBits uint32 // one bit per letter of the fold, see letterSet
	offset     uint16 // directory.folds[at:][:length]
	length     uint8
	editLimit  uint8 // edits that still resemble the name; 0 for those that edits never resemble
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
	powerCount       = 64 // more than longestKey
	maxNameLetters   = 32 // of a fold
)

var index = buildIndex()

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

// cumulate turns counts, that of bucket k at k+1, into the ends of the buckets, which fill moves down to their
// beginnings.
func bucketEnds(ends []uint16) {
	for k := 1; k < len(ends); k++ {
		ends[k] += ends[k-1]
	}
	copy(ends, ends[1:])
}

func place(ends, members []uint16, bucket uint32, member int) {
	ends[bucket]--
	members[ends[bucket]] = uint16(member)
}

func (x *nameIndex) skeletonOf(name int) []byte {
	n := &x.names[name]
	return x.skeletons[n.offset:][:n.length]
}

// siteSlack is the tolerance of a site's label: less than a brand's, as nobody has looked at what is near it.
func siteEditLimit(letters int) int {
	if letters < 10 {
		return 1
	}
	return 2
}

// brand returns the brand of a name that search found. A site is one whose key is its label.
func (x *nameIndex) brand(name int) *brand.Brand {
	if name < x.brandCount {
		return brand.At(name)
	}
	return brand.SiteAt(int(x.siteStarts[name-x.brandCount]))
}

// spread mixes the bits of a hash into its upper ones.
const hashMultiplier = 0x9e3779b1

func prefixBucket(a, b, c byte) uint32 {
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * hashMultiplier >> (32 - prefixBits)
}

// A name that edits may resemble is cut into one piece more than there may be edits, a letter left out between any two:
// so an edit, be it two neighbours swapped, spoils one piece at most, and one is left whole in whatever resembles the
// name. It has moved no further than the edits on its shorter side can have moved it.

// cut is where a piece of a name begins, and its length.
type piece struct{ start, length uint8 }

// cutUp returns the pieces of a name of so many letters.
func splitName(letters, limit int) (pieces [maxEditLimit + 1]piece) {
	length := (letters - limit) / (limit + 1)
	longer := (letters - limit) % (limit + 1) // so many pieces have a letter more
	start := 0
	for j := range limit + 1 {
		n := length
		if j < longer {
			n++
		}
		pieces[j] = piece{uint8(start), uint8(n)}
		start += n + 1
	}
	return pieces
}

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

const radix = 0x01000193

func pieceSalt(letters, limit, j int) uint32 { return uint32(letters<<4|limit<<2|j) * 0x85ebca6b }

// sums holds the hashes of all beginnings of a text, from which that of any part follows.
type prefixHashes [maxLetters*2 + 1]uint32

func (s *prefixHashes) compute(text []byte) {
	h := uint32(0)
	for i, c := range text {
		h = h*radix + uint32(c)
		s[i+1] = h
	}
}

// probe is where in a word of a known length a piece of a name may lie.
type probe struct {
	start, length      uint8
	letters, editLimit uint8 // of the name
	salt               uint32
}

// aim fills the list of probes for words of every length.
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
						start += word - letters // told from the end
					}
					roam := 1 // the first and the last piece stay at their ends
					if j == 0 || j == limit {
						roam = 0
					}
					for p := max(start-roam, 0); p <= min(start+roam, word-int(c.length)); p++ {
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

// resembling calls visit with every name whose fold is text[from:to], of which s holds the sums, or may lie within its
// slack of it, some of them twice.
func (x *nameIndex) candidates(text []byte, s *prefixHashes, from, to int, visit func(name int)) {
	if to-from >= len(x.probesByLength) {
		return
	}
	span := x.probesByLength[to-from]
	set, counted := uint32(0), false
	heads := s[from:]
	for i := span.first; i < span.end; i++ {
		p := &x.probes[i]
		k := ((heads[p.start+p.length] - heads[p.start]*x.powers[p.length&(powerCount-1)]) ^ p.salt) * hashMultiplier >> (32 - pieceBits)
		next, last := x.pieceStarts[k], x.pieceStarts[k+1]
		if next == last {
			continue
		}
		if !counted {
			set, counted = letterBits(text[from:to]), true
		}
		for _, name := range x.namesByPiece[next:last] {
			c := &x.names[name]
			if c.length == p.letters && c.editLimit == p.editLimit && bits.OnesCount32(set^c.letterBits) <= 2*int(p.editLimit) {
				visit(int(name))
			}
		}
	}
}

// letterSet has one bit for each letter of s, and one for each residue of what is no letter. One edit changes at most
// two bits, so names too far from a word are skipped without aligning the two.
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
