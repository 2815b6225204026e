// Package quote quotes a part of an entity inside a signal's text.
package quote

import "unicode/utf8"

// MaxBytes is the maximum length of a quotation without the ellipsis. It leaves room for three quotations and a
// sentence in a signal's text (240 bytes).
const MaxBytes = 60

// Of returns s in a form that is safe to show. Bytes that are not UTF-8, control characters, line separators and bidi
// controls become "?". A text longer than MaxBytes bytes is cut between two characters and ends in "…".
func Of(s string) string {
	if len(s) <= MaxBytes && isPrintableASCII(s) {
		return s
	}
	out := make([]byte, 0, MaxBytes+len("…"))
	for _, r := range s {
		if isUnsafe(r) || r == utf8.RuneError {
			r = '?'
		}
		if len(out)+utf8.RuneLen(r) > MaxBytes {
			return string(append(out, "…"...))
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// isPrintableASCII reports whether s is printable ASCII, which needs no copy.
func isPrintableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isUnsafe reports whether a signal's text must not contain r, because it changes the layout of the text around it.
func isUnsafe(r rune) bool {
	return r < 0x20 || (r >= 0x7f && r < 0xa0) || r == 0x2028 || r == 0x2029 || (r >= 0x202a && r <= 0x202e) ||
		(r >= 0x2066 && r <= 0x2069)
}
