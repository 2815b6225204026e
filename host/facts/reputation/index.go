package reputation

import (
	"math"
	"math/bits"
	"slices"
)

// nameIndex finds the listed name with the smallest edit distance to a given form. It is filled by one goroutine and
// then read by many.
//
// It partitions names as Pass-Join does (Li, Deng, Wang, Feng: "Pass-Join: A Partition-based Method for Similarity
// Joins", PVLDB 5(3), 2011). A form with a tolerance of t edits is cut into t+1 segments, and every form within t edits
// of it contains at least one of them unchanged, near its original position. So an entry costs t+1 postings, far fewer
// than in a deletion neighbourhood.
type nameIndex struct {
	forms      stringArena
	names      stringArena       // as listed, by entry; the first name of each form
	category   []uint8           // by entry, an index into categories
	categories []string          // at most the nine published threats and ""
	buckets    map[uint32]bucket // by segmentHash
	postings   []posting
}

// bucket is the linked list of the postings that share a segment at the same position.
type bucket struct {
	last  uint32 // index of the last posting, plus one
	count uint32
}

// posting is one entry of a bucket.
type posting struct {
	entry    uint32
	letters  uint32 // letterSet of the entry's form
	previous uint32 // index of the previous posting of the bucket, plus one; 0 at its end
}

// stringArena stores many short strings without a header for each.
type stringArena struct {
	text []byte
	ends []uint32
}

func (a *stringArena) add(s string) {
	a.text = append(a.text, s...)
	a.ends = append(a.ends, uint32(len(a.text)))
}

func (a *stringArena) at(i uint32) []byte {
	start := uint32(0)
	if i > 0 {
		start = a.ends[i-1]
	}
	return a.text[start:a.ends[i]]
}

// full reports whether n more bytes would overflow 32-bit offsets.
func (a *stringArena) full(n int) bool { return len(a.text)+n > math.MaxUint32 }

// tolerance returns the largest edit distance at which a listed form of the given length still matches. Short names
// need an exact match, because a single edit often yields another word.
func tolerance(length int) int {
	switch {
	case length < 10:
		return 0
	case length < 15:
		return 1
	case length < 24:
		return 2
	}
	return 3
}

const maxTolerance = 3

// wholeForm is the segment number of the posting for an entire form, which finds equal forms first.
const wholeForm = 0xff

// A segment that many names share is weak evidence, and each posting costs a comparison. Larger buckets are skipped,
// and a search ends after maxCandidates postings. This can only miss names that consist of common segments.
const (
	maxBucket     = 512
	maxCandidates = 2048
)

func newNameIndex() *nameIndex { return &nameIndex{buckets: map[uint32]bucket{}} }

// add adds a name unless an equal form is already present.
func (x *nameIndex) add(f form, name, category string) {
	key := segmentHash(len(f), wholeForm, string(f))
	if _, ok := x.equal(key, f); ok || x.forms.full(len(f)) || x.names.full(len(name)) {
		return
	}
	entry := uint32(len(x.forms.ends))
	x.forms.add(string(f))
	x.names.add(name)
	x.category = append(x.category, x.categoryIndex(category))
	letters := letterSet(f)
	x.addPosting(key, entry, letters)
	if t := tolerance(len(f)); t > 0 {
		for i := range t + 1 {
			start, end := segment(len(f), t, i)
			x.addPosting(segmentHash(len(f), i, string(f[start:end])), entry, letters)
		}
	}
}

// categoryIndex returns the index of a category, adding it if necessary.
func (x *nameIndex) categoryIndex(category string) uint8 {
	at := slices.Index(x.categories, category)
	if at < 0 {
		at = len(x.categories)
		x.categories = append(x.categories, category)
	}
	return uint8(at)
}

// name returns the name of an entry as it was listed.
func (x *nameIndex) name(entry uint32) string { return string(x.names.at(entry)) }

func (x *nameIndex) addPosting(key, entry, letters uint32) {
	b := x.buckets[key]
	x.postings = append(x.postings, posting{entry, letters, b.last})
	x.buckets[key] = bucket{uint32(len(x.postings)), b.count + 1}
}

// letterSet returns the set of a form's letters, reduced to their last five bits. One edit changes at most two bits.
func letterSet(f form) (set uint32) {
	for i := range len(f) {
		set |= 1 << (f[i] & 31)
	}
	return set
}

