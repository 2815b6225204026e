package entity

import (
	_ "embed"
	"strconv"
	"strings"
)

// span is a half-open range of positions in a BBAN.
type span struct{ from, to int }

// ibanForm is the structure of a country's IBAN.
type ibanForm struct {
	// bban is a sequence of fields, each with its length and class: n for digits, a for capitals, c for both.
	bban         string
	bank, branch span
	sepa         bool // in the geographical scope of SEPA (European Payments Council, EPC409-09)
}

// ibanFormList has the countries of SWIFT's IBAN registry (ISO 13616-2), dependencies that use the form of another
// country under their own code, and countries whose banks use IBANs without registration. The last group counts as
// listed, because layers would otherwise treat every Algerian or Senegalese account as fake. Each line has the country,
// the structure, the positions of bank and branch, and whether the country is in SEPA. Uncertain positions are "-".
//
//go:embed iban_registry.txt
var ibanFormList string

// ibanForms holds the forms by country code.
var ibanForms = func() map[string]ibanForm {
	forms := map[string]ibanForm{}
	for line := range strings.Lines(ibanFormList) {
		words := strings.Fields(line)
		forms[words[0]] = ibanForm{words[1], spanOf(words[2]), spanOf(words[3]), len(words) > 4}
	}
	return forms
}()

// spanOf reads a span such as 0-4. "-" is the empty span.
func spanOf(text string) span {
	from, to, _ := strings.Cut(text, "-")
	a, _ := strconv.Atoi(from)
	b, _ := strconv.Atoi(to)
	return span{a, b}
}
