// Package bank knows the bank codes in IBANs, by country.
package bank

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/wordlist"
)

// codes are the bank codes in use, each prefixed with its two-letter country code, in the form that package wordlist
// searches. plugins/internal/train/banks writes them from public lists.
//
//go:embed banks.txt
var codes string

// List is the quality of the list of a country's bank codes.
type List byte

// Lists by quality. Even a register lacks the banks of some honest accounts, because banks merge.
const (
	None     List = iota
	Patchy        // from directories, known to miss banks
	Gathered      // from directories, nearly complete
	Register      // from the body that assigns the codes
)

// lists are the countries with a list in codes, by quality.
const (
	register = " AT BE CH CZ DE EE ES FI HR HU LI LT LU LV NL NO PL SI SK "
	gathered = " BG DK FR GR IT PT RO SE TR UA "
	patchy   = " AE BA CR GB GE IE KZ MD ME RS "
)

// Find reports whether a bank of country has code, and the quality of the list that says so.
func Find(country, code string) (known bool, list List) {
	if len(country) != 2 {
		return false, None
	}
	switch country { // dependencies share the parent's banks
	case "AX":
		country = "FI"
	case "GG", "IM", "JE":
		country = "GB"
	case "BL", "GF", "GP", "MF", "MQ", "PM", "RE", "YT":
		country = "FR"
	}
	switch word := " " + country + " "; {
	case strings.Contains(register, word):
		list = Register
	case strings.Contains(gathered, word):
		list = Gathered
	case strings.Contains(patchy, word):
		list = Patchy
	default:
		return false, None
	}
	return wordlist.Has(codes, country+code), list
}
