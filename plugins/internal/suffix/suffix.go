// Package suffix parts the name of a host at its public suffix, and knows which suffixes are reported far more often
// than they are used, and what it means that a suffix is shared.
package suffix

import (
	"strings"

	"assay/plugins/internal/wordlist"
)

// Risk returns points, 0 to 30, for top-level domains that are reported far more often than they are used, 0 for the
// others: each about nine times the log of how much more of the reports than of the benign names end in it, counted
// over 16 lists of reports with the loudest list left out, and kept only with at least 60 reports from three lists. A
// suffix alone never leads to a review.
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

// Slip gives points, 0 to 75, to suffixes that are .com, .org or .net with a letter lost.
func TypoPoints(suffix string) int {
	switch suffix {
	case "cm", "om", "ne":
		return 75
	case "co":
		return 60
	}
	return 0
}

// Odds returns how much oftener reported names end in a top-level domain than honest ones do, in tenths of the natural
// logarithm: 10 for e times as often, below 0 for those that honest names end in more often. They come from a logistic
// regression beside traits of the names themselves, over some 270,000 names in which every list
// of reports counts by the root of its length; domains of countries that one list alone reports are set to what their
// region has.
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
		"mx",
		"name", "news", "pe", "pl", "ro", "st", "systems", "to", "xxx":
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

// HostedOdds returns the like of Odds for names under a shared suffix: at most 22, less than counted, as lists of
// honest names hold few of the many small honest sites.
func HostedOdds(suffix string) int {
	switch suffix {
	case "weebly.com", "wixstudio.com", "pages.dev", "duckdns.org", "netlify.app", "blogspot.com", "co.com",
		"lovable.app",
		"ru.com", "web.app", "framer.app", "vercel.app", "firebaseapp.com", "eu.cc", "webflow.io":
		return 22
	case "herokuapp.com", "ddns.net", "cprapid.com", "wordpress.com", "fly.dev", "uk.com", "us.com", "in.net", "it.com",
		"livejournal.com", "medium.com", "substack.com", "tumblr.com", "typepad.com": // blogs, by judgement: no list reports any
		return 5
	}
	return 15
}

// neutral lists shared suffixes under which projects, companies' own services, delivery networks and people's own
// devices are named.
const neutralSuffixes = "" +
	"akamai.net akamaihd.net akamaized.net appspot.com awsglobalaccelerator.com azurecontainerapps.io " +
	"azureedge.net azurewebsites.net cloudapp.azure.com cloudapp.net cloudfront.net debian.net dyndns.org " +
	"edgesuite.net elb.amazonaws.com eu.org fastly.net freedesktop.org github.io gitlab.io googleapis.com " +
	"in-addr.arpa js.org msk.ru myds.me myfritz.net noho.st nohost.me plex.direct readthedocs.io run.app " +
	"sourceforge.io sourceforge.net spb.ru synology.me trafficmanager.net ts.net tuxfamily.org ui.direct ynh.fr "

// Neutral says whether names under a shared suffix are mostly chosen by developers, so that brands' and lures' words in
// them say little.
func Neutral(suffix string) bool {
	return wordlist.Has(neutralSuffixes, suffix) || strings.HasSuffix(suffix, ".amazonaws.com") &&
		!strings.HasPrefix(suffix, "s3")
}

// Restricted says whether a public suffix is given only to public bodies, schools and the like, after a check of
// papers: gov, edu, mil and int, and the same under a country, as in gov.uk, gob.es, gouv.fr, ac.at or edu.pl.
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

// tenants lists services that give each customer a label, be it a shop's help desk, a firm's files or a fan's pages.
const tenantServices = "" +
	"atlassian.net bandcamp.com deviantart.com fandom.com freshdesk.com hubspot.com onmicrosoft.com sharepoint.com " +
	"typeform.com wikia.com zendesk.com "

// Tenants says whether names below registrable are its customers', though nobody puts up a site of any kind there: such
// a name is neither the service's own nor one of a free host.
func HasTenants(registrable string) bool { return wordlist.Has(tenantServices, registrable) }

// Site returns the label that the owner of a site under such a host chose, and what stands left of it; ok is false when
// registrable is no such host or nothing stands left of it.
func SplitSite(registrable, subdomain string) (name, rest string, ok bool) {
	if subdomain == "" || !wordlist.Has(siteBuilders, registrable) {
		return "", "", false
	}
	if dot := strings.LastIndexByte(subdomain, '.'); dot >= 0 {
		return subdomain[dot+1:], subdomain[:dot], subdomain[dot+1:] != "www" && subdomain[dot+1:] != ""
	}
	return subdomain, "", subdomain != "www"
}
