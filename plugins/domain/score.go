package main

import (
	"unicode/utf8"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/suffix"
	"assay/sdk"
)

// host is the name to score.
type host struct{ suffix.Host }

// Score scores the name of a domain, or of the mail domain of an email address, from its parsed parts.
func Score(c *sdk.Check) sdk.Outcome {
	read, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	h := host{read}
	best := findImitation(&h)
	if best.code != "" {
		if b, relation := brand.Lookup(&h.Host, best.match.Brand); relation == brand.Owned {
			if b.Kind() != brand.Site {
				var w writer
				w.fill(codeOfficial, b.Name)
				c.Signal(0, codeOfficial, string(w.text))
			}
			return sdk.Scored
		} else if relation == brand.Plausible && best.match.around.classes&strongBait == 0 {
			best = finding{}
		}
	}
	if best.points > 0 && !h.Private && suffix.Restricted(h.Suffix) {
		var w writer
		w.fill(codeRestricted, "")
		w.quote("." + h.Suffix)
		c.Signal(0, codeRestricted, string(w.text))
		return sdk.Scored
	}
	if best.points > 0 {
		c.Signal(best.points, best.code, best.text(&h))
		if best.points >= reviewPoints {
			c.Threat(sdk.Phishing)
		} else {
			c.Threat(sdk.Impersonation)
		}
	}
	if points := scoreScripts(c, &h, best.code == codeHomograph); points >= 40 && best.points == 0 {
		c.Threat(sdk.Impersonation)
	}
	return sdk.Scored
}

// text returns the text of the finding's signal.
func (f *finding) text(h *host) string {
	m := &f.match
	w := writer{make([]byte, 0, 128)}
	w.fill(f.code, describeBrand(m.Brand))
	switch f.code {
	case codeHomograph, codeLookalike, codeTypo, codeTypos, codeSimilar:
		switch {
		case m.form == misspelled && m.edits == 1:
			w.typo(&m.typo)
		case m.form == misspelled:
			w.quote(m.written())
		default:
			w.difference(m.written(), m.Key)
		}
		if f.code != codeSimilar && m.hasStrongBait() {
			w.baitWords(", next to ", m.label, m.start, m.end)
		}
	case codeHyphen:
		w.quote(m.written())
	case codeMissingDot:
		w.quote(m.label)
	case codeBaitWords, codeCombined:
		w.baitWords("", m.label, m.start, m.end)
	case codeAddressInside, codeSubdomain, codeSuffixTypo, codeSuffix:
		w.quote(h.Registrable)
	}
	return string(w.text)
}

// describeBrand returns the brand's name, with the key in front if the name does not spell it, as in "steamcommunity
// (Steam)".
func describeBrand(b *brand.Brand) string {
	letters := 0
	for _, r := range b.Name {
		if r >= utf8.RuneSelf {
			return b.Name // spelled with letters that the key replaces
		}
		if c := toLower(byte(r)); letters < len(b.Key) && c == b.Key[letters] {
			letters++
		}
	}
	if letters == len(b.Key) {
		return b.Name
	}
	return b.Key + " (" + b.Name + ")"
}

func toLower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
