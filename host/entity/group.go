package entity

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// The groups of entities that share a parent. The functions below normalise what people enter for a group; their errors
// are of type *InvalidError, with the group's name as the field.
const (
	RegistrableField = "registrable_domain"
	RangeField       = "number_range"
	BankField        = "bank"
)

// Registrable normalises a registrable domain: a public suffix and one label before it, such as "example.co.uk".
func Registrable(raw string) (string, error) {
	e, err := Parse(Domain, raw, "")
	if invalid := (*InvalidError)(nil); errors.As(err, &invalid) {
		return "", &InvalidError{Field: RegistrableField, Reason: invalid.Reason}
	}
	switch registrable := e.Facts["domain.registrable"]; {
	case registrable == "" || isSharedHost(registrable):
		return "", &InvalidError{Field: RegistrableField,
			Reason: "is a public suffix or shared host, below which anyone can get a name"}
	case registrable == e.Value:
		return e.Value, nil
	default:
		return "", &InvalidError{Field: RegistrableField,
			Reason: "must be " + excerpt(registrable) + ", without a subdomain"}
	}
}

// The digits of a number range: at least two after the country code, and fewer than a whole number may have.
const (
	minRangeDigits = 2
	maxRangeDigits = maxPhoneDigits - 1
)

// NumberRange normalises the first digits of international phone numbers, such as "+4930".
func NumberRange(raw string) (string, error) {
	digits, err := rangeOf(raw)
	if err != nil {
		return "", &InvalidError{Field: RangeField, Reason: err.Error()}
	}
	return digits, nil
}

func rangeOf(raw string) (string, error) {
	text, err := clean(Phone, raw)
	if err != nil {
		return "", err
	}
	d, err := readDial(text)
	if err != nil {
		return "", err
	}
	switch {
	case !d.international:
		return "", refuse("must begin with '+' and the country code")
	case strings.Contains(strings.ReplaceAll(text, " ", ""), "(0)"):
		return "", refuse("contains '(0)', a prefix that is not dialled from abroad; leave it out")
	case len(d.digits) > maxRangeDigits:
		return "", refuse("has more than %d digits; block or allow a single number as phone", maxRangeDigits)
	}
	code := callingCode(d.digits)
	switch {
	case code == "":
		return "", refuse("does not begin with a country code")
	case len(d.digits) < len(code)+minRangeDigits:
		return "", refuse("has fewer than %d digits after the country code", minRangeDigits)
	}
	return "+" + d.digits, nil
}

// callingCode returns the country code that digits begin with, or "". No country code begins with another one (ITU-T
// E.164).
func callingCode(digits string) string {
	if digits == "" || digits[0] == '0' {
		return ""
	}
	for n := 1; n <= min(3, len(digits)); n++ {
		code, err := strconv.Atoi(digits[:n])
		if err == nil && phonenumbers.GetRegionCodeForCountryCode(code) != phonenumbers.UNKNOWN_REGION {
			return digits[:n]
		}
	}
	return ""
}

// Bank normalises the country and the bank code of an IBAN, such as "DE37040044".
func Bank(raw string) (string, error) {
	code, err := bankOf(raw)
	if err != nil {
		return "", &InvalidError{Field: BankField, Reason: err.Error()}
	}
	return code, nil
}

func bankOf(raw string) (string, error) {
	text, err := clean(IBAN, raw)
	if err != nil {
		return "", err
	}
	code, err := ibanCode(text)
	if err != nil {
		return "", err
	}
	if len(code) < 2 || !isCapital(code[0]) || !isCapital(code[1]) {
		return "", refuse("does not start with two letters for the country")
	}
	form, listed := ibanForms[code[:2]]
	length := form.bank.to - form.bank.from
	switch {
	case !listed:
		return "", refuse("starts with %s, which is not a country with IBANs", excerpt(code[:2]))
	case length == 0:
		return "", refuse("has the country %s, whose IBANs name no bank", code[:2])
	case len(code) != 2+length:
		return "", refuse("must be %s and the %d characters of the bank code in its IBANs", code[:2], length)
	}
	return code, nil
}

// Groups returns the groups that e belongs to, in the form that the functions above return: its registrable domain and
// its bank, and for number ranges its whole number. They are "" if e has none.
func (e Entity) Groups() (registrable, number, bank string) {
	switch e.Type {
	case Domain, Email:
		registrable = e.Facts["domain.registrable"]
	case Phone:
		number = e.Facts["phone.e164"]
	case IBAN:
		if code := e.Facts["iban.bank"]; code != "" {
			bank = e.Facts["iban.country"] + code
		}
	}
	return registrable, number, bank
}
