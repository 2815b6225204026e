// Package quote quotes a part of an entity inside a signal's text.
package quote

import "unicode/utf8"

// MaxBytes bounds what is quoted, so that three excerpts and a sentence stay under the 240 bytes of a signal's text.
const MaxBytes = 60

// Of returns s safe to show: at most MaxBytes bytes cut between two characters with "…" at the cut, every byte that is
// not UTF-8 and every control, line separator or bidi control replaced by "?".
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

// plain says whether s is printable ASCII throughout, the case that needs no copy.
func isPrintableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// hidden says whether r changes how the text around it is laid out: the characters that a signal's text must not hold.
func isUnsafe(r rune) bool {
	return r < 0x20 || (r >= 0x7f && r < 0xa0) || r == 0x2028 || r == 0x2029 || (r >= 0x202a && r <= 0x202e) ||
		(r >= 0x2066 && r <= 0x2069)
}
