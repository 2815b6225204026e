package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/plugins/internal/wordlist"
	"assay/sdk"
)

// The points of each signal. They add up to the layer's score, 0 to 100; the lineup's weight and bias decide which
// scores reach review or block (TestVerdicts). An IBAN that no bank can have issued blocks on its own. A bank code that
// a register lacks or an account number that looks made up asks for a review. The rest only adds to other evidence.
const (
	pointsCheck       = 100 // ISO 7064 MOD 97-10 fails, so no bank can have issued it
	pointsStructure   = 100
	pointsUnlisted    = 96
	pointsNational    = 90 // the country's own check digits, which a few old accounts predate
	pointsZeroBank    = 30 // only if no register lists the code, which some central banks have
	pointsZeroAccount = 60
	pointsRepeated    = 60
	pointsExample     = 5 // enough to be shown as a reason, too few to matter
	pointsSequence    = 45
	pointsFarCountry  = 10
	pointsNearCountry = 4  // in SEPA, payers and payees may use any account (Regulation (EU) 260/2012, article 9)
	minThreatPoints   = 25 // the fewest points of a signal that names a threat
)

// Score scores an IBAN from the iban.* facts and the request's country.
func Score(c *sdk.Check) sdk.Outcome {
	country, known := c.Fact("iban.country")
	if !known {
		return sdk.Abstained
	}
	f := findings{check: c}
	switch bban := c.Get("iban.bban"); {
	case bban != "" && c.Get("iban.check") != "wrong" && !c.Not("iban.listed") && wordlist.Has(examples, bban):
		c.Signal(pointsExample, "iban:known:example",
			"the account is a published example, printed in documentation and used in tests")
		scoreCountry(&f, country)
	case scoreForm(&f, quote.Of(country)):
		scoreBank(&f, quote.Of(country))
		scoreAccount(&f)
		scoreCountry(&f, country)
	}
	if f.threat {
		c.Threat(sdk.FakeIdentity)
	}
	return sdk.Scored
}

// findings raises signals and records whether one of them names the layer's only threat.
type findings struct {
	check  *sdk.Check
	threat bool
}

func (f *findings) add(points int, code, text string) {
	f.check.Signal(points, code, text)
	f.threat = f.threat || points >= minThreatPoints
}

// scoreForm scores the country, structure and check digits, and reports whether the IBAN can exist.
func scoreForm(f *findings, country string) (sound bool) {
	c := f.check
	sound = true
	if c.Not("iban.listed") {
		f.add(pointsUnlisted, "iban:country:unlisted", "the country code "+country+" has no IBANs")
		sound = false
	}
	switch c.Get("iban.structure") {
	case "length":
		f.add(pointsStructure, "iban:structure:length", "the IBAN does not have the length of "+country+"'s")
		sound = false
	case "format":
		f.add(pointsStructure, "iban:structure:format",
			"letters and digits do not stand where "+country+"'s IBANs have them")
		sound = false
	}
	if c.Get("iban.check") == "wrong" {
		f.add(pointsCheck, "iban:check:wrong",
			"the check digits "+quote.Of(c.Get("iban.check_digits"))+
				" do not fit the account: no bank can have issued it")
		sound = false
	}
	if sound && c.Get("iban.national") == "wrong" {
		f.add(pointsNational, "iban:check:national",
			"the check digits that "+country+"'s banks put inside the account number do not fit")
		sound = false
	}
	return sound
}

// scoreAccount scores an account number that looks made up. The IBAN must be sound.
func scoreAccount(f *findings) {
	account := f.check.Get("iban.account")
	switch {
	case len(account) < minAccount:
	case strings.Trim(account, "0") == "":
		f.add(pointsZeroAccount, "iban:account:zeros", "the account number is all zeros")
	case strings.Count(account, account[:1]) == len(account):
		f.add(pointsRepeated, "iban:account:repeated", "the account number is one digit over and over")
	case isSequence(account):
		f.add(pointsSequence, "iban:account:sequence", "the account number counts up or down through the digits")
	}
}

// minAccount is the fewest characters of an account number whose pattern means something.
const minAccount = 7

// isSequence reports whether account, after leading zeros, is at least eight digits that count up or down, with 0 after
// 9.
func isSequence(account string) bool {
	digits := strings.TrimLeft(account, "0")
	if len(digits) < len(account) && digits != "" && digits[0] == '1' {
		digits = account[len(account)-len(digits)-1:] // the zero before the one is part of the sequence
	}
	if len(digits) < 8 {
		return false
	}
	step := (digits[1] - digits[0] + 10) % 10
	if step != 1 && step != 9 {
		return false
	}
	for i := 1; i < len(digits); i++ {
		if digits[i] < '0' || digits[i] > '9' || (digits[i]-digits[i-1]+10)%10 != step {
			return false
		}
	}
	return true
}

// scoreCountry compares the account's country with the request's. The signal is weak, because accounts abroad are
// common and legal.
func scoreCountry(f *findings, country string) {
	requested, known := f.check.Fact("entity.country")
	if !known || requested == "EU" || requested == country || shareBanks(requested, country) {
		return
	}
	points := pointsFarCountry
	if f.check.Is("iban.sepa") {
		points = pointsNearCountry
	}
	f.add(points, "iban:country:differs",
		"the account is held in "+quote.Of(country)+", the request names "+quote.Of(requested))
}

// shareBanks reports whether the same banks serve two countries, so that people in one hold IBANs of the other.
func shareBanks(a, b string) bool {
	for _, shared := range [...]string{
		" FR BL GF GP MC MF MQ NC PF PM RE TF WF YT ", " GB GG IM JE ", " FI AX ", " DK FO GL ", " NO SJ ",
		" IT SM VA ", " CH LI ", " ES AD ",
	} {
		if strings.Contains(shared, " "+a+" ") && strings.Contains(shared, " "+b+" ") {
			return true
		}
	}
	return false
}
