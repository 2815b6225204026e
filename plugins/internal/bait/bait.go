// Package bait holds the bait words of fraudulent domain names, classed by purpose, and finds them in labels with or
// without hyphens between them. It assigns no points.
package bait

import "strings"

// Match is a bait word in a label: label[Start:End].
type Match struct {
	Start, End int
	Class      Class
	Index      uint16 // of the word's first entry in the order of Each; changes with the lexicon
	oneEdge    bool   // one edge suffices for FindLoosely
}

// harmless is the class of words that contain a bait word but mean something else, such as partnership. They are
// matched like bait words, which hides the bait words inside them, and then dropped.
const harmless Class = 0

// entry is a word of the lexicon in one of its classes.
type entry struct {
	word    string
	class   Class
	index   uint16
	oneEdge bool
}

// wordIndex holds the lexicon, bucketed by the first letters of the words.
type wordIndex struct {
	entries     []entry             // words of three letters or more
	starts      [buckets + 1]uint16 // bucket k is entries[starts[k]:starts[k+1]]
	pairClasses [36 * 36]Class      // words of two letters, by pairSlot
	pairIndexes [36 * 36]uint16
}

const (
	bucketBits = 12
	buckets    = 1 << bucketBits
)

// bucket returns the bucket for the first three bytes of text.
func bucket(text string) uint32 {
	return (uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16) * 0x9e3779b1 >> (32 - bucketBits)
}

// pairSlot returns the slot for the first two bytes of text, or -1 if they are not letters or digits.
func pairSlot(text string) int {
	first, second := letterNumber(text[0]), letterNumber(text[1])
	if first < 0 || second < 0 {
		return -1
	}
	return first*36 + second
}

// letterNumber numbers letters and digits from 0 to 35, and returns -1 for other bytes.
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

// buildIndex buckets the lexicon with a counting sort, which is faster than building a map. Guests start often.
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

// Each calls visit for every word of the lexicon in order, and for a word with several classes once per class.
func Each(visit func(word string, class Class)) {
	eachEntry(func(word string, class Class, _ bool) { visit(word, class) })
}

// eachEntry is Each with the plus signs of the lexicon as oneEdge.
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

// longestAt returns the longest word of the lexicon that begins at text[i], with all its classes. The match is empty if
// there is none.
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

// mayStart reports whether text, of at least two bytes, can begin with a word of the lexicon.
func (x *wordIndex) mayStart(text string) bool {
	if len(text) > 2 {
		if k := bucket(text); x.starts[k] != x.starts[k+1] {
			return true
		}
	}
	k := pairSlot(text)
	return k >= 0 && x.pairClasses[k] != 0
}

// Classes returns the classes of word, or 0 if it is not a bait word.
func Classes(word string) Class {
	if f := lexiconIndex.longestAt(word, 0); f.End > 0 && f.End == len(word) {
		return f.Class
	}
	return 0
}

// Find appends the bait words of label to found, from left to right and without overlaps. Where several begin at the
// same place, the longest counts. A word of up to four letters must have edges on both sides, a word of five letters on
// one side. Edges are the ends of the label, hyphens, underscores, digits and other bait words, so "pay" is found in
// "pay-now" and "paynow" but not in "payette".
func Find(label string, found []Match) []Match { return find(label, found, false) }

// FindLoosely is like [Find], but one edge suffices for some words of three and four letters with which few other words
// begin or end: it also finds "coin" in "gamecoin".
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

// splitPlural shortens f, a word that ends in s, if the s begins the next bait word instead: walletsync consists of
// wallet and sync.
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

// isEdge reports whether c separates words in a label.
func isEdge(c byte) bool { return c == '-' || c == '_' || (c >= '0' && c <= '9') }
