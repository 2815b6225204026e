package main

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/quote"
	"assay/plugins/internal/wordlist"
)

// bankCodes are the bank codes in use, each after its country's two letters, in the form of examples. The command banks
// writes them from public lists.
//
//go:embed banks.txt
var bankCodes string

// Points for a bank code that a country's list lacks, by what the list is. Of 1,040 accounts that companies and
// charities publish 1% have a code that a register no longer holds, as banks merge, and 4% one that a gathered list
// lacks.
const (
	pointsRegister = 64 // kept by the body that assigns the codes: no bank has the code, or none has it any more
	pointsGathered = 20 // from directories, near complete
	pointsPatchy   = 8  // from directories, known to miss banks
)

// lists says, by the country whose banks they hold, what the lists of bankCodes are worth.
const lists = " AT64 BE64 CH64 CZ64 DE64 EE64 ES64 FI64 HR64 HU64 LI64 LT64 LU64 LV64 NL64 NO64 PL64 SI64 SK64" +
	" BG20 DK20 FR20 GR20 IT20 PT20 RO20 SE20 TR20 UA20 AE08 BA08 CR08 GB08 GE08 IE08 KZ08 MD08 ME08 RS08 "

// listOf returns the country whose list holds an account's bank, and the points that a code missing in it is worth; 0
// when there is no list.
func listOf(country string) (lister string, points int) {
	switch country {
	case "AX":
		lister = "FI"
	case "GG", "IM", "JE":
		lister = "GB"
	case "BL", "GF", "GP", "MF", "MQ", "PM", "RE", "YT":
		lister = "FR"
	default:
		lister = country
	}
	if len(lister) != 2 {
		return lister, 0
	}
	at := strings.Index(lists, " "+lister)
	if at < 0 {
		return lister, 0
	}
	return lister, int(lists[at+3]-'0')*10 + int(lists[at+4]-'0')
}

// judgeBank says whether some bank holds the code of a sound IBAN.
func judgeBank(v *verdict, country string) {
	bank := v.check.Get("iban.bank")
	if bank == "" {
		return
	}
	lister, points := listOf(country)
	if points > 0 && wordlist.Has(bankCodes, lister+bank) {
		return
	}
	named := country + "'s bank code " + quote.Of(bank)
	switch {
	case points == pointsRegister:
		v.add(points, "iban:bank:unknown", named+" belongs to no bank in the country's register of them")
	case strings.Trim(bank, "0") == "":
		v.add(pointsZeroBank, "iban:bank:zeros", "the bank code is all zeros, and no bank is known to have that one")
	case points > 0:
		v.add(points, "iban:bank:unlisted",
			named+" is on no list of banks that is known here, and the lists are not complete")
	}
}
