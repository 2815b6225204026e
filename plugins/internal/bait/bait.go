// Package bait holds the bait words of fraudulent domain names, classed by purpose, and finds them in labels with or
// without hyphens between them. It assigns no points.
package bait

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
	head    uint64 // its first eight letters, the first in the lowest byte
	class   Class
	tail    uint16 // its other letters are words.tails[tail:][:length-8]
	length  uint8
	shift   uint8 // shifts the bytes that are not compared out of a head
	oneEdge bool
}

const (
	bucketBits = 10 // of buckets of words by their first three letters
	headBytes  = 8  // of entry.head
)

// headOf returns the first eight bytes of text, the first in the lowest byte, and zeros after its end.
func headOf(text string) (head uint64) {
	if len(text) >= headBytes {
		return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
	}
	for i := range len(text) {
		head |= uint64(text[i]) << (i * 8 & 63)
	}
	return head
}

// bucket returns the bucket for the first three bytes of a head.
func bucket(head uint64) uint64 {
	return head & 0xffffff * 0x9e3779b1 & 0xffffffff >> (32 - bucketBits)
}

// letterNumber numbers letters and digits from 0 to 35. It is 36 for other bytes.
var letterNumber = func() (numbers [256]uint8) {
	for c := range numbers {
		switch {
		case c >= 'a' && c <= 'z':
			numbers[c] = uint8(c - 'a')
		case c >= '0' && c <= '9':
			numbers[c] = uint8(c - '0' + 26)
		default:
			numbers[c] = 36
		}
	}
	return numbers
}()

// longestAt returns the longest word of the lexicon that begins at text[i], with all its classes. The match is empty if
// there is none.
func longestAt(text string, i int) Match {
	rest := text[i:]
	if len(rest) < 2 || !mayStart(rest[0], rest[1]) {
		return Match{Start: i, End: i}
	}
	if len(rest) > 2 {
		head := headOf(rest)
		k := bucket(head)
		list := index.entries[index.starts[k]:index.starts[k+1]]
		for j := range list {
			e := &list[j]
			if (e.head^head)<<(e.shift&63) == 0 && (e.length <= headBytes || hasTail(rest, e)) {
				return Match{i, i + int(e.length), e.class, e.oneEdge}
			}
		}
	}
	if class := index.pairs[int(letterNumber[rest[0]])*36+int(letterNumber[rest[1]])]; class != 0 {
		return Match{i, i + 2, class, false}
	}
	return Match{Start: i, End: i}
}

// hasTail reports whether text continues like the word of e after its head.
func hasTail(text string, e *entry) bool {
	n := int(e.length)
	return n <= len(text) && text[headBytes:n] == index.tails[e.tail:int(e.tail)+n-headBytes]
}

// mayStart reports whether a word of the lexicon begins with these two bytes.
func mayStart(first, second byte) bool {
	return index.secondLetters[letterNumber[first]]>>(letterNumber[second]&63)&1 != 0
}

// Classes returns the classes of word, or 0 if it is not a bait word.
func Classes(word string) Class {
	if f := longestAt(word, 0); f.End > 0 && f.End == len(word) {
		return f.Class
	}
	return 0
}

// Find appends the bait words of label to found, from left to right and without overlaps. If several begin at the same
// place, the longest counts. A word of up to four letters must have edges on both sides, a word of five letters on one
// side. Edges are the ends of the label, hyphens, underscores, digits and other bait words, so "pay" is found in
// "pay-now" and "paynow" but not in "payette".
func Find(label string, found []Match) []Match { return find(label, found, false) }

// FindLoosely is like [Find], but one edge suffices for some words of three and four letters with which few other words
// begin or end: it also finds "coin" in "gamecoin".
func FindLoosely(label string, found []Match) []Match { return find(label, found, true) }

func find(label string, found []Match, loose bool) []Match {
	base := len(found)
	found = all(label, found)
	for n := len(found) + 1; n > len(found); {
		n = len(found)
		found = found[:base+keep(label, found[base:], loose)]
	}
	n := base
	for i := base; i < len(found); i++ {
		if found[i].Class != harmless {
			found[n] = found[i]
			n++
		}
	}
	return found[:n]
}

// all appends the longest words of label, whatever their edges.
func all(label string, found []Match) []Match {
	for i := 0; i+1 < len(label); {
		if !mayStart(label[i], label[i+1]) {
			i++
			continue
		}
		f := longestAt(label, i)
		if f.End == i {
			i++
			continue
		}
		if f.End-i > 4 && label[f.End-1] == 's' && f.End < len(label) {
			f = splitPlural(label, f)
		}
		found = append(found, f)
		i = f.End
	}
	return found
}

// keep moves the words with edges to the front of list, and returns their number.
func keep(label string, list []Match, loose bool) (kept int) {
	last := 0 // the end of the last word that was kept
	for k := range list {
		f := &list[k]
		n := f.End - f.Start
		if n <= 5 {
			left := f.Start == 0 || isEdge(label[f.Start-1]) || kept > 0 && last == f.Start
			right := f.End == len(label) || isEdge(label[f.End]) || k+1 < len(list) && list[k+1].Start == f.End
			if !(left && right) && !((n == 5 || f.oneEdge && loose) && (left || right)) {
				continue
			}
		}
		last = f.End
		list[kept] = *f
		kept++
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
func isEdge(c byte) bool { return c-'0' <= 9 || c == '-' || c == '_' }
