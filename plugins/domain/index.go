package main

import (
	"math/bits"

	"assay/plugins/internal/brand"
)

// directory finds brands and sites: what a text spells from some place on, and what a word lies a few slips away from.
// It is filled when the guest starts, with counting sorts into arrays of the module's own memory: nothing is allocated.
type directory struct {
	names      [maxNames]named
	folds      [maxFolds]byte // all names as foldKey makes them, one after another
	count      int            // of names, brands first
	brandCount int
	spelt      [speltBuckets + 1]uint16
	brands     [maxBrands]uint16 // names by how they begin: spelt[k] to spelt[k+1] are those of bucket k
	pieced     [pieceBuckets + 1]uint16
	pieces     [maxPieces]uint16 // names by their pieces, likewise
	// the slacks of the names of so many letters: bit 1 for slack 1
	lengths [longestKey + 1]uint8
	cuts    [longestKey + 1][maxSlack + 1][maxSlack + 1]cut // of names of so many letters, by their slack
	powers  [powersKept]uint32                              // of radix
	aimed   [maxProbes]probe
	// aimed[first:end] are for words of so many letters
	probes [longestKey + maxSlack + 1]struct{ first, end uint16 }
	sites  [maxSites]uint16 // where a site begins in brand.Sites
	owners brand.Index
}

// named is what searching needs of a name.
type named struct {
	letters uint32 // one bit per letter of the fold, see letterSet
	at      uint16 // directory.folds[at:][:length]
	length  uint8
	slack   uint8 // edits that still resemble the name; 0 for those that edits never resemble
}

const (
	maxBrands    = 760
	maxSites     = 800
	maxNames     = maxBrands + maxSites
	maxFolds     = 10 * maxNames
	maxPieces    = 3 * maxNames
	speltBits    = 11
	speltBuckets = 1 << speltBits
	pieceBits    = 13
	pieceBuckets = 1 << pieceBits
	maxProbes    = 2000
	powersKept   = 64 // more than longestKey
	longestKey   = 32 // of a fold
)

var known = bind()

func bind() *directory {
	d := new(directory)
	d.powers[0] = 1
	for i := range powersKept - 1 {
		d.powers[i+1] = d.powers[i] * radix
	}
	used := 0
	add := func(key string, slack int) {
		var f folded
		fold(key, &f)
		copy(d.folds[used:], f.text[:f.n])
		d.names[d.count] = named{letterSet(f.text[:f.n]), uint16(used), uint8(f.n), uint8(slack)}
		used += f.n
		d.count++
	}
	for i := range brand.Count() {
		b := brand.At(i)
		edits := 0
		if b.Kind() != brand.Short {
			edits = slack(b.Key)
		}
		add(b.Key, edits)
	}
	d.brandCount = d.count
	for start := 0; start < len(brand.Sites); {
		d.sites[d.count-d.brandCount] = uint16(start)
		var label string
		label, start = brand.NextSite(start)
		add(label, siteSlack(len(label)))
	}
	for i := range d.brandCount {
		f := d.foldOf(i)
		d.spelt[speltBucket(f[0], f[1], f[2])+1]++
	}
	for i := range d.count {
		n := &d.names[i]
		if have := &d.lengths[n.length]; *have&(1<<n.slack) == 0 {
			*have |= 1 << n.slack
			d.cuts[n.length][n.slack] = cutUp(int(n.length), int(n.slack))
		}
		d.eachPiece(i, func(bucket uint32) { d.pieced[bucket+1]++ })
	}
	cumulate(d.spelt[:])
	cumulate(d.pieced[:])
	for i := d.brandCount - 1; i >= 0; i-- {
		f := d.foldOf(i)
		fill(d.spelt[:], d.brands[:], speltBucket(f[0], f[1], f[2]), i)
	}
	for i := d.count - 1; i >= 0; i-- {
		d.eachPiece(i, func(bucket uint32) { fill(d.pieced[:], d.pieces[:], bucket, i) })
	}
	d.aim()
	d.owners.Bind()
	return d
}

// cumulate turns counts, that of bucket k at k+1, into the ends of the buckets, which fill moves down to their
// beginnings.
func cumulate(ends []uint16) {
	for k := 1; k < len(ends); k++ {
		ends[k] += ends[k-1]
	}
	copy(ends, ends[1:])
}

func fill(ends, members []uint16, bucket uint32, member int) {
	ends[bucket]--
	members[ends[bucket]] = uint16(member)
}

func (d *directory) foldOf(name int) []byte {
	n := &d.names[name]
	return d.folds[n.at:][:n.length]
}

// siteSlack is the tolerance of a site's label: less than a brand's, as nobody has looked at what is near it.
func siteSlack(letters int) int {
	if letters < 10 {
		return 1
	}
	return 2
}

