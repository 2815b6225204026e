package main

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// code numbers the layer's signals: texts[code] has the code's name and text.
type code uint8

const (
	noCode code = iota
	codeHomograph
	codeLookalike
	codeTypo
	codeTypos
	codeHyphen
	codeMissingDot
	codeSiteMissingDot
	codeAddressInside
	codeBaitWords
	codeCombined
	codeBait
	codeBeside
	codeSubdomain
	codeSuffixTypo
	codeElsewhere
	codeSuffix
	codeInside
	codeSimilar
	codeOfficial
	codeMixedScripts
	codeRareLetter
	codeWholeScript
	codeGovernment
	codeUnknownSuffix
	codeRestricted
)

// texts holds the name and the text of every signal. The text is before, the name of the brand if there is one, and
// after. The difference between the domain's name and the brand's follows, or the evidence in quotation marks.
var texts = [...]struct{ name, before, after string }{
	codeHomograph:      {signalHomographBrand, "Imitates ", ": "},
	codeLookalike:      {signalBrandLookalike, "Imitates ", ": "},
	codeTypo:           {signalBrandTypo, "One letter away from ", ": "},
	codeTypos:          {signalBrandTypos, "Two letters away from ", ": "},
	codeHyphen:         {signalBrandHyphen, "Spells ", " with a hyphen inside: "},
	codeMissingDot:     {signalBrandMissingDot, "Address of ", " without its dots: "},
	codeSiteMissingDot: {signalSiteMissingDot, "Address of ", " without its dots: "},
	codeAddressInside:  {signalBrandAddressInside, "Address of ", " inside another domain: "},
	codeBaitWords:      {signalBrandBaitWords, "", " with bait words, not a known domain of it: "},
	codeCombined:       {signalBrandCombined, "", " with bait words, not a known domain of it: "},
	codeBait:           {signalBrandBait, "Bait words next to ", ": "},
	codeBeside:         {signalBrandBeside, "", " next to other words, not a known domain of it: "},
	codeSubdomain:      {signalBrandSubdomain, "", " left of another domain: "},
	codeSuffixTypo:     {signalBrandSuffixTypo, "Address of ", " with a slip in its suffix: "},
	codeElsewhere:      {signalBrandElsewhere, "", " is not known to own "},
	codeSuffix:         {signalBrandSuffix, "", " is not known to own "},
	codeInside:         {signalBrandInside, "Contains the name ", ", not a known domain of it"},
	codeSimilar:        {signalBrandSimilar, "Resembles ", ": "},
	codeOfficial:       {signalBrandOfficial, "Known domain of ", ""},
	codeMixedScripts:   {signalHomographMixedScripts, "Mixes ", ""},
	codeRareLetter:     {signalHomographRareLetter, "Uses a letter of hardly any language: ", ""},
	codeWholeScript:    {signalHomographWholeScript, "Written in ", ""},
	codeGovernment:     {signalGovernmentSuffix, "Suffix of a government inside another domain: ", ""},
	codeUnknownSuffix:  {signalSuffixUnknown, "No such suffix exists: ", ""},
	codeRestricted:     {signalSuffixRestricted, "Suffix that only public bodies and schools are given: ", ""},
}

// writer collects the text of a signal: a sentence and at most three quotations of maxQuoted bytes.
type writer struct {
	text [512]byte
	n    int
}

// startText returns a writer with the text of c up to the detail.
func startText(c code, brand string) *writer {
	w := desk()
	w.n = 0
	w.write(texts[c].before)
	w.write(brand)
	w.write(texts[c].after)
	return w
}

// signal raises the signal c with the text of w.
func (w *writer) signal(check *sdk.Check, points int, c code) {
	check.Signal(points, texts[c].name, unsafe.String(&w.text[0], w.n))
}

func (w *writer) write(s string) { w.n += copy(w.text[w.n:], s) }

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
	if !isPlain(cut) {
		if q := quote.Of(cut); strings.HasPrefix(q, "“") {
			w.write(q)
			return
		}
	}
	w.plain(cut)
}

// isPlain reports whether s consists of the characters of host names.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && c != '-' && c != '.' && !isDigit(c) {
			return false
		}
	}
	return true
}

// plain writes s, which needs no check, in quotation marks.
func (w *writer) plain(s string) {
	w.write("“")
	w.write(s)
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
			w.write("0123456789ABCDEF"[digit : digit+1])
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

// difference writes the first difference of m from its brand.
func (w *writer) difference(m *match) {
	r, size := utf8.DecodeRuneInString(m.mine)
	switch {
	case m.mine == "":
		w.quote(m.written())
	case m.theirs == "":
		w.write("extra ")
		w.rune(r)
	case size > 1:
		w.rune(r)
		w.write(" in place of ")
		w.quote(m.theirs)
	default:
		if len(m.mine) == 1 && isDigit(m.mine[0]) {
			w.write("digit ")
		}
		w.instead(m.mine, m.theirs)
	}
}

// baitWords writes the bait words next to a brand, after prefix. It writes nothing if there is none.
func (w *writer) baitWords(prefix string, m *match) {
	for _, word := range m.around.words[:m.around.count] {
		w.write(prefix)
		w.quote(m.label[word.from:word.to])
		prefix = ", "
	}
}
