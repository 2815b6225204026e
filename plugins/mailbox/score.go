package main

import (
	"strings"

	"assay/plugins/internal/mail"
	"assay/plugins/internal/quote"
	"assay/sdk"
)

// Score scores how an email address is written, from the email.* facts and the parts of its mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	host, known := c.Fact(sdk.EmailDomain)
	if !known || host == "" {
		return sdk.Abstained
	}
	a := answer{check: c}
	provider, big := c.Fact(sdk.EmailProvider)
	if service := mail.Relay(host); service != "" {
		a.raise(relay.points, &relay, service)
		return sdk.Scored // the local part is the relay's
	}
	if mail.NoGmail(c) {
		// a finding of the email layer
	} else if big {
		a.raise(large.points, &large, mail.Written(c, host))
	} else if mail.Provider(host) != "" {
		a.raise(minor.points, &minor, host)
	} else if suffix := c.Get(sdk.DomainSuffix); suffix != "" && strings.HasSuffix(host, sdk.Join(".", suffix)) {
		a.unlisted = true
		site := c.Get(sdk.DomainRegistrable)
		if !foundElsewhere(c, host, suffix) {
			a.scoreSpelling(host, suffix)
		}
		if site != "" && site != host {
			a.raise(below.points, &below, site)
		}
	}
	if local, known := c.Fact(sdk.EmailLocal); known {
		a.scoreLocalPart(local, host, big, usesNumbers(provider))
	}
	return sdk.Scored
}

// foundElsewhere reports whether the email layer has a finding about a mail domain, so that its spelling says nothing
// more: a disposable service or its name, or the name of a provider.
func foundElsewhere(c *sdk.Check, host, suffix string) bool {
	service, _ := mail.Disposable(c, host)
	labels := strings.TrimSuffix(host, "."+suffix)
	return service != "" || mail.DisposableWord(labels) != "" || mail.Borrowed(labels) != "" ||
		mail.FindSlip(host, suffix, c.Get(sdk.DomainSuffixKind) == "unlisted").Meant != ""
}

// answer raises signals.
type answer struct {
	check    *sdk.Check
	unlisted bool // the mail domain is on no list, so its spelling was scored
}

func (a *answer) raise(points int, kind *style, evidence ...string) {
	a.check.Signal(points, kind.code, quote.Fill(kind.text, evidence...))
}

// usesNumbers reports whether a provider names mailboxes by number, so that digits in a local part mean nothing.
func usesNumbers(provider string) bool {
	switch provider {
	case "qq", "netease", "163", "126", "139", "china_mobile", "naver", "sina":
		return true
	}
	return false
}
