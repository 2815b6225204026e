package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/quote"
)

// The codes of the layer's signals.
const (
	codeHomograph     = "domain:homograph:brand"
	codeLookalike     = "domain:brand:lookalike"
	codeTypo          = "domain:brand:typo"
	codeTypos         = "domain:brand:typos"
	codeHyphen        = "domain:brand:hyphen"
	codeMissingDot    = "domain:brand:missing_dot"
	codeAddressInside = "domain:brand:address_inside"
	codeBaitWords     = "domain:brand:bait_words"
	codeCombined      = "domain:brand:combined"
	codeSubdomain     = "domain:brand:subdomain"
	codeSuffixTypo    = "domain:brand:suffix_typo"
	codeSuffix        = "domain:brand:suffix"
	codeInside        = "domain:brand:inside"
	codeSimilar       = "domain:brand:similar"
	codeOfficial      = "domain:brand:official"
	codeMixedScripts  = "domain:homograph:mixed_scripts"
	codeRareLetter    = "domain:homograph:rare_letter"
	codeWholeScript   = "domain:homograph:whole_script"
	codeRestricted    = "domain:suffix:restricted"
)

// texts holds the text of every signal. BRAND stands for the name of the brand, and DETAIL, at the end, for what the
// name does to it or for the evidence in quotation marks.
var texts = [...]struct{ code, text string }{
	{codeHomograph, "Imitates BRAND: DETAIL"},
	{codeLookalike, "Imitates BRAND: DETAIL"},
	{codeTypo, "One letter away from BRAND: DETAIL"},
	{codeTypos, "Two letters away from BRAND: DETAIL"},
	{codeHyphen, "Spells BRAND with a hyphen inside: DETAIL"},
	{codeMissingDot, "Address of BRAND without its dots: DETAIL"},
	{codeAddressInside, "Address of BRAND inside another domain: DETAIL"},
	{codeBaitWords, "BRAND with bait words, not a known domain of it: DETAIL"},
	{codeCombined, "BRAND with bait words, not a known domain of it: DETAIL"},
	{codeSubdomain, "BRAND with bait words left of another domain: DETAIL"},
	{codeSuffixTypo, "Address of BRAND with a slip in its suffix: DETAIL"},
	{codeSuffix, "BRAND is not known to own DETAIL"},
	{codeInside, "Contains the name BRAND, not a known domain of it"},
	{codeSimilar, "Resembles BRAND: DETAIL"},
	{codeOfficial, "Known domain of BRAND"},
	{codeMixedScripts, "Mixes DETAIL"},
	{codeRareLetter, "Uses a letter of hardly any language: DETAIL"},
	{codeWholeScript, "Written in DETAIL"},
	{codeRestricted, "Suffix that only public bodies and schools are given: DETAIL"},
}

// A writer collects the text of a signal.
type writer struct{ text []byte }

// fill writes the text of code up to its DETAIL.
func (w *writer) fill(code, brand string) {
	for i := range texts {
		if texts[i].code != code {
			continue
		}
		rest := strings.TrimSuffix(texts[i].text, "DETAIL")
		for at := strings.Index(rest, "BRAND"); at >= 0; at = strings.Index(rest, "BRAND") {
			w.write(rest[:at])
			w.write(brand)
			rest = rest[at+len("BRAND"):]
		}
		w.write(rest)
		return
	}
}

func (w *writer) write(s string) { w.text = append(w.text, s...) }

// maxQuoted is the number of bytes of a name that a text quotes. A brand, a letter and a name fit into 100 characters.
const maxQuoted = 32

// quote writes s in quotation marks, shortened to about maxQuoted bytes.
func (w *writer) quote(s string) {
	cut := s
	if len(s) > maxQuoted {
		at := maxQuoted
		for at > 0 && !utf8.RuneStart(s[at]) {
			at--
		}
		cut = s[:at] + "…"
	}
	for i := range len(cut) {
		if c := cut[i]; c >= utf8.RuneSelf || c <= ' ' || c == '"' || c == 0x7f || c == ':' {
			if q := quote.Of(cut); strings.HasPrefix(q, "“") {
				w.write(q)
				return
			}
			break
		}
	}
	w.write("“")
	w.write(cut)
	w.write("”")
}

// instead writes that a name has mine where a brand has theirs.
func (w *writer) instead(mine, theirs string) {
	w.quote(mine)
	w.write(" in place of ")
	w.quote(theirs)
}

// rune writes r and its code point, as in “а” (U+0430).
func (w *writer) rune(r rune) {
	w.quote(string(r))
	w.write(" (U+")
	for shift := 16; shift >= 0; shift -= 4 {
		if digit := r >> shift & 15; digit > 0 || shift <= 12 {
			w.text = append(w.text, "0123456789ABCDEF"[digit])
		}
	}
	w.write(")")
}

// typo writes what a typo changes.
func (w *writer) typo(t *typo) {
	switch t.kind {
	case swapped:
		w.quote(t.theirs)
		w.write(" swapped")
	case doubled:
		w.quote(t.mine)
		w.write(" doubled")
	case extra:
		w.write("extra ")
		w.quote(t.mine)
	case missing:
		w.quote(t.theirs)
		w.write(" missing")
	default:
		w.instead(t.mine, t.theirs)
	}
}

// difference writes the first difference between written and key, which have the same skeleton.
func (w *writer) difference(written, key string) {
	found := false
	eachDifference(written, key, func(_ int, mine, theirs string) bool {
		found = true
		switch r, size := utf8.DecodeRuneInString(mine); {
		case theirs == "":
			w.write("extra ")
			w.rune(r)
		case size > 1:
			w.rune(r)
			w.write(" in place of ")
			w.quote(theirs)
		default:
			if len(mine) == 1 && isDigit(mine[0]) {
				w.write("digit ")
			}
			w.instead(mine, theirs)
		}
		return false
	})
	if !found {
		w.quote(written)
	}
}

// baitWords writes up to two bait words of label outside label[start:end], after prefix. It writes nothing if there is
// none.
func (w *writer) baitWords(prefix, label string, start, end int) {
	count := 0
	for _, part := range [...]string{label[:start], label[end:]} {
		var space [16]bait.Match
		for _, f := range bait.Find(part, space[:0]) {
			if f.Class&(strongBait|weakBait) == 0 || count == 2 {
				continue
			}
			w.write(prefix)
			w.quote(part[f.Start:f.End])
			count++
			prefix = ", "
		}
	}
}
