package brand

import (
	_ "embed"
	"strings"
)

// Sites are the main domains of popular sites that typosquatters imitate, a line each, sorted for package wordlist.
// Unlike a brand, a site matches only a whole label or a whole part of one. Names within one edit of many legitimate
// names are left out.
//
//go:embed sites.txt
var Sites string

// NextSite returns the first label of the site at offset start in Sites, and the offset of the next site.
func NextSite(start int) (label string, next int) {
	end := start
	for Sites[end] != '.' {
		end++
	}
	next = end
	for Sites[next] != '\n' {
		next++
	}
	return Sites[start:end], next + 1
}

// SiteAt returns the site at offset start in Sites as a brand that owns its label under every suffix.
func SiteAt(start int) *Brand {
	label, next := NextSite(start)
	domain := Sites[start : next-1]
	return &Brand{Key: strings.ReplaceAll(label, "-", ""), Name: domain, kind: Site, Domains: label + ".* " + domain}
}
