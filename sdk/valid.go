//go:build !wasip1

// These checks are for hosts and Run. They stay out of guests, because fmt would make each guest larger and the host
// checks every answer anyway.

package sdk

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValidCode returns an error unless code is a signal code: three or more words of a-z, 0-9, '_' or '-', joined by
// colons as group:kind:detail (contract section 2.3).
func ValidCode(code string) error {
	if len(code) > MaxCodeBytes {
		return fmt.Errorf("signal code of %d bytes is longer than %d", len(code), MaxCodeBytes)
	}
	parts, word := 1, 0
	for i := range len(code) {
		switch c := code[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
			word++
		case c == ':' && word > 0:
			parts, word = parts+1, 0
		default:
			return fmt.Errorf("signal code %q is not of the form group:kind:detail in a-z, 0-9, _ and -", code)
		}
	}
	if parts < 3 || word == 0 {
		return fmt.Errorf("signal code %q is not of the form group:kind:detail", code)
	}
	return nil
}

// ValidText returns an error if text cannot be shown to a person: if it is empty, longer than MaxTextBytes, not UTF-8,
// contains a character that cannot be seen, or begins like the host's own sentences. A reader must see everything that
// a text contains, and know who wrote it.
func ValidText(text string) error {
	if text == "" {
		return fmt.Errorf("signal text is empty")
	}
	if len(text) > MaxTextBytes {
		return fmt.Errorf("signal text of %d bytes is longer than %d", len(text), MaxTextBytes)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("signal text is not UTF-8")
	}
	visible, previous := false, ' '
	for i, r := range text {
		switch {
		case isJoinControl(r):
			next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
			if !mayJoin(previous, next) {
				return fmt.Errorf("signal text contains the joining character U+%04X outside of a word that needs it",
					r)
			}
		case unicode.IsControl(r):
			return fmt.Errorf("signal text contains the control character U+%04X", r)
		case !Visible(r):
			return fmt.Errorf("signal text contains the invisible character U+%04X", r)
		case !visible && unicode.IsMark(r):
			return fmt.Errorf("signal text begins with the combining character U+%04X", r)
		case !unicode.IsSpace(r):
			visible = true
		}
		previous = r
	}
	if !visible {
		return fmt.Errorf("signal text is blank")
	}
	if imitatesHost(text) {
		return fmt.Errorf("signal text begins like %q, the beginning of the host's own sentences", HostText)
	}
	return nil
}

// CutText returns a text that is longer than MaxTextBytes as the host shows it: cut at the end of a character, with an
// ellipsis and the quotation mark that closes what the cut left open. It returns any other text as it is. A long value
// inside a text must not cost the layer its answer.
func CutText(text string) string {
	if len(text) <= MaxTextBytes {
		return text
	}
	room := MaxTextBytes - len("…") - len("”")
	for room > 0 && !utf8.RuneStart(text[room]) {
		room--
	}
	kept := strings.TrimRightFunc(text[:room], isJoinControl) // a joiner must not end a word
	cut := kept + "…"
	switch {
	case strings.Count(cut, "“") > strings.Count(cut, "”"):
		return cut + "”"
	case strings.Count(cut, `"`)%2 == 1:
		return cut + `"`
	}
	return cut
}

// HostText is the beginning of the sentences that the host itself adds to an answer. ValidText refuses texts that begin
// with it or with something that looks like it.
const HostText = "Assay: "

// isJoinControl reports whether r is the zero width non-joiner or joiner.
func isJoinControl(r rune) bool { return r == 0x200c || r == 0x200d }

// mayJoin reports whether a joining character may appear between two others: after a virama, as in the languages of
// India, and between letters of scripts that are written joined, as in Persian (RFC 5892, appendix A).
func mayJoin(before, after rune) bool {
	return isVirama(before) || isCursive(before) && isCursive(after)
}

// isCursive reports whether r belongs to a script that is written joined, or is a mark that any script may use.
func isCursive(r rune) bool {
	return unicode.In(r, unicode.Adlam, unicode.Arabic, unicode.Hanifi_Rohingya, unicode.Inherited, unicode.Mandaic,
		unicode.Manichaean, unicode.Mongolian, unicode.Nko, unicode.Phags_Pa, unicode.Psalter_Pahlavi,
		unicode.Sogdian, unicode.Syriac)
}

// imitatesHost reports whether text begins like HostText, ignoring case, spaces, accents and the difference between
// characters that look alike. The word may begin a text, as in a name such as assay.example, but not before punctuation
// that could pass for a colon. A text that begins with a quotation mark is a quotation.
func imitatesHost(text string) bool {
	const word, inNames, quotes = "assay", "-._@/&+,'’\"”»)", "'\"‘“‚„«‹"
	matched := 0
	for _, r := range text {
		if isColon(r) {
			r = ':'
		}
		decomposed := string(r)
		if r >= utf8.RuneSelf {
			decomposed = decompose(r)
		}
		for _, folded := range decomposed {
			folded = lookalike(unicode.ToLower(folded))
			switch {
			case unicode.IsSpace(folded), unicode.IsMark(folded), isJoinControl(folded):
			case matched == len(word):
				return !unicode.IsLetter(folded) && !unicode.IsNumber(folded) && !strings.ContainsRune(inNames, folded)
			case folded == rune(word[matched]):
				matched++
			case matched > 0, unicode.IsLetter(folded), unicode.IsNumber(folded), strings.ContainsRune(quotes, folded):
				return false // another word; other punctuation before the first word is skipped
			}
		}
	}
	return false
}

// isColon reports whether r looks like a colon (UTS 39).
func isColon(r rune) bool {
	return strings.ContainsRune(":ːˑ˸։׃܃܄ःઃ᛬᠃᠉⁚∶ꓽ꞉︓︰﹕：", r)
}

// lookalike returns the letter of the host's name that r, in lower case and without accents, looks like (UTS 39), or r.
func lookalike(r rune) rune {
	switch {
	case strings.ContainsRune("4@ɐɑɒαаꭺᗅᴀ⍶⍺ꓮꭤ𐊠𖽀", r):
		return 'a'
	case strings.ContainsRune("5$ƽʂѕտടჽꮥꮪᵴꓢꕶꜱ𐊖𐑈𐐠𑣁𖫖𖼺", r):
		return 's'
	case strings.ContainsRune("¥ƴɏɣʏγуүұߌყꭹꮍᶌỿⲩㄚ丫ꓬꚳꭚ𐊲𐰠𑣄𑣜𖽃", r):
		return 'y'
	}
	return r
}
