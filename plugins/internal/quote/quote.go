// Package quote quotes a part of an entity inside a signal's text.
package quote

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/sdk"
)

// MaxBytes is the maximum length of a quotation without the ellipsis. It leaves room for three quotations and a
// sentence in a signal's text (240 bytes).
const MaxBytes = 60

// Of returns s in a form that is safe to show, wherever it appears in a text. Bytes that are not UTF-8 and characters
// that cannot be seen become "?", and joining characters are left out. A text longer than MaxBytes bytes is cut between
// two characters and ends in "…". If s contains other characters than names do, it is set in quotation marks, so that
// it cannot be read as a part of the sentence, or as the beginning of one of the host's (sdk.ValidText).
func Of(s string) string {
	plain := isName(s)
	if len(s) <= MaxBytes && plain {
		return s
	}
	maxBytes := MaxBytes
	out := make([]byte, 0, MaxBytes+len("…"))
	if !plain {
		maxBytes -= len("”")
		out = append(out, "“"...)
	}
	for _, r := range s {
		if r == '\u200c' || r == '\u200d' {
			continue
		}
		if isInvisible(r) || r == utf8.RuneError {
			r = '?'
		}
		if len(out)+utf8.RuneLen(r) > maxBytes {
			out = append(out, "…"...)
			break
		}
		out = utf8.AppendRune(out, r)
	}
	if !plain {
		out = append(out, "”"...)
	}
	return string(out)
}

// isName reports whether s consists of the characters of ordinary names, of which none looks like a colon, and does not
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
		case r == utf8.RuneError, isColonLetter(r), isInvisible(r):
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

// isInvisible reports whether a signal's text must not contain r.
func isInvisible(r rune) bool {
	return !unicode.IsGraphic(r) || r == 0x2800 ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
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
