package main

import (
	"strings"

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

// texts holds the text of every signal. BRAND stands for the name of the brand, and DETAIL for what the name does to
// it or for the evidence in quotation marks.
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
	{codeRestricted, "Suffix DETAIL is only given to public bodies and schools"},
}

// textOf returns the text of the signal code.
func textOf(code, brand, detail string) string {
	for i := range texts {
		if texts[i].code == code {
			text := strings.ReplaceAll(texts[i].text, "BRAND", brand)
			return strings.Replace(text, "DETAIL", detail, 1)
		}
	}
	return ""
}

// maxQuoted is the number of bytes of a name that a text quotes. A brand, a letter and a name fit into 100 characters.
const maxQuoted = 32

// quoted returns s in quotation marks, shortened to about maxQuoted bytes.
func quoted(s string) string {
	if len(s) > maxQuoted {
		cut := 0
		for i := range s {
			if i > maxQuoted {
				break
			}
			cut = i
		}
		s = s[:cut] + "…"
	}
	if q := quote.Of(s); strings.HasPrefix(q, "“") {
		return q
	}
	return "“" + s + "”"
}
