// Package suffix splits host names at their public suffix and classifies suffixes: how often fraud uses them, and who
// can get a name under them. The public suffix itself comes from the host's facts.
package suffix

import (
	"strings"

	"assay/plugins/internal/wordlist"
)

// risky lists top-level domains that are much more frequent among reported names than among legitimate ones.
const risky = "" +
	"autos best bond buzz cam casa cf cfd click club cyou digital finance fun ga gift gq hair help icu info ink " +
	"lat life live lol ltd ml mom monster online pro pw qpon rest sbs shop site skin space store support tk top " +
	"website world xyz "

// IsRisky reports whether a top-level domain is on that list. The suffix alone does not make a name suspicious.
func IsRisky(tld string) bool { return wordlist.Has(risky, tld) }

// TypoPoints returns points, 0 to 75, for a suffix that is com, org or net without one of its letters.
func TypoPoints(suffix string) int {
	switch suffix {
	case "cm", "om", "ne":
		return 75
	case "co":
		return 60
	}
	return 0
}

// neutralSuffixes lists shared suffixes for projects, companies' own services, content delivery networks and devices.
const neutralSuffixes = "" +
	"akamai.net akamaihd.net akamaized.net appspot.com awsglobalaccelerator.com azurecontainerapps.io " +
	"azureedge.net azurewebsites.net cloudapp.azure.com cloudapp.net cloudfront.net debian.net dyndns.org " +
	"edgesuite.net elb.amazonaws.com eu.org fastly.net freedesktop.org github.io gitlab.io googleapis.com " +
	"in-addr.arpa js.org msk.ru myds.me myfritz.net noho.st nohost.me plex.direct readthedocs.io run.app " +
	"sourceforge.io sourceforge.net spb.ru synology.me trafficmanager.net ts.net tuxfamily.org ui.direct ynh.fr "

// Neutral reports whether names under a shared suffix are mostly chosen by developers or assigned to devices, so that
// brands and bait words in them mean little.
func Neutral(suffix string) bool {
	return wordlist.Has(neutralSuffixes, suffix) || strings.HasSuffix(suffix, ".amazonaws.com") &&
		!strings.HasPrefix(suffix, "s3")
}

// Restricted reports whether only verified public bodies or schools can register names under a public suffix: gov, edu,
// mil, int and their equivalents in countries, such as gov.uk, gob.es, gouv.fr, ac.at and edu.pl.
func Restricted(suffix string) bool {
	n := 0
	for n < len(suffix) && suffix[n] != '.' {
		n++
	}
	switch first := suffix[:n]; first {
	case "gov", "edu", "mil":
		return true
	case "int":
		return suffix == "int"
	case "gob", "gub", "gouv", "govt", "ac", "go", "gv", "police", "nhs":
		return first != suffix
	}
	return false
}

// tenantServices lists services that give each customer a label, for example for a help desk, files or fan pages.
const tenantServices = "" +
	"atlassian.net bandcamp.com deviantart.com fandom.com feishu.cn freshdesk.com gorgias.help helpscoutdocs.com " +
	"hubspot.com larksuite.com odoo.com onmicrosoft.com readme.io screenconnect.com sharepoint.com typeform.com " +
	"wikia.com zendesk.com "

// HasTenants reports whether names under registrable belong to customers of the service, although they cannot publish
// arbitrary sites there. Such a name belongs neither to the service nor to a site builder.
func HasTenants(registrable string) bool { return wordlist.Has(tenantServices, registrable) }
