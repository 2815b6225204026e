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

// host is the name under judgement.
type host struct {
	suffix.Host
	risk int // points of the suffix, 0 for most
}

// Score judges the name of a domain, or of an email's mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	read, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	h := host{Host: read}
	if !h.Private {
		h.risk = suffix.Risk(h.TLD)
	}

	best := borrowed(&h)
	if best.code != "" {
		if b, how := known.owners.Of(&h.Host, best.hit.Brand); how == brand.Owner {
			if b.Kind() != brand.Site {
				c.Signal(-50, "domain:brand:official", quote.Of(h.Registrable)+" is a domain of "+b.Name+" itself")
			}
			return sdk.Scored
		} else if how == brand.Akin && best.extra == 0 {
			best = verdict{}
		}
	}
	threat := sdk.Threat("")
	if best.points > 0 {
		explain(c, &h, &best)
		threat = sdk.Impersonation
		if best.extra > 0 || best.points >= 70 {
			threat = sdk.Phishing
		}
	}
	if points := scripts(c, &h, best.hit.foreign && best.points >= 60); points >= 40 && threat == "" {
		threat = sdk.Impersonation
	}
	if threat != "" && !h.Private && suffix.Restricted(h.Suffix) {
		c.Signal(-60, "domain:suffix:restricted",
			"ends in ."+quote.Of(h.Suffix)+", which only public bodies or schools are given")
		threat = ""
	}
	if h.risk > 0 {
		c.Signal(part(h.risk, spelledOut), "domain:suffix:risky", "ends in ."+quote.Of(h.TLD)+
			", a suffix with many reported domains")
	}
	if threat != "" {
		c.Threat(threat)
	}
	return sdk.Scored
}

// borrowed returns the strongest borrowing in the name and the labels left of it.
func borrowed(h *host) verdict {
	var best verdict
	var r reader
	itself, holds := false, ""
	if !brand.Customer(&h.Host) { // whose host's name is not theirs to choose
		r.search(h.Name, func(found *hit) {
			itself = itself || found.Kind() == brand.Site && found.form == plain && found.whole()
			if found.form == plain && found.Kind() == brand.Coined {
				holds = found.Key
			}
			if holds != "" && found.edits > 2 && len(found.Key) > len(holds) && strings.HasPrefix(found.Key, holds) {
				return // microsoftnews holds Microsoft, and is no slip of microsoftteams
			}
			if v := judge(h, found); v.points > 0 && v.points+v.extra > best.points+best.extra || best.code == "" {
				best = v
			}
		})
	}
	if itself && !h.Private && suffix.Slip(h.Suffix) == 0 {
		best = verdict{} // whatever else it resembles, it is a well-known site's name
	}
	for labels, rest, more := 0, h.Subdomain, h.Subdomain != ""; more && labels < 8; labels++ {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		after := rest
		r.search(label, func(found *hit) {
			if v := judgeLeft(h, found, after); v.points+v.extra > best.points+best.extra || best.code == "" {
				best = v
			}
		})
	}
	return best
}

// explain turns the borrowing into signals.
func explain(c *sdk.Check, h *host, v *verdict) {
	b, written := v.hit.Brand, quote.Of(v.hit.written())
	var text string
	switch v.code {
	case "domain:brand:lookalike", "domain:homograph:brand":
		text = written + " looks like " + spelt(b) + ": " + swapped(v.hit.written(), b.Key)
	case "domain:brand:typo":
		text = written + " is close to " + spelt(b) + ": "
		switch v.hit.edits {
		case 0:
			text += "a hyphen inside"
		case 1:
			text += v.hit.slip.text
		default:
			text += strconv.Itoa(v.hit.edits) + " letters differ"
		}
	case "domain:brand:suffix":
		text = "bears the name of " + b.Name + " under ." + quote.Of(h.Suffix) + ", which is not known to be theirs"
	case "domain:brand:missing_dot":
		text = quote.Of(v.hit.label) + " reads as an address of " + b.Name + " with its punctuation left out"
	case "domain:brand:subdomain":
		text = "the brand name " + b.Name + " stands in a subdomain of another domain, " + quote.Of(h.Registrable)
	case "domain:brand:address_inside":
		text = "an address of " + b.Name + " is spelt inside the name of another domain, " + quote.Of(h.Registrable)
	case "domain:brand:combined":
		text = "joins the brand name " + b.Name + " with other words, and is not known to be a domain of " + b.Name
	default:
		text = "holds the brand name " + b.Name + ", and is not known to be a domain of " + b.Name
	}
	c.Signal(part(v.points, v.share()), v.code, text)
	if v.extra > 0 {
		c.Signal(part(v.extra, spelledOut), "domain:brand:lure_words",
			"sets "+b.Name+" beside words that bait: "+baits(v.hit.label, v.hit.start, v.hit.end))
	}
}

// spelt names a brand, with the spelling that is meant where its name does not show it, as in steamcommunity for Steam.
func spelt(b *brand.Brand) string {
	letters := 0
	for _, r := range b.Name {
		if r >= utf8.RuneSelf {
			return b.Name // spelt with marks that the key has not
		}
		if c := lower(byte(r)); letters < len(b.Key) && c == b.Key[letters] {
			letters++
		}
	}
	if letters == len(b.Key) {
		return b.Name
	}
	return b.Key + " (" + b.Name + ")"
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// baits lists the lure words of label outside start and end.
func baits(label string, start, end int) string {
	list := ""
	for _, part := range [...]string{label[:start], label[end:]} {
		var space [16]bait.Found
		for _, f := range bait.In(part, space[:0]) {
			if f.Class&(strongLures|weakLures) == 0 {
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
