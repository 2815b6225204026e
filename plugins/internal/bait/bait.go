// Package bait holds the bait words of fraudulent domain names, classed by purpose, and finds them in labels with or
// without hyphens between them. It assigns no points.
package bait

import "strings"

// Match is a bait word in a label: label[Start:End].
type Match struct {
	Start, End int
	Class      Class
	oneEdge    bool // one edge suffices for FindLoosely
}

// harmless is the class of words that contain a bait word but mean something else, such as partnership. They are
// matched like bait words, which hides the bait words inside them, and then dropped.
const harmless Class = 0

// entry is a word of three letters or more, with all its classes.
type entry struct {
	word    string
	class   Class
	oneEdge bool
}

const bucketBits = 10 // of buckets of words by their first three letters

// bucket returns the bucket for the first three bytes of text.
func bucket(text string) uint32 {
	return (uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16) * 0x9e3779b1 >> (32 - bucketBits)
}

// letterNumber numbers letters and digits from 0 to 35, and returns 36 for other bytes.
func letterNumber(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return int(c - 'a')
	case c >= '0' && c <= '9':
		return int(c-'0') + 26
	}
	return 36
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
func longestAt(text string, i int) Match {
	rest := text[i:]
	if len(rest) < 2 || !mayStart(rest[0], rest[1]) {
		return Match{Start: i, End: i}
	}
	if len(rest) > 2 {
		k := bucket(rest)
		for j := wordStarts[k]; j < wordStarts[k+1]; j++ {
			e := &words[j]
			at := len(e.word)
			if at > len(rest) {
				continue
			}
			for at > 0 && rest[at-1] == e.word[at-1] { // backwards, because the first letters are mostly equal
				at--
			}
			if at == 0 {
				return Match{i, i + len(e.word), e.class, e.oneEdge}
			}
		}
	}
	if class := pairs[letterNumber(rest[0])*36+letterNumber(rest[1])]; class != 0 {
		return Match{i, i + 2, class, false}
	}
	return Match{Start: i, End: i}
}

// mayStart reports whether a word of the lexicon begins with these two bytes.
func mayStart(first, second byte) bool {
	return secondLetters[letterNumber(first)]>>letterNumber(second)&1 != 0
}

// Classes returns the classes of word, or 0 if it is not a bait word.
func Classes(word string) Class {
	if f := longestAt(word, 0); f.End > 0 && f.End == len(word) {
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
		if !mayStart(label[i], label[i+1]) {
			i++
			continue
		}
		if f := longestAt(label, i); f.End > i {
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
	if next := longestAt(label, f.End); next.End > next.Start {
		return f
	}
	if next := longestAt(label, f.End-1); next.End-next.Start < 4 {
		return f
	}
	if one := longestAt(label[:f.End-1], f.Start); one.End == f.End-1 && one.Class != 0 {
		return one
	}
	return f
}

// isEdge reports whether c separates words in a label.
func isEdge(c byte) bool { return c == '-' || c == '_' || (c >= '0' && c <= '9') }
