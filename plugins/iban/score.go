package main

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/bank"
	"assay/plugins/internal/quote"
	"assay/plugins/internal/wordlist"
	"assay/sdk"
)

// examples are the BBANs of published example and test IBANs, from SWIFT's IBAN registry for ISO 13616, the pages of
// iban.com, and the documentation of banks and payment services, in the form that package wordlist searches. They omit
// the country, because dependencies publish their parent's BBAN under their own country code.
//
//go:embed examples.txt
var examples string

// Score scores an IBAN from the iban.* facts and the request's country.
func Score(c *sdk.Check) sdk.Outcome {
	country, known := c.Fact(sdk.IBANCountry)
	if !known {
		return sdk.Abstained
	}
	a := answer{check: c}
	switch bban := c.Get(sdk.IBANBBAN); {
	case bban != "" && c.Get(sdk.IBANCheck) != "wrong" && !c.Not(sdk.IBANListed) && wordlist.Has(examples, bban):
		a.report(&example)
		scoreCountry(&a, country)
	case scoreForm(&a, country):
		scoreBank(&a, country)
		scoreAccount(&a)
		scoreCountry(&a, country)
	}
	if a.threat {
		c.Threat(sdk.FakeIdentity)
	}
	return sdk.Scored
}

// answer reports findings and records whether one of them names the layer's only threat.
type answer struct {
	check  *sdk.Check
	threat bool
}

func (a *answer) report(kind *finding, evidence ...string) {
	a.check.Signal(kind.points, kind.code, quote.Fill(kind.text, evidence...))
	a.threat = a.threat || kind.points >= adds
}

// scoreForm scores the country, structure and check digits, and reports whether the IBAN can exist.
func scoreForm(a *answer, country string) (sound bool) {
	c := a.check
	sound = true
	if c.Not(sdk.IBANListed) {
		a.report(&noCountry, country)
		sound = false
	}
	switch c.Get(sdk.IBANStructure) {
	case "length":
		a.report(&badLength, country)
		sound = false
	case "format":
		a.report(&badFormat, country)
		sound = false
	}
	if c.Get(sdk.IBANCheck) == "wrong" {
		a.report(&badCheck, c.Get(sdk.IBANCheckDigits))
		sound = false
	}
	if sound && c.Get(sdk.IBANNational) == "wrong" {
		a.report(&badNational, country)
		sound = false
	}
	return sound
}

// scoreBank scores a bank code that no known bank has. The IBAN must be sound.
func scoreBank(a *answer, country string) {
	code := a.check.Get(sdk.IBANBank)
	if code == "" {
		return
	}
	known, list := bank.Find(country, code)
	switch {
	case known:
	case list == bank.Register:
		a.report(&unknownBank, code, country)
	case strings.Trim(code, "0") == "":
		a.report(&zeroBank)
	case list == bank.Gathered:
		a.report(&unlistedBank, code, country)
	case list == bank.Patchy:
		a.report(&patchyBank, code, country)
	}
}

// scoreAccount scores an account number that looks made up. The IBAN must be sound.
func scoreAccount(a *answer) {
	account := withoutCheck(a.check.Get(sdk.IBANCountry), a.check.Get(sdk.IBANAccount))
	switch {
	case len(account) < minAccount:
	case strings.Trim(account, "0") == "":
		a.report(&zeroAccount, account)
	case strings.Count(account, account[:1]) == len(account):
		a.report(&repeated, account)
	case isSequence(account):
		a.report(&sequence, account)
	}
}

// minAccount is the least number of characters of an account number whose pattern means something.
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
func scoreCountry(a *answer, country string) {
	requested, known := a.check.Fact(sdk.EntityCountry)
	if !known || requested == "EU" || requested == country || shareBanks(requested, country) {
		return
	}
	kind := &countryFar
	if a.check.Is(sdk.IBANSEPA) {
		kind = &countryNearby // payers and payees may use any account there (Regulation (EU) 260/2012, article 9)
	}
	a.report(kind, country, requested)
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

// withoutCheck returns an account number without the national check digits that surround it.
func withoutCheck(country, account string) string {
	n := len(account)
	switch country {
	case "BE", "PT", "SI", "RS", "BA", "ME", "MK", "XK",
		"FR", "MC", "BL", "GF", "GP", "MF", "MQ", "NC", "PF", "PM", "RE", "TF", "WF", "YT":
		return account[:max(n-2, 0)]
	case "ES":
		return account[min(2, n):]
	case "NO", "FI", "AX", "EE":
		return account[:max(n-1, 0)]
	}
	return account
}
