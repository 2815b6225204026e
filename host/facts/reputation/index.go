package reputation

import (
	"math"
	"math/bits"
	"slices"
)

// index finds, among many names, the one nearest to another by edit distance. It partitions as Pass-Join does (Li,
// Deng, Wang, Feng: "Pass-Join: A Partition-based Method for Similarity Joins", PVLDB 5(3), 2011): a form that may
// differ by t edits is cut into t+1 segments, and whatever lies within t edits of it holds at least one of them
// unchanged, near its place. So an entry costs t+1 postings, not the hundreds of a deletion neighbourhood, and a search
// a few dozen look-ups. It is filled by one goroutine and then read by many.
type index struct {
	forms      arena
	names      arena   // as they were listed, by number of the form: the first that came
	category   []uint8 // place in categories
	categories []string
	lists      map[uint32]list // by hash of a segment and its place
	postings   []posting
}

// list is where the same segment stands in the same place: the number of its last posting, plus one, and how many there
// are.
type list struct{ last, n uint32 }

// posting is an entry of a list, which letters it holds, and the posting before it in the list, plus one.
type posting struct{ entry, letters, before uint32 }

// arena keeps many short strings without a header each.
type arena struct {
	text []byte
	ends []uint32
}

func (a *arena) add(s string) {
	a.text = append(a.text, s...)
	a.ends = append(a.ends, uint32(len(a.text)))
}

func (a *arena) at(i uint32) []byte {
	start := uint32(0)
	if i > 0 {
		start = a.ends[i-1]
	}
	return a.text[start:a.ends[i]]
}

// full says whether n more bytes would pass what 32 bits can number.
func (a *arena) full(n int) bool { return len(a.text)+n > math.MaxUint32 }

// tolerance is how many edits a form of that length may be away and still be called near: on short names an edit makes
// another word.
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

// whole marks the posting of an entire form, by which equal ones are found first.
const whole = 0xff

// A piece that so many names share tells little, and each of them costs a look: longer lists are passed over, and a
// search looks at so many postings at most, about 250 ns each. What is missed so is made of common pieces alone.
const (
	maxList = 512
	maxLook = 2048
)

func newIndex() *index { return &index{lists: map[uint32]list{}} }

// add puts a name in, unless one of the same form is there.
func (x *index) add(f form, name, category string) {
	key := hash(len(f), whole, string(f))
	if _, ok := x.equal(key, f); ok || x.forms.full(len(f)) || x.names.full(len(name)) {
		return
	}
	entry := uint32(len(x.forms.ends))
	x.forms.add(string(f))
	x.names.add(name)
	x.category = append(x.category, x.numberOf(category))
	letters := lettersOf(f)
	x.post(key, entry, letters)
	if t := tolerance(len(f)); t > 0 {
		for i := range t + 1 {
			start, end := segment(len(f), t, i)
			x.post(hash(len(f), i, string(f[start:end])), entry, letters)
		}
	}
}

// numberOf is the place of a category. They come from the published list, which has nine.
func (x *index) numberOf(category string) uint8 {
	at := slices.Index(x.categories, category)
	if at < 0 {
		at = len(x.categories)
		x.categories = append(x.categories, category)
	}
	return uint8(at)
}

// name is the entry as it was listed.
func (x *index) name(entry uint32) string { return string(x.names.at(entry)) }

func (x *index) categoryOf(entry uint32) string { return x.categories[x.category[entry]] }

func (x *index) post(key, entry, letters uint32) {
	l := x.lists[key]
	x.postings = append(x.postings, posting{entry, letters, l.last})
	x.lists[key] = list{uint32(len(x.postings)), l.n + 1}
}

// lettersOf is the set of a form's letters, by their last five bits. An edit alters two of them at most.
func lettersOf(f form) (set uint32) {
	for i := range len(f) {
		set |= 1 << (f[i] & 31)
	}
	return set
}

