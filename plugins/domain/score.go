package main

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
	"assay/plugins/internal/quote"
	"assay/plugins/internal/suffix"
	"assay/sdk"
)

// host is the name to score.
type host struct {
	suffix.Host
	risk int // points of the suffix, see suffix.RiskPoints; 0 below private suffixes
}

// Score scores the name of a domain, or of the mail domain of an email address, from its parsed parts.
func Score(c *sdk.Check) sdk.Outcome {
	read, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	h := host{Host: read}
	if !h.Private {
		h.risk = suffix.RiskPoints(h.TLD)
	}

	best := findImitation(&h)
	if best.code != "" {
		if b, relation := index.owners.Lookup(&h.Host, best.match.Brand); relation == brand.Owned {
			if b.Kind() != brand.Site {
				c.Signal(-50, "domain:brand:official", quote.Of(h.Registrable)+" is a domain of "+b.Name+" itself")
			}
			return sdk.Scored
		} else if relation == brand.Plausible && best.baitPoints == 0 {
			best = finding{}
		}
	}
	threat := sdk.Threat("")
	if best.points > 0 {
		signalImitation(c, &h, &best)
		threat = sdk.Impersonation
		if best.baitPoints > 0 || best.points >= 70 {
			threat = sdk.Phishing
		}
	}
	if points := scoreScripts(c, &h, best.match.foreign && best.points >= 60); points >= 40 && threat == "" {
		threat = sdk.Impersonation
	}
	if threat != "" && !h.Private && suffix.Restricted(h.Suffix) {
		c.Signal(-60, "domain:suffix:restricted",
			"ends in ."+quote.Of(h.Suffix)+", which only public bodies or schools are given")
		threat = ""
	}
	if h.risk > 0 {
		c.Signal(scale(h.risk, shareSpelled), "domain:suffix:risky", "ends in ."+quote.Of(h.TLD)+
			", a suffix with many reported domains")
	}
	if threat != "" {
		c.Threat(threat)
	}
	return sdk.Scored
}

// findImitation returns the finding with the most points in the name and the labels left of it. Its code is "" if there
// is none.
func findImitation(h *host) finding {
	var best finding
	var r reader
	// Whether the name is that of a well-known site, and the key of a brand that it spells exactly.
	isSite, contained := false, ""
	if !brand.IsCustomer(&h.Host) { // a customer does not choose the service's name
		r.search(h.Name, func(m *match) {
			isSite = isSite || m.Kind() == brand.Site && m.form == exact && m.isWholeLabel()
			if m.form == exact && m.Kind() == brand.Coined {
				contained = m.Key
			}
			if contained != "" && m.edits > 2 && len(m.Key) > len(contained) && strings.HasPrefix(m.Key, contained) {
				return // microsoftnews contains Microsoft and is not a typo of microsoftteams
			}
			if f := scoreMatch(h, m); f.points > 0 && f.total() > best.total() || best.code == "" {
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
			if f := scoreSubdomainMatch(h, m, after); f.total() > best.total() || best.code == "" {
				best = f
			}
		})
	}
	return best
}

// signalImitation raises the signals for f.
func signalImitation(c *sdk.Check, h *host, f *finding) {
	b, written := f.match.Brand, quote.Of(f.match.written())
	var text string
	switch f.code {
	case "domain:brand:lookalike", "domain:homograph:brand":
		text = written + " looks like " + describeBrand(b) + ": " + describeDifference(f.match.written(), b.Key)
	case "domain:brand:typo":
		text = written + " is close to " + describeBrand(b) + ": "
		switch f.match.edits {
		case 0:
			text += "a hyphen inside"
		case 1:
			text += f.match.typo.text
		default:
			text += strconv.Itoa(f.match.edits) + " letters differ"
		}
	case "domain:brand:suffix":
		text = "bears the name of " + b.Name + " under ." + quote.Of(h.Suffix) + ", which is not known to be theirs"
	case "domain:brand:missing_dot":
		text = quote.Of(f.match.label) + " reads as an address of " + b.Name + " with its punctuation left out"
	case "domain:brand:subdomain":
		text = "the brand name " + b.Name + " stands in a subdomain of another domain, " + quote.Of(h.Registrable)
	case "domain:brand:address_inside":
		text = "an address of " + b.Name + " is spelt inside the name of another domain, " + quote.Of(h.Registrable)
	case "domain:brand:combined":
		text = "joins the brand name " + b.Name + " with other words, and is not known to be a domain of " + b.Name
	default:
		text = "holds the brand name " + b.Name + ", and is not known to be a domain of " + b.Name
	}
	c.Signal(scale(f.points, f.share()), f.code, text)
	if f.baitPoints > 0 {
		c.Signal(scale(f.baitPoints, shareSpelled), "domain:brand:lure_words",
			"sets "+b.Name+" beside words that bait: "+listBaitWords(f.match.label, f.match.start, f.match.end))
	}
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

// listBaitWords lists the bait words of label outside label[start:end].
func listBaitWords(label string, start, end int) string {
	list := ""
	for _, part := range [...]string{label[:start], label[end:]} {
		var space [16]bait.Match
		for _, f := range bait.Find(part, space[:0]) {
			if f.Class&(strongBait|weakBait) == 0 {
				continue
			}
			if list != "" {
				list += ", "
			}
			list += part[f.Start:f.End]
		}
	}
	if list == "" {
		return "in the rest of the name"
	}
	return quote.Of(list)
}
