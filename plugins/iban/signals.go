// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalCountryUnlisted = "iban:country:unlisted" // The first two letters are not the code of a country with IBANs
	signalStructureLength = "iban:structure:length" // Wrong length for an IBAN of its country
	signalStructureFormat = "iban:structure:format" // Letters and digits are not where the country's IBANs have them
	signalCheckWrong      = "iban:check:wrong"      // The check digits do not fit the account, so no bank issued it
	signalCheckNational   = "iban:check:national"   // The country's own check digits inside the account number do not fit
	signalBankUnknown     = "iban:bank:unknown"     // The country's register of banks does not have the bank code
	signalBankUnlisted    = "iban:bank:unlisted"    // The bank code is not on any known list of the country's banks, but those lists are incomplete
	signalBankZeros       = "iban:bank:zeros"       // The bank code is all zeros, and no bank is known to have that one
	signalAccountZeros    = "iban:account:zeros"    // The account number is all zeros
	signalAccountRepeated = "iban:account:repeated" // The account number is one digit repeated
	signalAccountSequence = "iban:account:sequence" // The account number is a sequence of digits that counts up or down
	signalKnownExample    = "iban:known:example"    // Published example account, printed in documentation and used in tests
	signalCountryDiffers  = "iban:country:differs"  // The account is held in another country than the request names
)
