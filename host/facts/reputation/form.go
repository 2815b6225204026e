package reputation

import "unicode/utf8"

// Names are compared by their form: one byte a letter, hyphens, dots and underscores dropped, and each run of two or
// more digits folded to a single 0, so that the members of a series (parcel-4711, parcel-4712) are one. ASCII letters
// are kept as they are; a letter of another script becomes one byte from 0x80 on, which tells the letters of one
// alphabet apart.
type form string

// Forms shorter than minForm are common words and abbreviations: nothing is like them. Longer than maxForm a form is
// cut: the bit-parallel distance works on one machine word, and no label is longer than 63 bytes (RFC 1035 section
// 2.3.4).
const (
	minForm = 7
	maxForm = 63
)

// formOf returns the form of a name in lower case, such as domain.name or email.user; ok is false when it is too short
// to say anything, or holds fewer than minLetters letters.
func formOf(name string) (f form, ok bool) {
	var buffer [maxForm]byte
	n, letters := 0, 0
	for i := 0; i < len(name) && n < maxForm; {
		c, size := rune(name[i]), 1
		switch {
		case c >= '0' && c <= '9':
			end := i + 1
			for end < len(name) && name[end] >= '0' && name[end] <= '9' {
				end++
			}
			if size = end - i; size > 1 {
				c = '0'
			}
		case c == '-' || c == '.' || c == '_':
			i++
			continue
		case c >= utf8.RuneSelf:
			c, size = utf8.DecodeRuneInString(name[i:])
			c = 0x80 | (c^c>>7)&0x7f
			letters++
		default:
			letters++
		}
		buffer[n] = byte(c)
		n++
		i += size
	}
	return form(buffer[:n]), n >= minForm && letters >= minLetters
}

// minLetters keeps names that are little but digits from being like each other.
const minLetters = 5
