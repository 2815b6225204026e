package main

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/quote"
	"assay/plugins/internal/wordlist"
)

// bankCodes are the bank codes in use, each prefixed with its two-letter country code, in the form that package
// wordlist searches. plugins/internal/train/banks writes them from public lists.
//
//go:embed banks.txt
var bankCodes string

// Points for a bank code that is missing from its country's list, by the quality of the list. Even a register lacks
// some honest accounts, because banks merge.
const (
	pointsRegister = 64 // from the body that assigns the codes: no bank has the code, or no longer has it
	pointsGathered = 20 // from directories, nearly complete
	pointsPatchy   = 8  // from directories, known to miss banks
)

// bankLists holds, for each country with a list in bankCodes, the points of a missing code.
const bankLists = " AT64 BE64 CH64 CZ64 DE64 EE64 ES64 FI64 HR64 HU64 LI64 LT64 LU64 LV64 NL64 NO64 PL64 SI64 SK64" +
	" BG20 DK20 FR20 GR20 IT20 PT20 RO20 SE20 TR20 UA20 AE08 BA08 CR08 GB08 GE08 IE08 KZ08 MD08 ME08 RS08 "

// bankList returns the country whose list covers the banks of country, and the points for a code missing from that
// list, or 0 if there is no list.
func bankList(country string) (lister string, points int) {
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
	at := strings.Index(bankLists, " "+lister)
	if at < 0 {
		return lister, 0
	}
	return lister, int(bankLists[at+3]-'0')*10 + int(bankLists[at+4]-'0')
}

// scoreBank scores a bank code that no known bank has. The IBAN must be sound.
func scoreBank(f *findings, country string) {
	bank := f.check.Get("iban.bank")
	if bank == "" {
		return
	}
	lister, points := bankList(country)
	if points > 0 && wordlist.Has(bankCodes, lister+bank) {
		return
	}
	named := country + "'s bank code " + quote.Of(bank)
	switch {
	case points == pointsRegister:
		f.add(points, "iban:bank:unknown", named+" belongs to no bank in the country's register of them")
	case strings.Trim(bank, "0") == "":
		f.add(pointsZeroBank, "iban:bank:zeros", "the bank code is all zeros, and no bank is known to have that one")
	case points > 0:
		f.add(points, "iban:bank:unlisted",
			named+" is on no list of banks that is known here, and the lists are not complete")
	}
}