// brand returns the brand of a name that search found. A site is one whose key is its label.
func (d *directory) brand(name int) *brand.Brand {
	if name < d.brandCount {
		return brand.At(name)
	}
	return brand.SiteAt(int(d.sites[name-d.brandCount]))
}

// spread mixes the bits of a hash into its upper ones.
const spread = 0x9e3779b1

func speltBucket(a, b, c byte) uint32 {
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * spread >> (32 - speltBits)
}

// A name that edits may resemble is cut into one piece more than there may be edits, a letter left out between any two:
// so an edit, be it two neighbours swapped, spoils one piece at most, and one is left whole in whatever resembles the
// name. It has moved no further than the edits on its shorter side can have moved it.

// cut is where a piece of a name begins, and its length.
type cut struct{ start, length uint8 }

// cutUp returns the pieces of a name of so many letters.
func cutUp(letters, slack int) (pieces [maxSlack + 1]cut) {
	length := (letters - slack) / (slack + 1)
	longer := (letters - slack) % (slack + 1) // so many pieces have a letter more
	start := 0
	for j := range slack + 1 {
		n := length
		if j < longer {
			n++
		}
		pieces[j] = cut{uint8(start), uint8(n)}
		start += n + 1
	}
	return pieces
}

func (d *directory) eachPiece(name int, visit func(bucket uint32)) {
	slack := int(d.names[name].slack)
	if slack == 0 {
		return
	}
	fold := d.foldOf(name)
	for j, c := range d.cuts[len(fold)][slack][:slack+1] {
		var h uint32
		for _, letter := range fold[c.start : c.start+c.length] {
			h = h*radix + uint32(letter)
		}
		visit((h ^ pieceSalt(len(fold), slack, j)) * spread >> (32 - pieceBits))
	}
}

const radix = 0x01000193

func pieceSalt(letters, slack, j int) uint32 { return uint32(letters<<4|slack<<2|j) * 0x85ebca6b }

// sums holds the hashes of all beginnings of a text, from which that of any part follows.
type sums [maxLetters*2 + 1]uint32

func (s *sums) add(text []byte) {
	h := uint32(0)
	for i, c := range text {
		h = h*radix + uint32(c)
		s[i+1] = h
	}
}

// probe is where in a word of a known length a piece of a name may lie.
type probe struct {
	start, length  uint8
	letters, slack uint8 // of the name
	salt           uint32
}

// aim fills the list of probes for words of every length.
func (d *directory) aim() {
	n := 0
	for word := range d.probes {
		d.probes[word].first = uint16(n)
		for letters := max(word-maxSlack, 0); letters <= min(word+maxSlack, longestKey); letters++ {
			for slack := max(letters-word, word-letters, 1); slack <= maxSlack; slack++ {
				if d.lengths[letters]&(1<<slack) == 0 {
					continue
				}
				for j, c := range d.cuts[letters][slack][:slack+1] {
					start := int(c.start)
					if 2*j > slack {
						start += word - letters // told from the end
					}
					roam := 1 // the first and the last piece stay at their ends
					if j == 0 || j == slack {
						roam = 0
					}
					for p := max(start-roam, 0); p <= min(start+roam, word-int(c.length)); p++ {
						d.aimed[n] = probe{uint8(p), c.length, uint8(letters), uint8(slack),
							pieceSalt(letters, slack, j)}
						n++
					}
				}
			}
		}
		d.probes[word].end = uint16(n)
	}
}

// resembling calls visit with every name whose fold is text[from:to], of which s holds the sums, or may lie within its
// slack of it, some of them twice.
func (d *directory) resembling(text []byte, s *sums, from, to int, visit func(name int)) {
	if to-from >= len(d.probes) {
		return
	}
	span := d.probes[to-from]
	set, counted := uint32(0), false
	heads := s[from:]
	for i := span.first; i < span.end; i++ {
		p := &d.aimed[i]
		k := ((heads[p.start+p.length] - heads[p.start]*d.powers[p.length&(powersKept-1)]) ^ p.salt) * spread >> (32 - pieceBits)
		next, last := d.pieced[k], d.pieced[k+1]
		if next == last {
			continue
		}
		if !counted {
			set, counted = letterSet(text[from:to]), true
		}
		for _, name := range d.pieces[next:last] {
			c := &d.names[name]
			if c.length == p.letters && c.slack == p.slack && bits.OnesCount32(set^c.letters) <= 2*int(p.slack) {
				visit(int(name))
			}
		}
	}
}

// letterSet has one bit for each letter of s, and one for each residue of what is no letter. One edit changes at most
// two bits, so names too far from a word are skipped without aligning the two.
func letterSet(s []byte) uint32 {
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
