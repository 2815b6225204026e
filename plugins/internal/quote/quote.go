// Package quote quotes a part of an entity inside a signal's text.
package quote

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/sdk"
)

// Of returns s in a form that is safe to show, wherever it appears in a text. A text longer than sdk.MaxQuoteBytes is
// cut between two characters and ends in "…". If s contains characters that names do not, [sdk.Quote] quotes
// it, so that it cannot be read as a part of the sentence, or as the beginning of one of the host's
// (sdk.ValidText).
func Of(s string) string {
	if !isName(s) {
		return sdk.Quote(s)
	}
	if len(s) <= sdk.MaxQuoteBytes {
		return s
	}
	end := sdk.MaxQuoteBytes
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// isName reports whether s consists of the characters of ordinary names, none of which looks like a colon, and does not
// begin with a space.
func isName(s string) bool {
	if s != "" && s[0] == ' ' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf {
			return isForeignName(s)
		} else if nameBytes[c>>6]>>(c&63)&1 == 0 {
			return false
		}
	}
	return true
}

// nameBytes has a bit for each ASCII character of names: letters, digits and "-._@/&+,' ".
var nameBytes = [...]uint64{0x3fff8c100000000, 0x7fffffe87ffffff}

func isForeignName(s string) bool {
	for i, r := range s {
		switch {
		case r < utf8.RuneSelf:
			if nameBytes[r>>6]>>(r&63)&1 == 0 {
				return false
			}
		case r == utf8.RuneError, isColonLetter(r), !sdk.Visible(r):
			return false
		case i == 0 && unicode.IsMark(r), !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r):
			return false
		}
	}
	return true
}

// isColonLetter reports whether r is a letter or a mark that looks like a colon (UTS 39).
func isColonLetter(r rune) bool {
	switch r {
	case 'ː', 'ˑ', 'ः', 'ઃ', 'ꓽ':
		return true
	}
	return false
}

// Fill returns template with each "%" replaced by the next of parts, so that a layer's texts can be one table. A part
// is shown as [Of] shows it, without further quotation marks: the template has them where a quotation needs them.
func Fill(template string, parts ...string) string {
	pieces := make([]string, 0, 8) // of up to three parts; more would cost memory
	for len(parts) > 0 {
		i := strings.IndexByte(template, '%')
		if i < 0 {
			break
		}
		part := Of(parts[0])
		if inner, quoted := strings.CutPrefix(part, "“"); quoted {
			part = strings.TrimSuffix(inner, "”")
		}
		pieces = append(pieces, template[:i], part)
		template, parts = template[i+1:], parts[1:]
	}
	return sdk.Join(append(pieces, template)...)
}