// segment returns the bounds of segment i when a form of the given length is cut into t+1 segments. If the length does
// not divide evenly, the last segments are longer by one.
func segment(length, t, i int) (start, end int) {
	size, longer := length/(t+1), length%(t+1)
	shorter := t + 1 - longer
	start = i*size + max(0, i-shorter)
	end = start + size
	if i >= shorter {
		end++
	}
	return start, end
}

// nameMatch is the entry nearest to a form.
type nameMatch struct {
	entry    uint32
	distance int
	length   int // of the longer of the two forms
}

// equal returns the entry with the same form. key is the segmentHash of the whole form.
func (x *nameIndex) equal(key uint32, f form) (entry uint32, ok bool) {
	for p := x.buckets[key].last; p != 0; p = x.postings[p-1].previous {
		if entry := x.postings[p-1].entry; string(x.forms.at(entry)) == string(f) {
			return entry, true
		}
	}
	return 0, false
}

// nearest returns the entry with the smallest edit distance to f, provided that the distance is within the tolerance of
// the entry's length.
func (x *nameIndex) nearest(f form) (best nameMatch, ok bool) {
	if entry, ok := x.equal(segmentHash(len(f), wholeForm, string(f)), f); ok {
		return nameMatch{entry: entry, length: len(f)}, true
	}
	s := search{index: x, form: f, letters: letterSet(f), limit: maxTolerance}
	n := len(f) // the likeliest lengths come first
	for _, length := range [2*maxTolerance + 1]int{n, n + 1, n - 1, n + 2, n - 2, n + 3, n - 3} {
		if !s.searchLength(length) {
			break
		}
	}
	return s.best, s.ok
}

// search is the state of one search for the nearest entry.
type search struct {
	index      *nameIndex
	form       form
	letters    uint32
	pattern    *pattern // of form, created when first needed
	candidates int      // postings considered so far
	limit      int      // largest distance that would improve on best
	best       nameMatch
	ok         bool
}

// searchLength searches the entries of one length. It reports whether to continue with other lengths: false if the
// result cannot improve, or after maxCandidates.
func (s *search) searchLength(length int) bool {
	x, f, cuts := s.index, s.form, tolerance(length)
	longer := len(f) - length
	if cuts == 0 || max(longer, -longer) > min(cuts, s.limit) {
		return true
	}
	for i := range cuts + 1 {
		start, end := segment(length, cuts, i)
		// The positions that edits before and after the segment can have moved it to: Pass-Join's multi-match-aware
		// selection.
		first := max(0, start-i, start+longer-(cuts-i))
		last := min(start+i, start+longer+cuts-i, len(f)-(end-start))
		for at := first; at <= last; at++ {
			b := x.buckets[segmentHash(length, i, string(f[at:at+end-start]))]
			if b.count > maxBucket {
				continue
			}
			for n := b.last; n != 0; n = x.postings[n-1].previous {
				s.candidates++
				if s.candidates > maxCandidates || !s.compare(x.postings[n-1], length, cuts) {
					return false
				}
			}
		}
	}
	return true
}

// compare compares the form with one entry. It reports whether a later entry could be nearer.
func (s *search) compare(p posting, length, cuts int) bool {
	limit := min(s.limit, cuts)
	if bits.OnesCount32(s.letters^p.letters) > 2*limit {
		return true
	}
	text := s.index.forms.at(p.entry)
	if len(text) != length {
		return true // a hash collision with another segment
	}
	if s.pattern == nil {
		s.pattern = newPattern(s.form)
	}
	if d := s.pattern.distance(text, limit); d <= limit {
		s.best, s.ok = nameMatch{p.entry, d, max(length, len(s.form))}, true
		s.limit = d - 1
	}
	return s.limit > 0
}

// segmentHash hashes a segment with its number and the length of its form. A collision only costs a comparison.
func segmentHash(length, number int, text string) uint32 {
	return uint32(mix(uint64(length)<<8|uint64(number), text) >> 32)
}

// formHash hashes a whole form. The probability that a name collides with one of a million others is 10^6 / 2^64.
func formHash(f form) uint64 { return mix(0, string(f)) }

// mix folds text into h. It need not resist deliberate collisions, which only cost a comparison or hide a name.
func mix(h uint64, text string) uint64 {
	for i := range len(text) {
		h = bits.RotateLeft64(h^uint64(text[i]), 27) * 0x9E3779B97F4A7C15
	}
	return h ^ h>>29
}
