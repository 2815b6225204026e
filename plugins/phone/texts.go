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
)

// The texts of the layer. A number that nobody can hold, that earns money from its callers, or that a regulator
// reserves for unsolicited calls blocks on its own.
var (
	unreadable = finding{blocks, "phone:number:unreadable", sdk.FakeIdentity, "No country has numbers like “%”"}
	tooShort   = finding{blocks, "phone:number:length", sdk.FakeIdentity, "Too short for a number of %"}
	tooLong    = finding{blocks, "phone:number:length", sdk.FakeIdentity, "Too long for a number of %"}
	oddLength  = finding{blocks, "phone:number:length", sdk.FakeIdentity, "Numbers of % do not have this many digits"}
	local      = finding{blocks, "phone:number:local", sdk.FakeIdentity, "Area code missing: “%” cannot be called"}
	unassigned = finding{blocks, "phone:number:unassigned", sdk.FakeIdentity,
		"“%” is in no assigned range of its country's numbering plan"}
	repeated  = finding{reviews, "phone:number:repeated", sdk.FakeIdentity, "One digit repeated: “%”"}
	fictional = finding{blocks, "phone:range:fictional", sdk.FakeIdentity,
		"Reserved for films and examples: nobody holds “%”"}
	telemarketing = finding{blocks, "phone:range:telemarketing", sdk.Spam, "Range reserved for telemarketing: %"}
	premium       = finding{blocks, "phone:cost:premium", sdk.TollFraud,
		"Premium rate: calling it costs extra and pays its holder"}
	premiumGlobal = finding{blocks, "phone:cost:premium", sdk.TollFraud,
		"International premium rate (+979): calling it pays its holder"}
	global      = finding{reviews, "phone:cost:global", sdk.TollFraud, "+% belongs to no country: %"}
	personal070 = finding{reviews, "phone:cost:british_070", sdk.TollFraud,
		"British 070 number: looks like a mobile number, costs like premium rate"}
	personal = finding{adds, "phone:cost:personal", sdk.TollFraud,
		"Personal number: forwards to another number, which it hides"}
	sharedCost = finding{adds, "phone:cost:shared", sdk.TollFraud, "Shared cost: its holder may earn from calls"}

	// In place of a finding that depends on a country that was guessed; its text follows.
	guessedSpecial  = finding{reviews, "phone:guess:special", "", "Read as a number of %. "}
	guessedOrdinary = finding{adds, "phone:guess:ordinary", "", "Read as a number of %, which is uncertain. "}
	guessedNothing  = finding{hints, "phone:guess:unreadable", "",
		"Fits no numbering plan that was tried, and no country was given"}
)
