package main

import "unicode/utf8"

// maxLetters bounds what is read of one label: RFC 1035 allows 63 octets, a U-label has fewer letters than its A-label.
const maxLetters = 64

// folded is a label as the eye reads it: look-alike letters and digits are one, hyphens are gone. Two labels that fold
// to the same bytes are easily taken for each other: UTS 39's skeleton without marks, and coarser, as digits and pairs
// of letters count as what they look like.
type skeleton struct {
	text      [maxLetters * 2]byte
	begin     [maxLetters * 2]uint16 // text[i] was read from label[begin[i]:end[i]]
	end       [maxLetters * 2]uint16
	n         int
	sharpSAsB bool // ß is read as it looks, b, rather than as it is spelt, ss
}

// unknown stands in a fold for a letter that passes for no Latin one; it equals no letter of a brand.
const noLookalike = 0

func readSkeleton(label string, s *skeleton) {
	s.n = 0
	count := 0
	for i := 0; i < len(label) && count < maxLetters; count++ {
		c := label[i]
		if c < utf8.RuneSelf {
			switch twin := lookalikeOf[c]; {
			case twin == ignored:
			case mayMerge(c):
				s.add(c, i, i+1)
			default:
				s.text[s.n], s.begin[s.n], s.end[s.n] = twin, uint16(i), uint16(i+1)
				s.n++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(label[i:])
		letters, how := asASCII(r)
		if r == 'ß' && s.sharpSAsB {
			letters = "b"
		}
		if how == unlike {
			s.add(noLookalike, i, i+size)
		}
		for at := range len(letters) {
			s.add(letters[at], i, i+size)
		}
		i += size
	}
}

// push appends one letter, merged with the one before where the pair looks like a single letter.
func (s *skeleton) add(c byte, begin, end int) {
	twin := lookalikeOf[c]
	if s.n > 0 && mayMerge(c) {
		if merged := mergePair(s.text[s.n-1], twin); merged != 0 && int(s.end[s.n-1]) == begin {
			s.text[s.n-1] = merged
			s.end[s.n-1] = uint16(end)
			return
		}
	}
	s.text[s.n], s.begin[s.n], s.end[s.n] = twin, uint16(begin), uint16(end)
	s.n++
}

// joins says whether c, or what it stands for, may look like a single letter together with the one before.
func mayMerge(c byte) bool {
	switch lookalikeOf[c] {
	case 'l', 'n', 'v':
		return true
	}
	return false
}

// foldKey folds a brand's key, whose letters are ASCII.
func skeletonOf(key string) string {
	var s skeleton
	readSkeleton(key, &s)
	return string(s.text[:s.n])
}

// hidden stands in twins for hyphens, which leave nothing in a fold.
const ignored = '-'

// twins maps digits and letters to the one letter that stands for all that look like it.
var lookalikeOf = func() (t [utf8.RuneSelf]byte) {
	for c := range t {
		t[c] = byte(c)
	}
	for i, c := range "01i345789q_" {
		t[c] = "olleastbgg-"[i]
	}
	return t
}()

// pair returns the letter that the neighbours a and b look like together, 0 when none.
func mergePair(a, b byte) byte {
	switch {
	case a == 'r' && b == 'n', a == 'n' && b == 'n':
		return 'm'
	case a == 'v' && b == 'v':
		return 'w'
	case a == 'c' && b == 'l':
		return 'd'
	}
	return 0
}
