// Package suffix knows which top-level domains are reported far more often than they are used.
package suffix

import "strings"

// risky gives points to top-level domains that are reported far more often than they are used: each about nine
// times the log of how much more of the reports than of the benign names end in it, counted over 16 lists of reports with
// the loudest list left out, and kept only with at least 60 reports from three lists. Thirty at most: a suffix alone never
// leads to a review.
const risky = " cyou:27 shop:24 top:22 sbs:22 autos:19 ml:19 click:18 cfd:18 icu:18 gq:17 site:16 ga:16 online:15" +
	" live:15 cf:15 xyz:14 hair:13 store:13 fun:13 help:12 rest:12 pro:11 website:11 lat:11 skin:10 info:8 buzz:10 life:9" +
	" club:9 digital:8 tk:12 bond:10 qpon:12 space:7 finance:6 lol:6 casa:5 pw:6 world:4 support:4 mom:12 monster:8 ltd:3 ink:3" +
	" best:3 cam:3 gift:4 "

// Risk returns the points, 0 to 30, of a top-level domain; 0 for most.
func Risk(tld string) int {
	if strings.ContainsAny(tld, ": ") {
		return 0
	}
	i := strings.Index(risky, " "+tld+":")
	if i < 0 {
		return 0
	}
	points := 0
	for _, c := range risky[i+len(tld)+2:] {
		if c < '0' || c > '9' {
			break
		}
		points = points*10 + int(c-'0')
	}
	return points
}

// neutral lists shared suffixes under which projects, companies' own services and delivery networks name their machines.
const neutral = " github.io gitlab.io readthedocs.io js.org eu.org sourceforge.io sourceforge.net akamaized.net akamaihd.net" +
	" akamai.net edgesuite.net azurewebsites.net trafficmanager.net azureedge.net cloudapp.net googleapis.com" +
	" awsglobalaccelerator.com elb.amazonaws.com cloudfront.net fastly.net debian.net freedesktop.org "

// Neutral says whether names under a shared suffix are mostly chosen by developers, so that brands' and lures' words in
// them say little.
func Neutral(suffix string) bool {
	return suffix != "" && strings.IndexByte(suffix, ' ') < 0 && strings.Contains(neutral, " "+suffix+" ") ||
		strings.HasSuffix(suffix, ".amazonaws.com") && !strings.HasPrefix(suffix, "s3")
}

// Restricted says whether a public suffix is given only to public bodies, schools and the like, after a check of papers:
// gov, edu, mil and int, and the same under a country, as in gov.uk, gob.es, gouv.fr, ac.at or edu.pl.
func Restricted(suffix string) bool {
	first, _, _ := strings.Cut(suffix, ".")
	switch first {
	case "gov", "edu", "mil":
		return true
	case "int":
		return suffix == "int"
	case "gob", "gub", "gouv", "govt", "ac", "go", "gv", "police", "nhs":
		return first != suffix
	}
	return false
}

// builders lists site builders and free hosts that no public suffix list holds, under which anybody names a site.
const builders = " weebly.com glitch.me 000webhostapp.com godaddysites.com webcindario.com myportfolio.com teachable.com ct.ws" +
	" rf.gd surge.sh ghost.io mybluehost.me wixstudio.com wixsite.com square.site site123.me yolasite.com strikingly.com" +
	" mystrikingly.com canva.site notion.site webnode.page carrd.co bio.link jimdosite.com jimdofree.com ucraft.site" +
	" tilda.ws ucoz.net altervista.org byethost.com wikaba.com onedumb.com longmusic.com otzo.com linkpc.net work.gd "

// Site returns the label that the owner of a site under such a host chose, and what stands left of it; ok is false when
// registrable is no such host or nothing stands left of it.
func Site(registrable, subdomain string) (name, rest string, ok bool) {
	if subdomain == "" || registrable == "" || strings.IndexByte(registrable, ' ') >= 0 ||
		!strings.Contains(builders, " "+registrable+" ") {
		return "", "", false
	}
	if dot := strings.LastIndexByte(subdomain, '.'); dot >= 0 {
		return subdomain[dot+1:], subdomain[:dot], subdomain[dot+1:] != "www" && subdomain[dot+1:] != ""
	}
	return subdomain, "", subdomain != "www"
}
