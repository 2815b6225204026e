package main

import (
	"strings"

	"assay/plugins/excerpt"
	"assay/sdk"
)

// scripts signals letters of several scripts in one label, and labels of another script that read as Latin throughout. It
// returns the points given. spoken says that a brand was already named for the foreign letters.
func scripts(c *sdk.Check, h *host, spoken bool) int {
	if !strings.Contains(h.ASCII, "xn--") {
		return 0
	}
	all := c.Get("domain.scripts")
	if !strings.Contains(all, "Cyrillic") && !strings.Contains(all, "Greek") && !strings.Contains(all, "Armenian") &&
		!strings.Contains(all, "Cherokee") && !strings.Contains(all, "Coptic") && !strings.Contains(all, "Lisu") {
		return 0
	}
	points := 0
	for label := range strings.SplitSeq(all, ".") {
		if first, second, mixed := strings.Cut(label, "+"); mixed && confusing(first) && confusing(second) {
			points = 60
			c.Signal(points, "domain:homograph:mixed_scripts", "one label mixes letters of "+excerpt.Of(first)+" and "+
				excerpt.Of(strings.ReplaceAll(second, "+", " and "))+", which look alike")
			break
		}
	}
	if points > 0 || spoken {
		return points
	}
	if latinLook(h.Name) && !homeOfScripts(h.TLD) {
		points = 35
		c.Signal(points, "domain:homograph:whole_script",
			excerpt.Of(h.Name)+" has no Latin letter, yet every letter looks like one")
	}
	return points
}

// confusing says whether a script, or the first of several joined by "+", shares letter shapes with Latin.
func confusing(script string) bool {
	script, _, _ = strings.Cut(script, "+")
	switch script {
	case "Latin", "Cyrillic", "Greek", "Armenian", "Cherokee", "Coptic", "Lisu":
		return true
	}
	return false
}

// latinLook says whether label holds three letters or more, none of them ASCII, that most typefaces draw as Latin ones.
func latinLook(label string) bool {
	letters := 0
	for _, r := range label {
		if r < 0x80 {
			if r >= 'a' && r <= 'z' {
				return false
			}
			continue
		}
		if _, _, how := latin(r); how != same {
			return false
		}
		letters++
	}
	return letters >= 3
}

// homeOfScripts says whether tld belongs to a country, or is itself in a script, where such words are at home.
func homeOfScripts(tld string) bool {
	if strings.HasPrefix(tld, "xn--") {
		return true
	}
	switch tld {
	case "ru", "su", "bg", "rs", "me", "ba", "mk", "ua", "by", "kz", "kg", "tj", "mn", "uz", "gr", "cy", "am", "moscow":
		return true
	}
	return false
}
