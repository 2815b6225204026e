package sdk

import (
	"unicode"
	"unicode/utf8"
)

// MaxQuoteBytes is the maximum size of the result of [Quote] in bytes, without the ellipsis. A signal's text has room
// for three quotations and a sentence.
const MaxQuoteBytes = 60

// Quote returns a value in quotation marks for the end of a signal's text. No value can make the text too long or make
// hosts refuse it: Quote replaces invisible characters with "?", leaves out joining characters, and cuts a long value
// between two characters, with an ellipsis.
func Quote(value string) string {
	out := append(make([]byte, 0, MaxQuoteBytes+len("…")), "“"...)
	for _, r := range value {
		if r == '\u200c' || r == '\u200d' {
			continue
		}
		if r == utf8.RuneError || !Visible(r) {
			r = '?'
		}
		if len(out)+utf8.RuneLen(r) > MaxQuoteBytes-len("”") {
			out = append(out, "…"...)
			break
		}
		out = utf8.AppendRune(out, r)
	}
	return string(append(out, "”"...))
}

// Visible reports whether a person can see r or the space that it makes. Control, format, tag, private and unassigned
// characters, line separators, variation selectors and fillers are invisible (Unicode 4.6, 5.21, chapter 23).
func Visible(r rune) bool {
	const brailleBlank = 0x2800
	return r < utf8.RuneSelf && r >= ' ' && r != 0x7f || r >= utf8.RuneSelf && unicode.IsGraphic(r) &&
		r != brailleBlank && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
