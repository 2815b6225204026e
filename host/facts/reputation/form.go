package reputation

import "unicode/utf8"

// A form is the normalised spelling in which names are compared, one byte per letter. Hyphens, dots and underscores are
// dropped, and each run of two or more digits becomes a single 0, so that names of a series (parcel-4711, parcel-4712)
// have the same form. ASCII letters are unchanged. Any other letter becomes one byte from 0x80 to 0xff, which
// distinguishes the letters of one alphabet.
type form string

// Forms shorter than minForm are common words and abbreviations and are never compared. Forms are cut at maxForm,
// because the bit-parallel distance uses one machine word; no label is longer (RFC 1035 section 2.3.4).
const (
	minForm = 7
	maxForm = 63
)

// minLetters keeps names that consist mostly of digits from matching each other.
const minLetters = 5

// formOf returns the form of a lower-case name, such as the fact domain.name or email.user. It reports false when the
// form is too short or has too few letters to be compared.
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
