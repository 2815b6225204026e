// Package quote quotes a part of an entity inside a signal's text.
package quote

import (
	"strings"
	"unicode"
	"unicode/utf8"
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

// isName reports whether s consists of the characters of ordinary names, of which none looks like a colon.
func isName(s string) bool {
	for i, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', isNamePunctuation(r):
		case r < utf8.RuneSelf, r == utf8.RuneError, isColonLetter(r), isInvisible(r):
			return false
		case i == 0 && unicode.IsMark(r), !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r):
			return false
		}
	}
	return true
}

func isNamePunctuation(r rune) bool {
	switch r {
	case '-', '.', '_', '@', '/', '&', '+', ',', '\'', ' ':
		return true
	}
	return false
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
	out := make([]byte, 0, 2*MaxBytes)
	for len(parts) > 0 {
		i := strings.IndexByte(template, '%')
		if i < 0 {
			break
		}
		part := Of(parts[0])
		if inner, quoted := strings.CutPrefix(part, "“"); quoted {
			part = strings.TrimSuffix(inner, "”")
		}
		out = append(append(out, template[:i]...), part...)
		template, parts = template[i+1:], parts[1:]
	}
	return string(append(out, template...))
}
