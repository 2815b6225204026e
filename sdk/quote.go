package sdk

import (
	"unicode"
	"unicode/utf8"
)

// MaxQuoteBytes is the most bytes of what [Quote] returns, without the ellipsis. Three quotations and a sentence fit
// into a signal's text.
const MaxQuoteBytes = 60

// Quote returns a value in quotation marks for the end of a signal's text, so that no value makes the text too long or
// one that hosts refuse: what a person cannot see becomes "?", characters that join others are left out, and a long
// value is cut between two characters, with an ellipsis.
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

// Visible reports whether a person can see r, or the space that it makes: no control, format, tag, private or
// unassigned character, line separator, variation selector or filler (Unicode 4.6, 5.21 and chapter 23).
func Visible(r rune) bool {
	const brailleBlank = 0x2800
	return r < utf8.RuneSelf && r >= ' ' && r != 0x7f || r >= utf8.RuneSelf && unicode.IsGraphic(r) &&
		r != brailleBlank && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