// segment returns where the i-th of t+1 segments of a form of that length lies. The later ones are the longer by one.
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

// found is the nearest entry.
type found struct {
	entry    uint32
	distance int
	length   int // of the longer of the two forms
}

// equal finds the entry of the same form.
func (x *index) equal(key uint32, f form) (entry uint32, ok bool) {
	for p := x.lists[key].last; p != 0; p = x.postings[p-1].before {
		if entry := x.postings[p-1].entry; string(x.forms.at(entry)) == string(f) {
			return entry, true
		}
	}
	return 0, false
}

// nearest returns the entry with the fewest edits to f, if any lies within the tolerance of its own length.
func (x *index) nearest(f form) (best found, ok bool) {
	if entry, ok := x.equal(hash(len(f), whole, string(f)), f); ok {
		return found{entry: entry, length: len(f)}, true
	}
	search := search{index: x, form: f, letters: lettersOf(f), most: maxTolerance}
	for _, length := range lengths(len(f)) {
		if !search.among(length) {
			break
		}
	}
	return search.best, search.ok
}

// search is one search for what is near a form.
type search struct {
	index   *index
	form    form
	letters uint32
	pattern *pattern // of form, made when it is first needed
	looked  int
	most    int // edits that would still be an improvement
	best    found
	ok      bool
}

// among looks through the entries of one length. It returns false when nothing better is to be found, or enough was
// looked at.
func (s *search) among(length int) (more bool) {
	x, f, cuts := s.index, s.form, tolerance(length)
	longer := len(f) - length
	if cuts == 0 || abs(longer) > min(cuts, s.most) {
		return true
	}
	for i := range cuts + 1 {
		start, end := segment(length, cuts, i)
		// Where the segment can have been moved to by the edits left and right of it (Pass-Join's multi-match-aware
		// selection).
		first := max(0, start-i, start+longer-(cuts-i))
		last := min(start+i, start+longer+cuts-i, len(f)-(end-start))
		for at := first; at <= last; at++ {
			l := x.lists[hash(length, i, string(f[at:at+end-start]))]
			if l.n > maxList {
				continue
			}
			for n := l.last; n != 0; n = x.postings[n-1].before {
				if s.looked++; s.looked > maxLook || !s.look(x.postings[n-1], length, cuts) {
					return false
				}
			}
		}
	}
	return true
}

// look compares with one entry. It returns false when nothing better can be found.
func (s *search) look(p posting, length, cuts int) (more bool) {
	most := min(s.most, cuts)
	if bits.OnesCount32(s.letters^p.letters) > 2*most {
		return true
	}
	text := s.index.forms.at(p.entry)
	if len(text) != length {
		return true // another segment of the same hash
	}
	if s.pattern == nil {
		s.pattern = newPattern(s.form)
	}
	if d := s.pattern.distance(text, most); d <= most {
		s.best, s.ok = found{p.entry, d, max(length, len(s.form))}, true
		s.most = d - 1
	}
	return s.most > 0
}

// lengths lists the lengths of what may be near a form of length n, the likeliest first.
func lengths(n int) [2*maxTolerance + 1]int {
	return [...]int{n, n + 1, n - 1, n + 2, n - 2, n + 3, n - 3}
}

func abs(n int) int { return max(n, -n) }

// hash names a segment by its place and text. Collisions cost a comparison and nothing else.
func hash(length, place int, text string) uint32 {
	return uint32(mix(uint64(length)<<8|uint64(place), text) >> 32)
}

// hash64 names a whole form. Of a million good ones, one other in 10^13 is taken for one of them.
func hash64(text string) uint64 { return mix(0, text) }

// mix folds text into h. Nobody gains by making two texts collide: it costs a comparison, or spares a name.
func mix(h uint64, text string) uint64 {
	for i := range len(text) {
		h = bits.RotateLeft64(h^uint64(text[i]), 27) * 0x9E3779B97F4A7C15
	}
	return h ^ h>>29
}
