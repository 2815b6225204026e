package main

import "unicode/utf8"

// maxLetters bounds what is read of one label: RFC 1035 allows 63 octets, a U-label has fewer letters than its A-label.
const maxLetters = 64

// folded is a label as the eye reads it: look-alike letters and digits are one, hyphens are gone. Two labels that fold
// to the same bytes are easily taken for each other: UTS 39's skeleton without marks, and coarser, as digits and pairs
// of letters count as what they look like.
type folded struct {
	text  [maxLetters * 2]byte
	begin [maxLetters * 2]uint16 // text[i] was read from label[begin[i]:end[i]]
	end   [maxLetters * 2]uint16
	n     int
	drawn bool // ß is read as it looks, b, rather than as it is spelt, ss
}

// unknown stands in a fold for a letter that passes for no Latin one; it equals no letter of a brand.
const unknown = 0

func fold(label string, f *folded) {
	f.n = 0
	count := 0
	for i := 0; i < len(label) && count < maxLetters; count++ {
		c := label[i]
		if c < utf8.RuneSelf {
			switch twin := twins[c]; {
			case twin == hidden:
			case joins(c):
				f.push(c, i, i+1)
			default:
				f.text[f.n], f.begin[f.n], f.end[f.n] = twin, uint16(i), uint16(i+1)
				f.n++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(label[i:])
		letters, how := reads(r)
		if r == 'ß' && f.drawn {
			letters = "b"
		}
		if how == unlike {
			f.push(unknown, i, i+size)
		}
		for at := range len(letters) {
			f.push(letters[at], i, i+size)
		}
		i += size
	}
}

// push appends one letter, merged with the one before where the pair looks like a single letter.
func (f *folded) push(c byte, begin, end int) {
	twin := twins[c]
	if f.n > 0 && joins(c) {
		if merged := pair(f.text[f.n-1], twin); merged != 0 && int(f.end[f.n-1]) == begin {
			f.text[f.n-1] = merged
			f.end[f.n-1] = uint16(end)
			return
		}
	}
	f.text[f.n], f.begin[f.n], f.end[f.n] = twin, uint16(begin), uint16(end)
	f.n++
}

// joins says whether c, or what it stands for, may look like a single letter together with the one before.
func joins(c byte) bool {
	switch twins[c] {
	case 'l', 'n', 'v':
		return true
	}
	return false
}

// foldKey folds a brand's key, whose letters are ASCII.
func foldKey(key string) string {
	var f folded
	fold(key, &f)
	return string(f.text[:f.n])
}

// hidden stands in twins for hyphens, which leave nothing in a fold.
const hidden = '-'

// twins maps digits and letters to the one letter that stands for all that look like it.
var twins = func() (t [utf8.RuneSelf]byte) {
	for c := range t {
		t[c] = byte(c)
	}
	for i, c := range "01i345789q_" {
		t[c] = "olleastbgg-"[i]
	}
	return t
}()

// pair returns the letter that the neighbours a and b look like together, 0 when none.
func pair(a, b byte) byte {
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
