package main

import (
	"strings"

	"assay/plugins/suffix"
	"assay/sdk"
)

// Score judges the wording and the build of a domain's name, or of an email's mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	name := c.Get("domain.name")
	if name == "" {
		return sdk.Abstained
	}
	subdomain := c.Get("domain.subdomain")
	under := c.Get("domain.suffix")
	private := c.Get("domain.suffix_kind") == "private"
	hosted := private && !suffix.Neutral(under)
	if !private && suffix.Restricted(under) {
		return sdk.Scored // public bodies and schools have long names that hold many words of trust
	}
	if site, rest, ok := suffix.Site(c.Get("domain.registrable"), subdomain); ok {
		name, subdomain, private, hosted = site, rest, true, true
	}
	tld := c.Get("domain.tld")

	var w wording
	w.covered = w.add(name)
	w.inName = w.n
	for label := range strings.SplitSeq(subdomain, ".") {
		w.add(label)
	}
	threat := sdk.Threat("")
	if points := w.points(hosted); points > 0 {
		t := w.theme()
		text := "joins words that bait with " + t.text + ": " + w.list()
		if w.n == 1 {
			text = "is a word that baits with " + t.text + " and little else: " + w.list()
		}
		c.Signal(points, t.code, text)
		if points >= 25 {
			threat = t.threat
		}
	}
	built := structure(c, place{name, subdomain, tld, private, hosted})
	if threat == "" && built >= 40 {
		threat = sdk.Spam
	}
	if threat != "" {
		c.Threat(threat)
	}
	return sdk.Scored
}
