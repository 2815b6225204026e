package main

import (
	"math/bits"
	"strings"
)

// kind says how far a brand's key stands out in running text, and so how loosely it may be matched.
type kind byte

const (
	coined kind = iota // a made-up word of five letters or more: stands out even inside longer words
	word               // also an ordinary word or somebody's name: counts only beside lure words or with swapped letters
	short              // up to four letters: counts only as a whole token beside lure words
)

// brand is a name that fraud borrows.
type brand struct {
	key  string // how labels spell it: lower-case ASCII without hyphens
	name string // as its owner writes it
	kind kind
	own  string // its domains, parted by spaces; see owns
}

// tables holds every brand; a name may have several keys.
var tables = [...][]brand{moneyBrands[:], cryptoBrands[:], webBrands[:], publicBrands[:]}

// indexed is a brand with what searching needs.
type indexed struct {
	*brand
	fold    string // the key as foldKey makes it
	letters uint32 // one bit per letter of fold, see letterSet
	slack   int    // edits that still resemble the key; 0 for those that edits never resemble
}

// directory finds brands by how a text begins and by how long it is.
type directory struct {
	brands  []indexed // bucketed by the first two bytes of their fold
	starts  [buckets + 1]uint16
	sized   []sized // those that edits resemble, bucketed by the length of their fold
	lengths [longestKey + 2]uint16
	owned   []owned // the whole domains that brands name as theirs, bucketed by their hash
	owners  [ownedBuckets + 1]uint16
	local   []branch // patterns of local branches
}

// owned is a domain, or the stem of one under many suffixes, and whose it is.
type owned struct {
	hash uint32
	at   uint16 // directory.brands[at]
}

// branch is how a pattern with a "*" inside begins, and whose it is.
type branch struct {
	before string
	at     uint16 // directory.brands[at]
}

const ownedBuckets = 1 << 10

// hashOf is FNV-1a.
func hashOf(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// bindOwners fills the index of domains.
func (d *directory) bindOwners() {
	var all []owned
	for i := range d.brands {
		b := &d.brands[i]
		for pattern := range strings.FieldsSeq(b.own) {
			stem := strings.TrimSuffix(pattern, ".*")
			if before, _, star := strings.Cut(stem, "*"); star {
				d.local = append(d.local, branch{before, uint16(i)})
				continue
			}
			h := hashOf(stem)
			all = append(all, owned{h, uint16(i)})
			d.owners[h%ownedBuckets+1]++
		}
	}
	for k := range ownedBuckets {
		d.owners[k+1] += d.owners[k]
	}
	d.owned = make([]owned, len(all))
	free := d.owners
	for _, o := range all {
		k := o.hash % ownedBuckets
		d.owned[free[k]] = o
		free[k]++
	}
}

// sized is what rules most brands out of a comparison with a misspelling.
type sized struct {
	letters uint32
	slack   int
	at      uint16 // directory.brands[at]
}

// buckets counts the pairs of two of the 36 letters and digits, and one bucket for all other pairs; a fold is never longer
// than longestKey.
const (
	buckets    = 36*36 + 1
	longestKey = 32
)

func bucket(a, b byte) int {
	first, second := ordinal(a), ordinal(b)
	if first < 0 || second < 0 {
		return buckets - 1
	}
	return first*36 + second
}

func ordinal(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return int(c - 'a')
	case c >= '0' && c <= '9':
		return int(c-'0') + 26
	}
	return -1
}

var known = bind()

// bind fills the directory with counting sorts, as guests start often.
func bind() *directory {
	d := new(directory)
	var all []indexed
	for _, table := range tables {
		for i := range table {
			b := indexed{brand: &table[i], fold: foldKey(table[i].key)}
			b.letters = letterSet(b.fold)
			if b.kind != short {
				b.slack = slack(b.key)
				if b.slack > 0 {
					d.lengths[len(b.fold)+1]++
				}
			}
			d.starts[bucket(b.fold[0], b.fold[1])+1]++
			all = append(all, b)
		}
	}
	for k := range buckets {
		d.starts[k+1] += d.starts[k]
	}
	for n := range len(d.lengths) - 1 {
		d.lengths[n+1] += d.lengths[n]
	}
	d.brands = make([]indexed, len(all))
	d.sized = make([]sized, d.lengths[len(d.lengths)-1])
	free, room := d.starts, d.lengths
	for _, b := range all {
		k := bucket(b.fold[0], b.fold[1])
		d.brands[free[k]] = b
		if b.slack > 0 {
			d.sized[room[len(b.fold)]] = sized{b.letters, b.slack, free[k]}
			room[len(b.fold)]++
		}
		free[k]++
	}
	d.bindOwners()
	return d
}

