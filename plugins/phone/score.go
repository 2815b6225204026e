package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/plugins/internal/ranges"
	"assay/sdk"
)

// Score scores a phone number from the phone.* facts. The numbering layer scores weak evidence, such as its type.
func Score(c *sdk.Check) sdk.Outcome {
	if !c.Has(sdk.TextFact(sdk.PhoneValid)) {
		return sdk.Abstained
	}
	f := answer{check: c, assumed: c.Is(sdk.PhoneAssumed)}
	f.ordinary = f.assumed && c.Is(sdk.PhoneOtherwiseOrdinary)
	e164, read := c.Fact(sdk.PhoneE164)
	n := ranges.Number{Code: c.Get(sdk.PhoneCallingCode), National: c.Get(sdk.PhoneNational)}
	switch rule := n.Telemarketing(); {
	case !read && c.Is(sdk.PhoneValid): // a short number
	case !read && f.assumed:
		f.report(&guessedNothing)
	case !read:
		f.report(&unreadable, c.Get(sdk.EntityValue))
	case n.IsFictional():
		f.add(&fictional, e164)
	case rule != "":
		f.add(&telemarketing, rule)
	default:
		if c.Not(sdk.PhoneValid) {
			scoreInvalid(&f, e164, n)
		} else {
			scoreCost(&f, n)
		}
		if tail := repeatedTail(n.National); tail != "" {
			f.report(&repeated, tail) // whichever country is meant
		}
	}
	if f.assumed && read && f.threat == "" {
		if named := c.Get(sdk.EntityCountry); named != "" && named != "EU" {
			f.report(&guessedOther, named, f.country())
		} else {
			f.report(&guessedCountry, f.country())
		}
	}
	if f.threat != "" {
		c.Threat(f.threat)
	}
	return sdk.Scored
}

// answer reports findings and keeps the threat of the one with the most points.
type answer struct {
	check        *sdk.Check
	assumed      bool // the country is a guess, so findings that depend on it count less
	ordinary     bool // in another country that is as likely, it is an ordinary mobile or fixed line
	threat       sdk.Threat
	threatPoints int
}

// report reports a finding.
func (f *answer) report(kind *finding, evidence ...string) {
	f.raise(kind.points, kind.code, quote.Fill(kind.text, evidence...), kind.threat)
}

// raise reports a signal. It keeps the threat of the signal with the most points, unless that is a hint.
func (f *answer) raise(points int, code, text string, threat sdk.Threat) {
	f.check.Signal(points, code, text)
	if points >= adds && points > f.threatPoints {
		f.threatPoints, f.threat = points, threat
	}
}

// add reports a finding that depends on the number's country. If the country is a guess, the finding is weaker.
func (f *answer) add(kind *finding, evidence ...string) {
	guessed := &guessedSpecial
	switch {
	case !f.assumed:
		f.report(kind, evidence...)
		return
	case f.ordinary || kind.points < reviews:
		guessed = &guessedOrdinary
	}
	f.raise(guessed.points, guessed.code,
		sdk.Join(quote.Fill(guessed.text, f.country()), quote.Fill(kind.text, evidence...)), kind.threat)
}

// country returns the country that the number was read in.
func (f *answer) country() string {
	if country := f.check.Get(sdk.PhoneCountry); country != "" {
		return country
	}
	return "the country whose plan fits best"
}

// scoreInvalid scores a number outside every range of its numbering plan.
func scoreInvalid(f *answer, e164 string, n ranges.Number) {
	if year := n.RenumberedIn(); year != "" {
		f.add(&renumbered, e164, year)
		return
	}
	country := f.check.Get(sdk.PhoneCountry)
	if country == "" || country == "001" {
		country = "its country code"
	}
	switch f.check.Get(sdk.PhonePossible) {
	case "too_short":
		f.add(&tooShort, country)
	case "too_long":
		f.add(&tooLong, country)
	case "invalid_length":
		f.add(&oddLength, country)
	case "local_only":
		f.add(&local, e164)
	default:
		if !n.IsNew() {
			f.add(&unassigned, e164)
		}
	}
}

// scoreCost scores the price of calling a number.
func scoreCost(f *answer, n ranges.Number) {
	if n.Code == "979" {
		f.add(&premiumGlobal)
		return
	}
	if network := n.GlobalNetwork(); network != "" {
		f.add(&global, n.Code, network)
		return
	}
	if n.SharesCost() {
		f.add(&sharedCost)
		return
	}
	switch f.check.Get(sdk.PhoneType) {
	case "premium_rate":
		f.add(&premium)
	case "personal":
		if n.Code == "44" {
			f.add(&personal070)
		} else {
			f.add(&personal)
		}
	case "shared_cost":
		f.add(&sharedCost)
	}
}

// repeatedTail returns the last eight digits of a national number if they are the same, or "".
func repeatedTail(national string) string {
	const run = 8
	tail := national[max(len(national)-run, 0):]
	if len(tail) < run || strings.Count(tail, tail[:1]) < run {
		return ""
	}
	return tail
}
