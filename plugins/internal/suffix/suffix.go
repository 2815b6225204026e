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

// Odds returns how much more frequent a top-level domain is among reported names than among legitimate ones, in tenths
// of the natural logarithm: 10 if it is e times as frequent, negative if it is less frequent. The values come from a
// logistic regression that also included the wording of names, with every list of reports weighted by the square root
// of its length. The domain of a country that only one list reports has the value of its region.
func Odds(tld string) int {
	switch tld {
	case "cyou", "hair", "mom":
		return 36
	case "autos", "rest", "sbs", "shop", "skin":
		return 32
	case "buzz", "cfd", "icu", "top":
		return 28
	case "click", "digital", "gq", "help", "lat", "qpon", "site":
		return 24
	case "bond", "casa", "cf", "fun", "ga", "gift", "info", "live", "market", "ml", "online", "store":
		return 20
	case "finance", "land", "life", "monster", "network", "om", "pro", "website", "xyz":
		return 16
	case "bar", "cam", "club", "homes", "loan", "lol", "pw", "vu", "world":
		return 12
	case "app", "asia", "bd", "best", "ci", "cm", "exchange", "fyi", "gifts", "ink", "ltd", "ng", "pics", "space",
		"support", "tk", "trade", "vip":
		return 8
	case "ae", "bid", "company", "cr", "fit", "guru", "host", "im", "ke", "link", "lk", "media", "one", "pm", "py",
		"re", "ru", "su", "tf", "today", "us", "ve", "wtf", "yt":
		return 4
	case "ac", "cloud", "com", "dev", "dz", "ec", "fm", "games", "gg", "in", "ly", "ma", "me", "mk", "mobi", "ms", "my",
		"net", "ovh", "rs", "services", "si", "th", "tools", "uy", "vn", "win", "za":
		return -4
	case "ai", "ar", "blog", "br", "by", "chat", "do", "email", "global", "il", "io", "is", "kr", "kz", "lu", "lv",
		"mx", "name", "news", "pe", "pl", "ro", "st", "systems", "to", "xxx":
		return -8
	case "ag", "au", "cat", "eu", "gr", "ie", "ir", "lt", "moe", "no", "nu", "nz", "pt", "sg", "sh", "sk", "tr", "tv",
		"ua", "uz":
		return -12
	case "be", "ee", "es", "fi", "hk", "hr", "hu", "jp", "org", "se", "tw", "uk":
		return -16
	case "at", "bg", "ca", "ch", "dk", "it", "xn--p1ai":
		return -20
	case "cz", "de", "edu", "gov", "nl":
		return -24
	}
	return 0
}

// HostedOdds is like [Odds] for names under a shared suffix. The values are limited to 22, less than counted, because
// lists of legitimate names lack most small sites.
func HostedOdds(suffix string) int {
	switch suffix {
	case "weebly.com", "wixstudio.com", "pages.dev", "duckdns.org", "netlify.app", "blogspot.com", "co.com",
		"lovable.app", "ru.com", "web.app", "framer.app", "vercel.app", "firebaseapp.com", "eu.cc", "webflow.io":
		return 22
	case "herokuapp.com", "ddns.net", "cprapid.com", "wordpress.com", "fly.dev", "uk.com", "us.com", "in.net", "it.com",
		// Blogs, by judgement, because no list reports any.
		"livejournal.com", "medium.com", "substack.com", "tumblr.com", "typepad.com":
		return 5
	}
	return 15
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
// arbitrary sites there. Such a name is neither the service's own nor that of a site builder.
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
