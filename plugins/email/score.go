package main

import (
	"strings"

	"assay/plugins/internal/mail"
	"assay/plugins/internal/quote"
	"assay/sdk"
)

// Score scores an email address from the email.* facts and the parts of its mail domain. The mailbox layer scores weak
// evidence, such as the spelling of the mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	host, known := c.Fact(sdk.EmailDomain)
	if !known || host == "" {
		return sdk.Abstained
	}
	a := answer{check: c}
	open := c.Has(sdk.EmailProvider)
	relay := mail.Relay(host) != ""
	if !open && !relay && mail.Provider(host) == "" {
		scoreDomain(&a, host)
	}
	local, known := c.Fact(sdk.EmailLocal)
	if known && !relay {
		scoreLocalPart(&a, local, mail.Written(c, host), mailbox{open: open, name: c.Get(sdk.DomainName)})
	}
	if a.threat != "" {
		c.Threat(a.threat)
	}
	return sdk.Scored
}

// answer reports findings and keeps the threat of the one with the most points.
type answer struct {
	check        *sdk.Check
	threat       sdk.Threat
	threatPoints int
}

func (a *answer) report(kind *finding, evidence ...string) {
	a.check.Signal(kind.points, kind.code, quote.Fill(kind.text, evidence...))
	if kind.points >= adds && kind.points > a.threatPoints {
		a.threatPoints, a.threat = kind.points, kind.threat
	}
}

// scoreDomain reports the first finding that applies to a mail domain: a disposable service, or a borrowed or mistyped
// provider.
func scoreDomain(a *answer, host string) {
	if scoreDisposable(a, host) {
		return
	}
	suffix := a.check.Get(sdk.DomainSuffix)
	labels, found := strings.CutSuffix(host, sdk.Join(".", suffix))
	if suffix == "" || !found {
		return
	}
	if word := mail.DisposableWord(labels); word != "" {
		a.report(&disposableName, word, host)
		return
	}
	slip := mail.FindSlip(host, suffix, a.check.Get(sdk.DomainSuffixKind) == "unlisted")
	switch borrowedFrom := mail.Borrowed(labels); {
	case slip.Meant != "":
		a.report(&mistyped, host, slip.Meant, slip.Difference)
	case borrowedFrom != "":
		a.report(&borrowed, host, borrowedFrom)
	case strings.HasPrefix(host, "tempor") && strings.HasSuffix(labels, "ly") && // often misspelt
		host == a.check.Get(sdk.DomainRegistrable):
		a.report(&temporarily, host)
	}
}
