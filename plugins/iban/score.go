package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/plugins/internal/wordlist"
	"assay/sdk"
)

// The points of each signal. At the layer's default weight, and a bias of -4, 78 points or more block by themselves and
// 58 or more ask for a review.
const (
	pointsCheck       = 100 // no bank can have issued it: ISO 7064 MOD 97-10 fails
	pointsStructure   = 100
	pointsUnlisted    = 96
	pointsNational    = 90 // the country's own check digits; a few old accounts were opened before them
	pointsZeroBank    = 30 // where no register says better: some central banks have that code
	pointsZeroAccount = 60
	pointsRepeated    = 60
	pointsExample     = 5 // enough to be told, too little to be counted
	pointsSequence    = 45
	pointsFarCountry  = 10
	pointsNearCountry = 4 // inside SEPA people may be paid on any account (Regulation (EU) 260/2012, article 9)
	namesThreat       = 25
)

// Score judges one IBAN from iban.* and the request's country.
func Score(c *sdk.Check) sdk.Outcome {
	country, known := c.Fact("iban.country")
	if !known {
		return sdk.Abstained
	}
	v := verdict{check: c}
	switch bban := c.Get("iban.bban"); {
	case bban != "" && c.Get("iban.check") != "wrong" && !c.Not("iban.listed") && wordlist.Has(examples, bban):
		c.Signal(pointsExample, "iban:known:example",
			"the account is a published example, printed in documentation and used in tests")
		judgeCountry(&v, country)
	case judgeForm(&v, quote.Of(country)):
		judgeBank(&v, quote.Of(country))
		judgeAccount(&v)
		judgeCountry(&v, country)
	}
	if v.alarmed {
		c.Threat(sdk.FakeIdentity)
	}
	return sdk.Scored
}

// verdict raises signals and remembers whether one of them names the layer's only threat.
type verdict struct {
	check   *sdk.Check
	alarmed bool
}

func (v *verdict) add(points int, code, text string) {
	v.check.Signal(points, code, text)
	v.alarmed = v.alarmed || points >= namesThreat
}

// judgeForm says whether the IBAN can exist at all: its country, its structure, its check digits.
func judgeForm(v *verdict, country string) (sound bool) {
	c := v.check
	sound = true
	if c.Not("iban.listed") {
		v.add(pointsUnlisted, "iban:country:unlisted", "the country code "+country+" has no IBANs")
		sound = false
	}
	switch c.Get("iban.structure") {
	case "length":
		v.add(pointsStructure, "iban:structure:length", "the IBAN does not have the length of "+country+"'s")
		sound = false
	case "format":
		v.add(pointsStructure, "iban:structure:format",
			"letters and digits do not stand where "+country+"'s IBANs have them")
		sound = false
	}
	if c.Get("iban.check") == "wrong" {
		v.add(pointsCheck, "iban:check:wrong",
			"the check digits "+quote.Of(c.Get("iban.check_digits"))+
				" do not fit the account: no bank can have issued it")
		sound = false
	}
	if sound && c.Get("iban.national") == "wrong" {
		v.add(pointsNational, "iban:check:national",
			"the check digits that "+country+"'s banks put inside the account number do not fit")
		sound = false
	}
	return sound
}

// judgeAccount says whether the account number of a sound IBAN looks made up.
func judgeAccount(v *verdict) {
	account := v.check.Get("iban.account")
	switch {
	case len(account) < minAccount:
	case strings.Trim(account, "0") == "":
		v.add(pointsZeroAccount, "iban:account:zeros", "the account number is all zeros")
	case strings.Count(account, account[:1]) == len(account):
		v.add(pointsRepeated, "iban:account:repeated", "the account number is one digit over and over")
	case sequence(account):
		v.add(pointsSequence, "iban:account:sequence", "the account number counts up or down through the digits")
	}
}

// minAccount is the fewest characters of an account number that its look is judged by.
const minAccount = 7

// sequence says whether account, after leading zeros, holds nothing but digits that each follow the one before, up or
// down (0 follows 9), for at least eight digits. One account in ten million does by chance.
func sequence(account string) bool {
	digits := strings.TrimLeft(account, "0")
	if len(digits) < len(account) && digits != "" && digits[0] == '1' {
		digits = account[len(account)-len(digits)-1:] // the zero before the one counts along
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

// judgeCountry compares the account's country with the request's. Accounts abroad are common and lawful, so it weighs
// little.
func judgeCountry(v *verdict, country string) {
	asked, known := v.check.Fact("entity.country")
	if !known || asked == "EU" || asked == country || sameBanks(asked, country) {
		return
	}
	points := pointsFarCountry
	if v.check.Is("iban.sepa") {
		points = pointsNearCountry
	}
	v.add(points, "iban:country:differs",
		"the account is held in "+quote.Of(country)+", the request names "+quote.Of(asked))
}

// sameBanks says whether two countries are served by the same banks, so that one's people hold the other's IBANs.
func sameBanks(a, b string) bool {
	for _, shared := range [...]string{
		" FR BL GF GP MC MF MQ NC PF PM RE TF WF YT ", " GB GG IM JE ", " FI AX ", " DK FO GL ", " NO SJ ",
		" IT SM VA ", " CH LI ",
		" ES AD ",
	} {
		if strings.Contains(shared, " "+a+" ") && strings.Contains(shared, " "+b+" ") {
			return true
		}
	}
	return false
}
