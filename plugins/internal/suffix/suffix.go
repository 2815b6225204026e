// Package suffix splits host names at their public suffix and classifies suffixes: how often fraud uses them, and who
// can get a name under them. The public suffix itself comes from the host's facts.
package suffix

import (
	"strings"

	"assay/plugins/internal/wordlist"
)

// RiskPoints returns points, 0 to 30, for a top-level domain that is much more frequent among reported names than among
// legitimate ones, and 0 for any other. The points grow with the logarithm of the ratio. They are too few to lead to a
// review without other evidence.
func RiskPoints(tld string) int {
	switch tld {
	case "cyou":
		return 27
	case "shop":
		return 24
	case "top", "sbs":
		return 22
	case "autos", "ml":
		return 19
	case "click", "cfd", "icu":
		return 18
	case "gq":
		return 17
	case "site", "ga":
		return 16
	case "online", "live", "cf":
		return 15
	case "xyz":
		return 14
	case "hair", "store", "fun":
		return 13
	case "help", "rest", "tk", "qpon", "mom":
		return 12
	case "pro", "website", "lat":
		return 11
	case "skin", "buzz", "bond":
		return 10
	case "life", "club":
		return 9
	case "info", "digital", "monster":
		return 8
	case "space":
		return 7
	case "finance", "lol", "pw":
		return 6
	case "casa":
		return 5
	case "world", "support", "gift":
		return 4
	case "ltd", "ink", "best", "cam":
		return 3
	}
	return 0
}

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

// siteBuilders lists site builders and free web hosts that the Public Suffix List lacks.
const siteBuilders = "" +
	"000webhostapp.com 25u.com 42web.io 50webs.com altervista.org angelfire.com at.ua beehiiv.com bigcartel.com " +
	"bio.link blog.hu blog.jp bravesites.com byethost.com canalblog.com canva.site cargo.site carrd.co " +
	"clickfunnels.com cloudwaysapps.com ct.ws dreamwidth.org dumb1.com durable.co dynamic-dns.net dynssl.com " +
	"edgeone.app epizy.com fartit.com forumotion.com gamma.site ghost.io glitch.me godaddysites.com great-site.net " +
	"gumroad.com hostingersite.com hubspotpagebuilder.com infinityfreeapp.com instanthq.com itch.io itemdb.com " +
	"jetos.com jimdo.com jimdofree.com jimdosite.com jimdoweb.com jungleheart.com lflinkup.com linkpc.net " +
	"liveblog365.com livejournal.com longmusic.com mailchimpsites.com medium.com mrbasic.com multiscreensite.com " +
	"mybluehost.me myclickfunnels.com mykajabi.com myportfolio.com mystrikingly.com narod.ru neocities.org " +
	"notion.site nxcli.io one.page onedumb.com otzo.com over-blog.com podia.com proboards.com rf.gd site123.me " +
	"skyrock.com softr.app square.site squarespace.com strikingly.com substack.com surge.sh systeme.io teachable.com " +
	"thinkific.com tiiny.site tilda.ws tistory.com tripod.com tumblr.com typepad.com ucoz.net ucraft.site ukit.me " +
	"unaux.com vizvaz.com webador.com webcindario.com webnode.com webnode.cz webnode.es webnode.fr webnode.page " +
	"webs.com weebly.com wikaba.com wikidot.com wixsite.com wixstudio.com wordpress.com work.gd x10.mx x24hr.com " +
	"yolasite.com zyrosite.com "

// tenantServices lists services that give each customer a label, for example for a help desk, files or fan pages.
const tenantServices = "" +
	"atlassian.net bandcamp.com deviantart.com fandom.com freshdesk.com hubspot.com onmicrosoft.com sharepoint.com " +
	"typeform.com wikia.com zendesk.com "

// HasTenants reports whether names under registrable belong to customers of the service, although they cannot publish
// arbitrary sites there. Such a name belongs neither to the service nor to a site builder.
func HasTenants(registrable string) bool { return wordlist.Has(tenantServices, registrable) }

// SplitSite splits a subdomain of a site builder into the label that the site's owner chose and the labels left of it.
// ok is false if registrable is not a site builder or the subdomain does not name a site.
func SplitSite(registrable, subdomain string) (name, rest string, ok bool) {
	if subdomain == "" || !wordlist.Has(siteBuilders, registrable) {
		return "", "", false
	}
	if dot := strings.LastIndexByte(subdomain, '.'); dot >= 0 {
		return subdomain[dot+1:], subdomain[:dot], subdomain[dot+1:] != "www" && subdomain[dot+1:] != ""
	}
	return subdomain, "", subdomain != "www"
}
