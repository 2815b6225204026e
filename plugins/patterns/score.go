package main

import (
	"strings"

	"assay/plugins/suffix"
	"assay/sdk"
)

// Score judges the wording and the build of a domain's name, or of an email's mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	h, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	if !h.Private && suffix.Restricted(h.Suffix) {
		return sdk.Scored // public bodies and schools have long names that hold many words of trust
	}
	w := wording{name: h.Name}
	w.nameClasses, w.covered = w.add(h.Name)
	w.inName = w.n
	for rest, more := h.Subdomain, h.Subdomain != ""; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		classes, _ := w.add(label)
		w.leftClasses |= classes
	}
	b := buildOf(&h)

	threat := sdk.Threat("")
	if points := w.points(&h); points > 0 {
		t := w.theme()
		text := "joins words that bait with " + t.text + ": " + w.list()
		if w.n == 1 {
			text = "is a word that baits with " + t.text + " and little else: " + w.list()
		}
		c.Signal(points, t.code, text)
		if points >= 13 {
			threat = t.threat
		}
	}
	built := structure(c, &h, &b)
	weigh(c, &h, &w, &b)
	if threat == "" && built >= 24 {
		threat = sdk.Spam
	}
	if threat != "" {
		c.Threat(threat)
	}
	return sdk.Scored
}
