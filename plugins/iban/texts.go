package main

// finding is a kind of signal. The manifest promises its points and its band.
type finding struct {
	points int
	code   string
	text   string // "%" is replaced by evidence
}

// The points of a finding that blocks on its own, of one that asks for a review, and of those that only add to others.
const (
	blocks  = 92
	reviews = 62
	adds    = 24
	hints   = 8
)

// The texts of the layer. An IBAN that no bank can have issued blocks on its own. A bank code that a register lacks, an
// account number that looks made up, or a published example asks for a review.
var (
	noCountry = finding{blocks, signalCountryUnlisted, "No country with IBANs has the code “%”"}
	badLength = finding{blocks, signalStructureLength, "Wrong length for an IBAN of %"}
	badFormat = finding{blocks, signalStructureFormat,
		"Letters and digits are not where IBANs of % have them"}
	badCheck = finding{blocks, signalCheckWrong,
		"Check digits “%” do not fit the account, so no bank issued it"}
	badNational = finding{blocks, signalCheckNational,
		"National check digits of % inside the account number do not fit"}
	unknownBank  = finding{reviews, signalBankUnknown, "Bank code “%” is not in the register of %"}
	unlistedBank = finding{adds, signalBankUnlisted, "Bank code “%” is on no known list of banks of %"}
	patchyBank   = finding{hints, signalBankUnlisted,
		"Bank code “%” is on no known list of banks of %, but the lists have gaps"}
	zeroBank = finding{adds, signalBankZeros,
		"Bank code is all zeros, and no bank is known to have that one"}
	zeroAccount = finding{reviews, signalAccountZeros, "Account number is all zeros: “%”"}
	repeated    = finding{reviews, signalAccountRepeated, "Account number is one digit repeated: “%”"}
	sequence    = finding{reviews, signalAccountSequence, "Account number counts through the digits: “%”"}
	example     = finding{reviews, signalKnownExample,
		"Published example account, printed in documentation and used in tests"}
	countryFar    = finding{10, signalCountryDiffers, "Account is held in %, but the request names %"}
	countryNearby = finding{4, signalCountryDiffers,
		"Account is held in %, which is in SEPA, but the request names %"}
)
