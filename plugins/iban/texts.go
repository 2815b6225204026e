package main

// finding is a kind of signal. The manifest promises its points and its band.
type finding struct {
	points int
	code   string
	text   string // "%" is replaced by evidence
}

// The points of a finding that blocks on its own, of one that asks for a review, and of those that only add to others.
const (
	blocks    = 92
	reviews   = 62
	published = 59 // a little less, because testers enter them
	adds      = 24
	hints     = 8
)

// The texts of the layer. An IBAN that no bank can have issued blocks on its own. A bank code that a register lacks, an
// account number that looks made up, or a published example asks for a review.
var (
	noCountry = finding{blocks, "iban:country:unlisted", "No country with IBANs has the code “%”"}
	badLength = finding{blocks, "iban:structure:length", "Wrong length for an IBAN of %"}
	badFormat = finding{blocks, "iban:structure:format",
		"Letters and digits are not where IBANs of % have them"}
	badCheck = finding{blocks, "iban:check:wrong",
		"Check digits “%” do not fit the account, so no bank issued it"}
	badNational = finding{blocks, "iban:check:national",
		"National check digits of % inside the account number do not fit"}
	unknownBank  = finding{reviews, "iban:bank:unknown", "Bank code “%” is not in the register of %"}
	unlistedBank = finding{adds, "iban:bank:unlisted", "Bank code “%” is on no known list of banks of %"}
	patchyBank   = finding{hints, "iban:bank:unlisted",
		"Bank code “%” is on no known list of banks of %, but the lists have gaps"}
	zeroBank = finding{adds, "iban:bank:zeros",
		"Bank code is all zeros, and no bank is known to have that one"}
	zeroAccount = finding{reviews, "iban:account:zeros", "Account number is all zeros: “%”"}
	repeated    = finding{reviews, "iban:account:repeated", "Account number is one digit repeated: “%”"}
	sequence    = finding{reviews, "iban:account:sequence", "Account number counts through the digits: “%”"}
	example     = finding{reviews, "iban:known:example",
		"Published example account, printed in documentation and used in tests"}
	countryFar    = finding{10, "iban:country:differs", "Account is held in %, but the request names %"}
	countryNearby = finding{4, "iban:country:differs",
		"Account is held in %, which is in SEPA, but the request names %"}
)
