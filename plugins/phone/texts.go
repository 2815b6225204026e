package main

import "assay/sdk"

// finding is a kind of signal. The manifest promises its points and its band.
type finding struct {
	points int
	code   string
	threat sdk.Threat
	text   string // "%" is replaced by evidence
}

// The points of a finding that blocks on its own, of one that asks for a review, and of those that only add to others.
const (
	blocks  = 92
	reviews = 62
	adds    = 20
	hints   = 8
	assumes = 4 // the fewest points that a host lists for an allowed number
)

// The texts of the layer. A number that nobody can hold, that earns money from its callers, or that a regulator
// reserves for unsolicited calls blocks on its own.
var (
	unreadable = finding{blocks, signalNumberUnreadable, sdk.FakeIdentity, "No country has numbers like “%”"}
	tooShort   = finding{blocks, signalNumberLength, sdk.FakeIdentity, "Too short for a number of %"}
	tooLong    = finding{blocks, signalNumberLength, sdk.FakeIdentity, "Too long for a number of %"}
	oddLength  = finding{blocks, signalNumberLength, sdk.FakeIdentity, "Numbers of % do not have this many digits"}
	local      = finding{blocks, signalNumberLocal, sdk.FakeIdentity, "Area code missing: “%” cannot be called"}
	unassigned = finding{blocks, signalNumberUnassigned, sdk.FakeIdentity,
		"“%” is in no assigned range of its country's numbering plan"}
	renumbered = finding{reviews, signalNumberRenumbered, sdk.FakeIdentity,
		"“%” has the form of its country's numbers before %"}
	repeated  = finding{reviews, signalNumberRepeated, sdk.FakeIdentity, "One digit repeated: “%”"}
	fictional = finding{blocks, signalRangeFictional, sdk.FakeIdentity,
		"Reserved for films and examples: nobody holds “%”"}
	telemarketing = finding{blocks, signalRangeTelemarketing, sdk.Spam, "Range reserved for telemarketing: %"}
	premium       = finding{blocks, signalCostPremium, sdk.TollFraud,
		"Premium rate: calling it costs extra and pays its holder"}
	premiumGlobal = finding{blocks, signalCostPremium, sdk.TollFraud,
		"International premium rate (+979): calling it pays its holder"}
	global      = finding{reviews, signalCostGlobal, sdk.TollFraud, "+% belongs to no country: %"}
	personal070 = finding{reviews, signalCostBritish070, sdk.TollFraud,
		"British 070 number: looks like a mobile number, costs like premium rate"}
	personal = finding{adds, signalCostPersonal, sdk.TollFraud,
		"Personal number: forwards to another number, which it hides"}
	sharedCost = finding{adds, signalCostShared, sdk.TollFraud, "Shared cost: its holder may earn from calls"}

	// These replace a finding that depends on a guessed country; its text follows.
	guessedSpecial  = finding{reviews, signalGuessSpecial, "", "Read as a number of %. "}
	guessedOrdinary = finding{adds, signalGuessOrdinary, "", "Read as a number of %, which is uncertain. "}
	guessedCountry  = finding{assumes, signalGuessCountry, "",
		"Read as a number of %, because the request names no country"}
	guessedOther   = finding{assumes, signalGuessCountry, "", "Fits no plan of %, so read as a number of %"}
	guessedNothing = finding{hints, signalGuessUnreadable, "",
		"Fits no numbering plan that was tried, and no country was given"}
)
