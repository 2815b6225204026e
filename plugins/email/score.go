package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. At a weight of 8 and a bias of -6, as in the built-in lineup, 86 points or more block by
// themselves and 70 or more ask for a review; a point is worth 0.08 of log-odds.
const (
	pointsDisposable = 90 // on the list: the address is made to be thrown away
	// a name such as tempmail-box: right in the labelled data whenever it fired, but still a guess
	pointsThrowaway = 76
	// 44gmail.com: 24 reported mail domains and none of the 2,800 honest addresses in the labelled data
	pointsBorrowed    = 80
	pointsTypo        = 72 // most owners of such an address mistyped it, so a person should look
	pointsTypoSuffix  = 65
	pointsPosing      = 85 // a mailbox anybody can open, named paypal-support
	pointsPosingPart  = 60 // the same with further words
	pointsPosingOwn   = 20 // the same on a domain of its own, where amazon-orders@ is also how people sort mail
	pointsBrandOnly   = 20
	pointsOfficialish = 45 // account-verification at a mailbox provider, without a brand
	pointsNoReply     = 20 // no-reply at a mailbox provider, where only people write
	pointsDeskOfBrand = 15 // verify@ at secure-paypal.example; the domain's layer judges the name itself
	pointsWeb         = 55
	pointsDomainLike  = 40
	pointsScripts     = 45
	pointsRandom      = 6   // generated names are common among honest people's spare addresses too
	pointsRandomHere  = 13  // but few have them at a domain that is no mailbox provider's
	pointsRole        = -17 // throw-away mailboxes are opened under names of people, or none
	pointsDigits      = 4
	pointsKnown       = -5
	namesThreat       = 25 // a signal of fewer points names no threat
)

// Score judges one email address from email.* and the parts of its mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	host, known := c.Fact("email.domain")
	if !known || host == "" {
		return sdk.Abstained
	}
	v := verdict{check: c}
	provider, big := c.Fact("email.provider")
	relay := listed(relays, host)
	switch {
	case relay != "":
		v.add(pointsKnown, "email:provider:relay",
			quote.Of(relay)+" is a privacy relay that forwards to a real mailbox; it is not a throw-away service", "")
	case big || keptMailboxes(host) != "":
		v.add(pointsKnown, "email:provider:known", quote.Of(host)+" is a well-known mailbox provider", "")
	default:
		judgeDomain(&v, host)
	}
	local, known := c.Fact("email.local")
	if known && relay == "" {
		judgeLocal(&v, local, host, mailbox{open: big, numeric: numericNames(provider), name: c.Get("domain.name")})
	}
	if v.threat != "" {
		c.Threat(v.threat)
	}
	return sdk.Scored
}

// verdict raises signals and remembers the threat of the strongest.
type verdict struct {
	check    *sdk.Check
	threat   sdk.Threat
	most     int
	unlisted bool // the mail domain is judged by its spelling, for want of anything better
}

func (v *verdict) add(points int, code, text string, threat sdk.Threat) {
	v.check.Signal(points, code, text)
	if threat != "" && points >= namesThreat && points > v.most {
		v.most, v.threat = points, threat
	}
}

// judgeDomain says whether the mail domain is a throw-away service or a mistyped provider. The first that holds speaks.
func judgeDomain(v *verdict, host string) {
	if service := service(host); service != "" {
		v.add(pointsDisposable, "email:disposable:service",
			quote.Of(service)+" is a disposable mail service", sdk.Disposable)
		return
	}
	suffix := publicSuffix(v.check, host)
	if suffix == "" {
		return
	}
	labels := strings.TrimSuffix(host, "."+suffix)
	if word := throwawayWord(labels); word != "" {
		v.add(pointsThrowaway, "email:disposable:name",
			quote.Of(host)+" is named like a disposable mail service: "+word, sdk.Disposable)
		return
	}
	if name := borrowed(labels); name != "" {
		v.add(pointsBorrowed, "email:provider:borrowed",
			quote.Of(host)+" borrows the name of "+name+", a mailbox provider, without being it", sdk.Disposable)
		return
	}
	if host == v.check.Get("domain.registrable") { // a typo of gmail.com is itself a registrable domain
		slip := mistyped(v.check.Get("domain.name"), suffix, v.check.Get("domain.suffix_kind") == "unlisted")
		if slip.meant != "" {
			points := pointsTypo
			if slip.suffix {
				points = pointsTypoSuffix
			}
			v.add(points, "email:provider:typo",
				quote.Of(host)+" looks like "+slip.meant+": "+quote.Of(slip.what), sdk.FakeIdentity)
			return
		}
	}
	judgeSpelling(v, host, suffix)
}

// numericNames says whether a provider hands out mailboxes named by a number, so that digits mean nothing there.
func numericNames(provider string) bool {
	switch provider {
	case "qq", "netease", "163", "126", "139", "china_mobile", "naver", "sina":
		return true
	}
	return false
}
