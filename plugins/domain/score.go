package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/bait"
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
		if b, relation := index.owners.Lookup(&h.Host, best.match.Brand); relation == brand.Owned {
			if b.Kind() != brand.Site {
				c.Signal(0, codeOfficial, textOf(codeOfficial, b.Name, ""))
			}
			return sdk.Scored
		} else if relation == brand.Plausible && best.match.around.classes&strongBait == 0 {
			best = finding{}
		}
	}
	if best.points > 0 && !h.Private && suffix.Restricted(h.Suffix) {
		c.Signal(0, codeRestricted, textOf(codeRestricted, "", quoted("."+h.Suffix)))
		return sdk.Scored
	}
	if best.points > 0 {
		c.Signal(best.points, best.code, textOf(best.code, describeBrand(best.match.Brand), best.describe(&h)))
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

// findImitation returns the finding with the most points in the name and the labels left of it. Its code is "" if there
// is none.
func findImitation(h *host) finding {
	var best finding
	var r reader
	// Whether the name is that of a well-known site, and the key of a brand that it spells exactly.
	isSite, contained, exactFrom, exactTo := false, "", 0, 0
	if !brand.IsCustomer(&h.Host) { // a customer does not choose the service's name
		r.search(h.Name, func(m *match) {
			isSite = isSite || m.Kind() == brand.Site && m.form == exact && m.isWholeLabel()
			if m.form == exact && m.Kind() == brand.Coined {
				contained, exactFrom, exactTo = m.Key, m.start, m.end
			}
			if m.form == misspelled && m.start == exactFrom && m.end == exactTo {
				return // wikipedia is not a typo of wikimedia
			}
			if contained != "" && m.edits > 2 && len(m.Key) > len(contained) && strings.HasPrefix(m.Key, contained) {
				return // microsoftnews contains Microsoft and is not a typo of microsoftteams
			}
			if f := scoreMatch(h, m); f.points > best.points || best.code == "" {
				best = f
			}
		})
	}
	if isSite && !h.Private && suffix.TypoPoints(h.Suffix) == 0 {
		best = finding{} // a well-known site's own name, whatever else it resembles
	}
	for labels, rest, more := 0, h.Subdomain, h.Subdomain != ""; more && labels < 8; labels++ {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		after := rest
		r.search(label, func(m *match) {
			if f := scoreSubdomainMatch(h, m, after); f.points > best.points || best.code == "" {
				best = f
			}
		})
	}
	return best
}

// describe returns the detail of the finding's text.
func (f *finding) describe(h *host) string {
	m := &f.match
	detail := ""
	switch f.code {
	case codeHomograph, codeLookalike, codeTypo, codeTypos, codeSimilar:
		switch {
		case m.form == misspelled && m.edits == 1:
			detail = m.typo.text
		case m.form == misspelled, m.form == exact:
			detail = quoted(m.written())
		default:
			detail = describeDifference(m.written(), m.Key)
		}
		if words := listBaitWords(m.label, m.start, m.end); f.code != codeSimilar && m.hasStrongBait() && words != "" {
			detail += ", next to " + words
		}
		return detail
	case codeHyphen:
		return quoted(m.written())
	case codeMissingDot:
		return quoted(m.label)
	case codeBaitWords, codeCombined:
		return listBaitWords(m.label, m.start, m.end)
	case codeAddressInside, codeSubdomain, codeSuffixTypo, codeSuffix:
		return quoted(h.Registrable)
	}
	return quoted("." + h.Suffix)
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

// listBaitWords lists up to two bait words of label outside label[start:end].
func listBaitWords(label string, start, end int) string {
	list, count := "", 0
	for _, part := range [...]string{label[:start], label[end:]} {
		var space [16]bait.Match
		for _, f := range bait.Find(part, space[:0]) {
			if f.Class&(strongBait|weakBait) == 0 || count == 2 {
				continue
			}
			if count++; count > 1 {
				list += ", "
			}
			list += quoted(part[f.Start:f.End])
		}
	}
	return list
}
