package main

import (
	"strconv"
	"strings"

	"assay/plugins/excerpt"
	"assay/plugins/lure"
	"assay/plugins/suffix"
	"assay/sdk"
)

// verdict is the strongest borrowing of a brand that the layer found.
type verdict struct {
	points int // of the borrowing itself
	extra  int // for lure words beside it
	code   string
	hit    hit
}

// Score judges the name of a domain, or of an email's mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	h := host{ascii: c.Get("domain.ascii"), registrable: c.Get("domain.registrable"), suffix: c.Get("domain.suffix")}
	name := c.Get("domain.name")
	if h.ascii == "" || name == "" {
		return sdk.Abstained
	}
	subdomain := c.Get("domain.subdomain")
	h.private = c.Get("domain.suffix_kind") == "private"
	if site, rest, ok := suffix.Site(h.registrable, subdomain); ok {
		h.suffix, h.registrable = h.registrable, site+"."+h.registrable
		name, subdomain, h.private = site, rest, true
	}
	tld := c.Get("domain.tld")
	if !h.private {
		h.risk = suffix.Risk(tld)
	}

	best := borrowed(&h, name, subdomain)
	if best.code != "" {
		if b, how := known.ownerOf(&h, best.hit.brand); how == owner {
			c.Signal(-50, "domain:brand:official", excerpt.Of(h.registrable)+" is a domain of "+b.name+" itself")
			return sdk.Scored
		} else if how == akin && best.extra == 0 {
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
	if points := scripts(c, name, tld, best.hit.foreign && best.points >= 60); points >= 40 && threat == "" {
		threat = sdk.Impersonation
	}
	if threat != "" && !h.private && suffix.Restricted(h.suffix) {
		c.Signal(-60, "domain:suffix:restricted",
			"ends in ."+excerpt.Of(h.suffix)+", which only public bodies or schools are given")
		threat = ""
	}
	if h.risk > 0 {
		c.Signal(h.risk, "domain:suffix:risky", "ends in ."+excerpt.Of(tld)+", a suffix with many reported domains")
	}
	if threat != "" {
		c.Threat(threat)
	}
	return sdk.Scored
}

// borrowed returns the strongest borrowing in the name and the labels left of it.
func borrowed(h *host, name, subdomain string) verdict {
	var best verdict
	var f folded
	search(name, &f, func(found *hit) {
		if v := judge(h, found); v.points > 0 && v.points+v.extra > best.points+best.extra || best.code == "" {
			best = v
		}
	})
	for labels, rest, more := 0, subdomain, subdomain != ""; more && labels < 8; labels++ {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		after := rest
		search(label, &f, func(found *hit) {
			if v := judgeLeft(h, found, after, name); v.points+v.extra > best.points+best.extra || best.code == "" {
				best = v
			}
		})
	}
	return best
}

// judge weighs a brand in the label next to the suffix.
func judge(h *host, found *hit) verdict {
	v := verdict{hit: *found, code: "domain:brand:inside"}
	r := &found.rest
	strong := r.lures&strongLures != 0
	letters := len(found.key)
	glued := !found.apart
	switch found.form {
	case plain:
		switch {
		case found.whole():
			v.code = "domain:brand:suffix"
			v.points = elsewhere(h, found)
		case found.kind == short:
			if strong && r.covered && found.apart {
				v.points, v.extra = 30, 30
			}
		case found.kind == word:
			switch {
			case strong && r.covered && (found.apart || letters >= 6):
				v.points, v.extra = 30, 30
			case strong && found.apart:
				v.points, v.extra = 20, 25
			}
		case strong && r.covered:
			v.points, v.extra = 50, 40
		case strong && (found.apart || letters >= 7):
			v.points, v.extra = 40, 30
		case r.covered && r.lures&weakLures != 0:
			v.points, v.extra = 30, 15
		case r.covered && (found.apart || letters >= 6):
			v.points = 45
		case found.apart:
			v.points = 40
		case letters >= 8:
			v.points = 20
		}
		if v.extra > 0 {
			v.code = "domain:brand:combined"
		}
	case disguised:
		v.code = "domain:brand:lookalike"
		if found.foreign {
			v.code = "domain:homograph:brand"
		}
		switch {
		case found.kind == short:
			if found.apart && strong && r.covered {
				v.points = 40
			}
		case found.kind == word && glued, letters < 5, glued && letters < 6, ordinary(found.written()):
		case letters < 6 && found.changes > 1 && !found.foreign:
		case found.kind == word:
			v.points = 65
		case glued:
			v.points = 70
		default:
			v.points = 90
		}
		if strong && v.points > 0 {
			v.extra = 25
		}
	case twisted:
		v.code = "domain:brand:lookalike"
		switch {
		case found.kind == short || letters < 5 || ordinary(found.written()) || letters < 8 && found.changes > 1:
		case found.kind == word:
			if found.apart && letters >= 6 {
				v.points = 45
			}
		case glued && letters >= 8:
			v.points = 75
		case glued:
		case letters >= 7:
			v.points = 85
		case letters == 6:
			v.points = 75
		default:
			v.points = 55
		}
		if strong && v.points > 0 {
			v.extra = 25
		}
	case misspelt:
		v.code = "domain:brand:typo"
		v.points = typoPoints(found, strong)
		if strong && v.points > 0 {
			v.extra = 25
		}
	}
	if h.private && v.points > 0 && !found.whole() && !suffix.Neutral(h.suffix) {
		v.points = min(v.points+10, 100)
	}
	return v
}

// typoPoints weighs a misspelling: the longer the key, the surer that it is meant.
func typoPoints(found *hit, lured bool) int {
	letters := len(found.key)
	written := found.written()
	natural := found.edits == 1 && found.slip.natural
	head := written[0] == found.key[0]
	tail := written[len(written)-1] == found.key[letters-1]
	switch {
	case found.kind != coined:
		if lured && natural && letters >= 6 {
			return 25
		}
		return 0
	case found.edits == 1:
		points := 30
		switch {
		case letters >= 10:
			points = 85
		case letters >= 8:
			points = 75
		case letters == 7:
			points = 65
		case letters == 6:
			points = 35
		}
		switch {
		case letters < 7 && !(natural && head) && !lured:
			return 0
		case !head && letters < 9:
			points -= 30
		case !natural && found.slip.several:
			points -= 30
		case !natural:
			points -= 15
		}
		return max(points, 0)
	case !head || !tail && !lured:
		return 0
	case found.edits == 2 && letters >= 13:
		return 80
	case found.edits == 2 && letters >= 11:
		return 60
	case found.edits == 2:
		return 30
	case written[:2] != found.key[:2]:
		return 0
	}
	return 60
}

// elsewhere weighs a label that is nothing but the brand, under a suffix that is not known to be the brand's.
func elsewhere(h *host, found *hit) int {
	switch {
	case found.kind != coined:
		return 0
	case h.private:
		if suffix.Neutral(h.suffix) {
			return 0
		}
		return 40
	case h.suffix == "cm" || h.suffix == "om" || h.suffix == "ne":
		return 55
	case h.risk > 0:
		return 40
	case len(found.key) >= 7 && !strings.Contains(found.own, ".*"):
		return 25
	}
	return 0
}

// judgeLeft weighs a brand in a label left of the registrable domain; after is what stands between them.
func judgeLeft(h *host, found *hit, after, name string) verdict {
	v := judge(h, found)
	if found.form != plain {
		v.points = v.points * 4 / 5
		return v
	}
	following := name
	if after != "" {
		following = after
	}
	v = verdict{hit: *found, code: "domain:brand:subdomain"}
	strong := found.rest.lures&strongLures != 0
	switch {
	case found.whole() && posesAsSuffix(found.brand, following, after == ""):
		v.code, v.points = "domain:brand:address_inside", 90
	case found.kind == coined && strong && found.rest.covered:
		v.points, v.extra = 40, 25
	case found.kind == coined && found.whole():
		v.points = 40
		if h.private && !suffix.Neutral(h.suffix) {
			v.points = 50
		}
	case found.kind == coined && found.apart:
		v.points = 35
	case found.kind == word && found.whole() && h.risk > 0:
		v.points = 20
	}
	if v.points > 0 && v.extra == 0 && wordsOf(name)&(strongLures&^lure.Support) != 0 {
		v.extra = 20
	}
	return v
}

func wordsOf(label string) lure.Class {
	var space [16]lure.Found
	var all lure.Class
	for _, f := range lure.In(label, space[:0]) {
		all |= f.Class
	}
	return all
}

// posesAsSuffix says whether following, right of a brand's label, begins as the suffix of one of the brand's addresses
// would: ".com." and ".com-" in paypal.com.example.net and paypal.com-id.net.
func posesAsSuffix(b *brand, following string, last bool) bool {
	label, _, more := strings.Cut(following, ".")
	token, _, hyphen := strings.Cut(label, "-")
	if !hyphen && last && !more {
		return false
	}
	if token == "com" || token == "net" || token == "org" {
		return true
	}
	if token == "" {
		return false
	}
	for pattern := range strings.FieldsSeq(b.own) {
		if rest, ok := strings.CutPrefix(pattern, b.key+"."); ok && (rest == token || strings.HasPrefix(rest, token+".")) {
			return true
		}
	}
	return false
}

// explain turns the borrowing into signals.
func explain(c *sdk.Check, h *host, v *verdict) {
	b, written := v.hit.brand, excerpt.Of(v.hit.written())
	var text string
	switch v.code {
	case "domain:brand:lookalike", "domain:homograph:brand":
		text = written + " looks like " + b.name + ": " + swapped(v.hit.written(), b.key)
	case "domain:brand:typo":
		text = written + " is close to " + b.name + ": "
		if v.hit.edits == 1 {
			text += v.hit.slip.text
		} else {
			text += strconv.Itoa(v.hit.edits) + " letters differ"
		}
	case "domain:brand:suffix":
		text = "bears the name of " + b.name + " under ." + excerpt.Of(h.suffix) + ", which is not known to be theirs"
	case "domain:brand:subdomain":
		text = "the brand name " + b.name + " stands in a subdomain of another domain, " + excerpt.Of(h.registrable)
	case "domain:brand:address_inside":
		text = "an address of " + b.name + " is spelt inside the name of another domain, " + excerpt.Of(h.registrable)
	case "domain:brand:combined":
		text = "joins the brand name " + b.name + " with other words, and is not a domain of " + b.name
	default:
		text = "holds the brand name " + b.name + ", and is not known to be a domain of " + b.name
	}
	c.Signal(v.points, v.code, text)
	if v.extra > 0 {
		c.Signal(v.extra, "domain:brand:lure_words",
			"sets "+b.name+" beside words that bait: "+baits(v.hit.label, v.hit.start, v.hit.end))
	}
}

// baits lists the lure words of label outside start and end.
func baits(label string, start, end int) string {
	list := ""
	for _, part := range [...]string{label[:start], label[end:]} {
		var space [16]lure.Found
		for _, f := range lure.In(part, space[:0]) {
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
	return excerpt.Of(list)
}
