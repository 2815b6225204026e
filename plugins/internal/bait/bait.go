// Package bait knows the words that bait a victim, by what they are used for, and finds them in the labels of a domain
// name, whether hyphens part them or not.
package bait

import "strings"

// Found is a lure word inside a label: label[Start:End].
type Found struct {
	Start, End int
	Class      Class
	Word       uint16 // its place in the lexicon, as Each counts; it moves when the lexicon changes
	open       bool   // one edge suffices where loosely read, short as it is
}

// decoy marks words that hold a lure word and mean something else, as partnership holds partner: they are found as lure
// words are, so that nothing inside them is, and then left out.
const decoy Class = 0

type entry struct {
	word  string
	class Class
	place uint16
	open  bool
}

// book holds the lexicon bucketed by how words begin, so that looking up a position reads hardly a word that does not
// begin there.
type book struct {
	entries []entry             // of three letters and more
	starts  [buckets + 1]uint16 // entries[starts[k]:starts[k+1]] have the bucket k
	pairs   [36 * 36]Class      // words of two letters
	places  [36 * 36]uint16     // of these
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
func pair(text string) int {
	first, second := ordinal(text[0]), ordinal(text[1])
	if first < 0 || second < 0 {
		return -1
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

var words = bind()

// bind buckets the lexicon with one counting sort: guests start often, so no map is built and nothing is compared.
func bind() *book {
	b := new(book)
	long, place := 0, uint16(0)
	Each(func(word string, class Class) {
		if len(word) == 2 {
			b.pairs[pair(word)] |= class
			b.places[pair(word)] = place
		} else {
			b.starts[bucket(word)+1]++
			long++
		}
		place++
	})
	for k := range buckets {
		b.starts[k+1] += b.starts[k]
	}
	b.entries = make([]entry, long)
	free := b.starts
	place = 0
	each(func(word string, class Class, open bool) {
		if len(word) > 2 {
			k := bucket(word)
			b.entries[free[k]] = entry{word, class, place, open}
			free[k]++
		}
		place++
	})
	return b
}

// Each calls visit for every word of the lexicon in order, once for each of its classes.
func Each(visit func(word string, class Class)) {
	each(func(word string, class Class, _ bool) { visit(word, class) })
}

// each calls visit as Each does, and says which words end in a plus: open ones.
func each(visit func(word string, class Class, open bool)) {
	for _, list := range lexicon {
		start := -1
		for i := 0; i <= len(list.words); i++ {
			letter := i < len(list.words) && list.words[i] > ' '
			switch {
			case letter && start < 0:
				start = i
			case !letter && start >= 0:
				word, open := strings.CutSuffix(list.words[start:i], "+")
				visit(word, list.class, open)
				start = -1
			}
		}
	}
}

// at returns the longest lexicon word that begins at text[i:], with the union of its classes and its first place; it is
// empty when there is none.
func (b *book) at(text string, i int) Found {
	f := Found{Start: i, End: i}
	rest := text[i:]
	if len(rest) < 2 {
		return f
	}
	length := 0
	if len(rest) > 2 {
		k := bucket(rest)
		entries := b.entries[b.starts[k]:b.starts[k+1]]
		for j := range entries {
			e := &entries[j]
			n := len(e.word)
			if n < length || n > len(rest) || rest[:n] != e.word {
				continue
			}
			if n > length {
				length = n
				f.Class, f.Word, f.open = 0, e.place, e.open
			}
			f.Class |= e.class
		}
	}
	if length == 0 {
		if k := pair(rest); k >= 0 && b.pairs[k] != 0 {
			return Found{i, i + 2, b.pairs[k], b.places[k], false}
		}
	}
	f.End += length
	return f
}

// may says whether a word may begin text, which has two bytes or more.
func (b *book) may(text string) bool {
	if len(text) > 2 {
		if k := bucket(text); b.starts[k] != b.starts[k+1] {
			return true
		}
	}
	k := pair(text)
	return k >= 0 && b.pairs[k] != 0
}

// Of returns the classes of word, 0 when it is no lure word.
func Of(word string) Class {
	if f := words.at(word, 0); f.End > 0 && f.End == len(word) {
		return f.Class
	}
	return 0
}

// In appends to found the lure words of label, left to right, the longest first where several begin at one place. A
// word of up to four letters counts only between edges, and one of five needs one edge: edges are the ends of the
// label, hyphens, underscores, digits and other lure words. So "pay" is found in "pay-now" and in "paynow", not in
// "payette".
func In(label string, found []Found) []Found { return in(label, found, false) }

// Loosely is like In, but takes one edge to be enough for those words of three and four letters that hardly any other
// word begins or ends with: "coin" is found in "gamecoin" too.
func Loosely(label string, found []Found) []Found { return in(label, found, true) }

func in(label string, found []Found, loosely bool) []Found {
	base := len(found)
	for i := 0; i+1 < len(label); {
		if !words.may(label[i:]) {
			i++
			continue
		}
		if f := words.at(label, i); f.End > i {
			if f.End-i > 4 && label[f.End-1] == 's' && f.End < len(label) {
				f = singular(label, f)
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
			left := f.Start == 0 || edge(label[f.Start-1]) || (len(kept) > 0 && kept[len(kept)-1].End == f.Start)
			right := f.End == len(label) || edge(label[f.End]) || (k+1 < len(all) && all[k+1].Start == f.End)
			switch n := f.End - f.Start; {
			case n > 5 || left && right || (n == 5 || f.open && loosely) && (left || right):
				kept = append(kept, f)
			default:
				dropped = true
			}
		}
		found = found[:base+len(kept)]
	}
	kept := found[:base]
	for _, f := range found[base:] {
		if f.Class != decoy {
			kept = append(kept, f)
		}
	}
	return kept
}

// singular gives the plural's s, with which f ends, to the word after it where that makes two words of one: walletsync
// is wallet and sync.
func singular(label string, f Found) Found {
	if next := words.at(label, f.End); next.End > next.Start {
		return f
	}
	if next := words.at(label, f.End-1); next.End-next.Start < 4 {
		return f
	}
	if one := words.at(label[:f.End-1], f.Start); one.End == f.End-1 && one.Class != 0 {
		return one
	}
	return f
}

func edge(c byte) bool { return c == '-' || c == '_' || (c >= '0' && c <= '9') }