// beginning returns the brands whose fold begins with a and b.
func (d *directory) beginning(a, b byte) []indexed {
	k := bucket(a, b)
	return d.brands[d.starts[k]:d.starts[k+1]]
}

// resembling calls visit with every brand whose fold may lie within its slack of text, which no brand equals.
func (d *directory) resembling(text string, visit func(b *indexed)) {
	set := letterSet(text)
	for n := max(len(text)-maxSlack, 0); n <= min(len(text)+maxSlack, longestKey); n++ {
		gap := max(n-len(text), len(text)-n)
		for i := d.lengths[n]; i < d.lengths[n+1]; i++ {
			s := &d.sized[i]
			if gap <= s.slack && bits.OnesCount32(set^s.letters) <= 2*s.slack {
				visit(&d.brands[s.at])
			}
		}
	}
}

// letterSet has one bit for each letter of s, and one for each residue of what is no letter. One edit changes at most two
// bits, so brands too far from a word are skipped without aligning the two.
func letterSet(s string) uint32 {
	var set uint32
	for i := range len(s) {
		if c := s[i]; c >= 'a' && c <= 'z' {
			set |= 1 << (c - 'a')
		} else {
			set |= 1 << (26 + c%6)
		}
	}
	return set
}

// host is the name under judgement.
type host struct {
	ascii       string // the whole name, A-labels
	registrable string
	suffix      string
	private     bool // the suffix is shared hosting
	risk        int  // points of the suffix, 0 for most
}

// ownership says whose a domain is.
type ownership byte

const (
	stranger ownership = iota
	akin               // fits the naming of a brand's local branches, which anybody could imitate
	owner              // is on the list of the brand's own domains
)

// owns says whether h is one of b's domains. Each of b.own is a registrable domain or a full name; ".*" at its end stands
// for every ICANN suffix that is not risky, as large brands register their name everywhere; another "*" for letters that
// local branches put there.
func (b *brand) owns(h *host) ownership {
	best := stranger
	for pattern := range strings.FieldsSeq(b.own) {
		stem, everywhere := strings.CutSuffix(pattern, ".*")
		if everywhere {
			if h.private || h.risk > 0 || len(h.registrable) != len(stem)+1+len(h.suffix) && !strings.Contains(stem, "*") {
				continue
			}
			if i := len(h.registrable) - len(h.suffix) - 1; i > 0 && glob(stem, h.registrable[:i]) {
				best = max(best, standing(stem))
			}
			continue
		}
		if glob(pattern, h.registrable) || pattern == h.ascii {
			best = max(best, standing(pattern))
		}
	}
	return best
}

func standing(pattern string) ownership {
	if strings.Contains(pattern, "*") {
		return akin
	}
	return owner
}

// glob matches s against a pattern in which each "*" stands for any run of bytes without a dot.
func glob(pattern, s string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, before) {
		return false
	}
	for s = s[len(before):]; ; s = s[1:] {
		if glob(after, s) {
			return true
		}
		if s == "" || s[0] == '.' {
			return false
		}
	}
}

// ownerOf returns the brand whose domain h is, and how surely. It asks likely, the brand that was found in the name, first.
func (d *directory) ownerOf(h *host, likely *brand) (*brand, ownership) {
	if likely.owns(h) == owner {
		return likely, owner
	}
	stem := h.registrable
	if n := len(stem) - len(h.suffix) - 1; n > 0 {
		stem = stem[:n]
	}
	at, best := len(d.brands), stranger
	ask := func(i int) {
		if o := d.brands[i].owns(h); o > best || o == best && o > stranger && i < at {
			at, best = i, o
		}
	}
	for _, name := range [...]string{h.registrable, h.ascii, stem} {
		hash := hashOf(name)
		k := hash % ownedBuckets
		for _, o := range d.owned[d.owners[k]:d.owners[k+1]] {
			if o.hash == hash {
				ask(int(o.at))
			}
		}
	}
	if best < owner {
		for i := range d.local {
			if l := &d.local[i]; strings.HasPrefix(h.registrable, l.before) {
				ask(int(l.at))
			}
		}
	}
	if best == stranger {
		return nil, best
	}
	return d.brands[at].brand, best
}
