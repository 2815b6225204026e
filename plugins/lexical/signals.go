// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalNameKnown       = "lexical:name:known"       // Listed as a site of a brand or as a well-known site; its spelling does not count
	signalNameOrdinary    = "lexical:name:ordinary"    // Spelling, suffix or shape typical of long-established sites
	signalWordingReported = "lexical:wording:reported" // Spelled like reported names
	signalSuffixReported  = "lexical:suffix:reported"  // Names like this are often reported under this suffix
	signalHostingReported = "lexical:hosting:reported" // Names like this are often reported on this shared host
	signalShapeReported   = "lexical:shape:reported"   // Name shape typical of reported names: length, hyphens, digits
	signalShapeRandom     = "lexical:shape:random"     // The letters of the name have an order that words rarely have
	signalShapeHex        = "lexical:shape:hex"        // The name is a hexadecimal number
	signalShapeAddress    = "lexical:shape:address"    // Contains a part of another web address, such as com- or www
	signalShapePunycode   = "lexical:shape:punycode"   // Begins with xn- like an internationalised name, but is not one
	signalBaitWallet      = "lexical:bait:wallet"      // Contains bait words of crypto wallets and tokens
	signalBaitAccount     = "lexical:bait:account"     // Contains bait words of signing in, verification, security and accounts
	signalBaitPrize       = "lexical:bait:prize"       // Contains bait words of gifts, prizes and bonuses
	signalBaitGame        = "lexical:bait:game"        // Contains bait words of goods and events in games and chat rooms
	signalBaitDelivery    = "lexical:bait:delivery"    // Contains bait words of parcels and deliveries
	signalBaitAuthority   = "lexical:bait:authority"   // Contains bait words of public bodies, refunds, fees and fines
	signalBaitPayment     = "lexical:bait:payment"     // Contains bait words of banking and payments
	signalBaitInvestment  = "lexical:bait:investment"  // Contains bait words of trading and returns
	signalBaitLoan        = "lexical:bait:loan"        // Contains bait words of quick credit
	signalBaitSupport     = "lexical:bait:support"     // Contains bait words of help desks and services
	signalBaitJob         = "lexical:bait:job"         // Contains bait words of jobs and applications
	signalBaitRomance     = "lexical:bait:romance"     // Contains bait words of dating
	signalBaitShop        = "lexical:bait:shop"        // Contains bait words of cut-price shopping
	signalBaitCheat       = "lexical:bait:cheat"       // Contains bait words of cheats, cracks and generators
	signalBaitSoftware    = "lexical:bait:software"    // Contains bait words of downloads, drivers and activators
	signalBaitGambling    = "lexical:bait:gambling"    // Contains bait words of games of chance
	signalBaitGoods       = "lexical:bait:goods"       // Contains bait words of medicine, drugs, weapons and papers, which need a licence
	signalBaitPets        = "lexical:bait:pets"        // Contains bait words of animals for sale
)
