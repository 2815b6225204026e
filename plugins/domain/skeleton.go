package main

import "unicode/utf8"

// maxLetters is the maximum number of characters read from a label. RFC 1035 allows 63 octets, and a U-label has fewer
// characters than its A-label.
const maxLetters = 64

// skeleton is a label reduced to what it looks like, so that labels with the same skeleton are easily confused. It is
// coarser than the skeleton of UTS 39, section 4: accents and hyphens are gone, and digits and pairs of letters become
// the letter they look like.
type skeleton struct {
	text      [maxLetters * 2]byte
	begin     [maxLetters * 2]uint8 // text[i] comes from label[begin[i]:end[i]]
	end       [maxLetters * 2]uint8
	n         int
	foreign   bool // label has letters outside ASCII
	sharpSAsB bool // read ß as b, which it looks like, instead of ss
	apart     bool // do not merge pairs that look like one letter
	merged    bool // a pair was merged
}

// noLookalike replaces a letter that looks like no ASCII one. It differs from all letters of brands.
const noLookalike = 0

// readSkeleton sets s to the skeleton of label.
func readSkeleton(label string, s *skeleton) {
	s.n, s.foreign, s.merged = 0, false, false
	count := 0
	for i := 0; i < min(len(label), 252) && count < maxLetters; count++ {
		c := label[i]
		if c < utf8.RuneSelf {
			switch twin := lookalikeOf[c]; twin {
			case ignored:
			case 'l', 'n', 'v': // may be the second of a pair that looks like a single letter
				s.add(c, i, i+1)
			default:
				s.text[s.n], s.begin[s.n], s.end[s.n] = twin, uint8(i), uint8(i+1)
				s.n++
			}
			i++
			continue
		}
		s.foreign = true
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

// add appends a letter, or merges it with the previous one if the pair looks like a single letter.
func (s *skeleton) add(c byte, begin, end int) {
	twin := lookalikeOf[c]
	if s.n > 0 && !s.apart {
		if merged := mergePair(s.text[s.n-1], twin); merged != 0 && int(s.end[s.n-1]) == begin {
			s.text[s.n-1], s.merged = merged, true
			s.end[s.n-1] = uint8(end)
			return
		}
	}
	s.text[s.n], s.begin[s.n], s.end[s.n] = twin, uint8(begin), uint8(end)
	s.n++
}

// ignored is the entry of hyphens and underscores in lookalikeOf. Skeletons leave them out.
const ignored = '-'

// lookalikeOf maps each ASCII character to the letter that represents all characters that look like it.
var lookalikeOf = [utf8.RuneSelf]byte{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
	32, '!', '"', '#', '$', '%', '&', 39, '(', ')', '*', '+', ',', '-', '.', '/',
	'o', 'l', '2', 'e', 'a', 's', '6', 't', 'b', 'g', ':', ';', '<', '=', '>', '?',
	'@', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O',
	'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X', 'Y', 'Z', '[', 92, ']', '^', '-',
	'`', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'l', 'j', 'k', 'l', 'm', 'n', 'o',
	'p', 'g', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', '{', '|', '}', '~', 127,
}

// mergePair returns the letter that a followed by b looks like, or 0.
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
