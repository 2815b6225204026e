package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. They add up to the layer's score, 0 to 100; the lineup's weight and bias decide which
// scores reach review or block (TestVerdicts). A disposable service blocks on its own, because its addresses exist to
// be thrown away. A strong guess from the spelling asks for a review, because the owner may have mistyped the address
// or chosen an odd name. Everything else only adds to other evidence.
const (
	pointsDisposable     = 90 // on the list of services
	pointsDisposableName = 76 // named like a service, such as tempmail-box
	pointsBorrowed       = 80 // 44gmail.com
	pointsTypo           = 72
	pointsTypoSuffix     = 65
	pointsPosing         = 85 // paypal-support at a provider where anyone can open a mailbox
	pointsPosingPart     = 60 // the same with further words
	pointsPosingOwn      = 20 // the same at a domain of its own, where amazon-orders@ may be how its owner sorts mail
	pointsBrandOnly      = 20
	pointsDesk           = 45 // account-verification at a mailbox provider, without a brand
	pointsNoReply        = 20 // no-reply at a mailbox provider, where only people write
	pointsDeskOfBrand    = 15 // verify@ at secure-paypal.example; the domain layer scores the domain name itself
	pointsWeb            = 55
	pointsDomainLike     = 40
	pointsScripts        = 45
	pointsRandom         = 6   // many honest people use generated names for spare addresses
	pointsRandomUnlisted = 13  // few have them at a domain that is not a known mailbox provider
	pointsRole           = -17 // disposable mailboxes are named after people, or randomly
	pointsDigits         = 4
	pointsKnown          = -5
	minThreatPoints      = 25 // the fewest points of a signal that names a threat
)

// Score scores an email address from the email.* facts and the parts of its mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	host, known := c.Fact("email.domain")
	if !known || host == "" {
		return sdk.Abstained
	}
	f := findings{check: c}
	provider, big := c.Fact("email.provider")
	relay := listed(relays, host)
	switch {
	case relay != "":
		f.add(pointsKnown, "email:provider:relay",
			quote.Of(relay)+" is a privacy relay that forwards to a real mailbox; it is not a throw-away service", "")
	case big || knownProvider(host) != "":
		f.add(pointsKnown, "email:provider:known", quote.Of(host)+" is a well-known mailbox provider", "")
	default:
		scoreDomain(&f, host)
	}
	local, known := c.Fact("email.local")
	if known && relay == "" {
		scoreLocalPart(&f, local, host, mailbox{open: big, numeric: usesNumbers(provider), name: c.Get("domain.name")})
	}
	if f.threat != "" {
		c.Threat(f.threat)
	}
	return sdk.Scored
}

// findings raises signals and keeps the threat of the signal with the most points.
type findings struct {
	check        *sdk.Check
	threat       sdk.Threat
	threatPoints int
	unlisted     bool // no list or rule matched the mail domain, so its spelling was scored
}

func (f *findings) add(points int, code, text string, threat sdk.Threat) {
	f.check.Signal(points, code, text)
	if threat != "" && points >= minThreatPoints && points > f.threatPoints {
		f.threatPoints, f.threat = points, threat
	}
}

// scoreDomain raises the first signal that applies to a mail domain: a disposable service, a borrowed or mistyped
// provider, or else its spelling.
func scoreDomain(f *findings, host string) {
	if service := disposableService(host); service != "" {
		f.add(pointsDisposable, "email:disposable:service",
			quote.Of(service)+" is a disposable mail service", sdk.Disposable)
		return
	}
	suffix := publicSuffix(f.check, host)
	if suffix == "" {
		return
	}
	labels := strings.TrimSuffix(host, "."+suffix)
	if word := disposableWord(labels); word != "" {
		f.add(pointsDisposableName, "email:disposable:name",
			quote.Of(host)+" is named like a disposable mail service: "+word, sdk.Disposable)
		return
	}
	if name := borrowedProvider(labels); name != "" {
		f.add(pointsBorrowed, "email:provider:borrowed",
			quote.Of(host)+" borrows the name of "+name+", a mailbox provider, without being it", sdk.Disposable)
		return
	}
	if host == f.check.Get("domain.registrable") { // a typo of gmail.com is a registrable domain itself
		t := findTypo(f.check.Get("domain.name"), suffix, f.check.Get("domain.suffix_kind") == "unlisted")
		if t.meant != "" {
			points := pointsTypo
			if t.suffix {
				points = pointsTypoSuffix
			}
			f.add(points, "email:provider:typo",
				quote.Of(host)+" looks like "+t.meant+": "+quote.Of(t.difference), sdk.FakeIdentity)
			return
		}
	}
	scoreSpelling(f, host, suffix)
}

// usesNumbers reports whether a provider names mailboxes by number, so that digits in a local part mean nothing.
func usesNumbers(provider string) bool {
	switch provider {
	case "qq", "netease", "163", "126", "139", "china_mobile", "naver", "sina":
		return true
	}
	return false
}
