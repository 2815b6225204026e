// Package bait knows the words that bait a victim, by what they are used for, and finds them in the labels of a domain
// name, whether hyphens part them or not.
package bait

import "strings"

// Found is a lure word inside a label: label[Start:End].
type Match struct {
	Start, End int
	Class      Class
	Index      uint16 // its place in the lexicon, as Each counts; it moves when the lexicon changes
	oneEdge    bool   // one edge suffices where loosely read, short as it is
}

// decoy marks words that hold a lure word and mean something else, as partnership holds partner: they are found as lure
// words are, so that nothing inside them is, and then left out.
const harmless Class = 0

type entry struct {
	word    string
	class   Class
	index   uint16
	oneEdge bool
}

// book holds the lexicon bucketed by how words begin, so that looking up a position reads hardly a word that does not
// begin there.
type wordIndex struct {
	entries     []entry             // of three letters and more
	starts      [buckets + 1]uint16 // entries[starts[k]:starts[k+1]] have the bucket k
	pairClasses [36 * 36]Class      // words of two letters
	pairIndexes [36 * 36]uint16     // of these
}

const (
	bucketBits = 12
	buckets    = 1 << bucketBits
)

// bucket returns the bucket of a text of three bytes or more.
func bucket(text string) uint32 {
	return (uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16) * 0x9e3779b1 >> (32 - bucketBits)
}

// pair returns where the two letters or digits that text begins with stand in book.pairs, -1 when they are none.
func pairSlot(text string) int {
	first, second := letterNumber(text[0]), letterNumber(text[1])
	if first < 0 || second < 0 {
		return -1
	}
	return first*36 + second
}

func letterNumber(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return int(c - 'a')
	case c >= '0' && c <= '9':
		return int(c-'0') + 26
	}
	return -1
}

var lexiconIndex = buildIndex()

// bind buckets the lexicon with one counting sort: guests start often, so no map is built and nothing is compared.
func buildIndex() *wordIndex {
	x := new(wordIndex)
	long, index := 0, uint16(0)
	Each(func(word string, class Class) {
		if len(word) == 2 {
			x.pairClasses[pairSlot(word)] |= class
			x.pairIndexes[pairSlot(word)] = index
		} else {
			x.starts[bucket(word)+1]++
			long++
		}
		index++
	})
	for k := range buckets {
		x.starts[k+1] += x.starts[k]
	}
	x.entries = make([]entry, long)
	free := x.starts
	index = 0
	eachEntry(func(word string, class Class, oneEdge bool) {
		if len(word) > 2 {
			k := bucket(word)
			x.entries[free[k]] = entry{word, class, index, oneEdge}
			free[k]++
		}
		index++
	})
	return x
}

// Each calls visit for every word of the lexicon in order, once for each of its classes.
func Each(visit func(word string, class Class)) {
	eachEntry(func(word string, class Class, _ bool) { visit(word, class) })
}

// each calls visit as Each does, and says which words end in a plus: open ones.
func eachEntry(visit func(word string, class Class, oneEdge bool)) {
	for _, list := range lexicon {
		start := -1
		for i := 0; i <= len(list.words); i++ {
			letter := i < len(list.words) && list.words[i] > ' '
			switch {
			case letter && start < 0:
				start = i
			case !letter && start >= 0:
				word, oneEdge := strings.CutSuffix(list.words[start:i], "+")
				visit(word, list.class, oneEdge)
				start = -1
			}
		}
	}
}

// at returns the longest lexicon word that begins at text[i:], with the union of its classes and its first place; it is
// empty when there is none.
func (x *wordIndex) longestAt(text string, i int) Match {
	f := Match{Start: i, End: i}
	rest := text[i:]
	if len(rest) < 2 {
		return f
	}
	length := 0
	if len(rest) > 2 {
		k := bucket(rest)
		entries := x.entries[x.starts[k]:x.starts[k+1]]
		for j := range entries {
			e := &entries[j]
			n := len(e.word)
			if n < length || n > len(rest) || rest[:n] != e.word {
				continue
			}
			if n > length {
				length = n
				f.Class, f.Index, f.oneEdge = 0, e.index, e.oneEdge
			}
			f.Class |= e.class
		}
	}
	if length == 0 {
		if k := pairSlot(rest); k >= 0 && x.pairClasses[k] != 0 {
			return Match{i, i + 2, x.pairClasses[k], x.pairIndexes[k], false}
		}
	}
	f.End += length
	return f
}

// may says whether a word may begin text, which has two bytes or more.
func (x *wordIndex) mayStart(text string) bool {
	if len(text) > 2 {
		if k := bucket(text); x.starts[k] != x.starts[k+1] {
			return true
		}
	}
	k := pairSlot(text)
	return k >= 0 && x.pairClasses[k] != 0
}

// Of returns the classes of word, 0 when it is no lure word.
func Classes(word string) Class {
	if f := lexiconIndex.longestAt(word, 0); f.End > 0 && f.End == len(word) {
		return f.Class
	}
	return 0
}

// In appends to found the lure words of label, left to right, the longest first where several begin at one place. A
// word of up to four letters counts only between edges, and one of five needs one edge: edges are the ends of the
// label, hyphens, underscores, digits and other lure words. So "pay" is found in "pay-now" and in "paynow", not in
// "payette".
func Find(label string, found []Match) []Match { return find(label, found, false) }

// Loosely is like In, but takes one edge to be enough for those words of three and four letters that hardly any other
// word begins or ends with: "coin" is found in "gamecoin" too.
func FindLoosely(label string, found []Match) []Match { return find(label, found, true) }

func find(label string, found []Match, loose bool) []Match {
	base := len(found)
	for i := 0; i+1 < len(label); {
		if !lexiconIndex.mayStart(label[i:]) {
			i++
			continue
		}
		if f := lexiconIndex.longestAt(label, i); f.End > i {
			if f.End-i > 4 && label[f.End-1] == 's' && f.End < len(label) {
				f = splitPlural(label, f)
			}
			found = append(found, f)
			i = f.End
			continue
		}
		i++
	}
	for dropped := true; dropped; {
		dropped = false
		kept := found[base:base]
		all := found[base:]
		for k, f := range all {
			left := f.Start == 0 || isEdge(label[f.Start-1]) || (len(kept) > 0 && kept[len(kept)-1].End == f.Start)
			right := f.End == len(label) || isEdge(label[f.End]) || (k+1 < len(all) && all[k+1].Start == f.End)
			switch n := f.End - f.Start; {
			case n > 5 || left && right || (n == 5 || f.oneEdge && loose) && (left || right):
				kept = append(kept, f)
			default:
				dropped = true
			}
		}
		found = found[:base+len(kept)]
	}
	kept := found[:base]
	for _, f := range found[base:] {
		if f.Class != harmless {
			kept = append(kept, f)
		}
	}
	return kept
}

// singular gives the plural's s, with which f ends, to the word after it where that makes two words of one: walletsync
// is wallet and sync.
func splitPlural(label string, f Match) Match {
	if next := lexiconIndex.longestAt(label, f.End); next.End > next.Start {
		return f
	}
	if next := lexiconIndex.longestAt(label, f.End-1); next.End-next.Start < 4 {
		return f
	}
	if one := lexiconIndex.longestAt(label[:f.End-1], f.Start); one.End == f.End-1 && one.Class != 0 {
		return one
	}
	return f
}

func isEdge(c byte) bool { return c == '-' || c == '_' || (c >= '0' && c <= '9') }
