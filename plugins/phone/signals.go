// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalNumberUnreadable   = "phone:number:unreadable"   // No country has numbers of this form
	signalNumberLength       = "phone:number:length"       // No number of the country's plan has this many digits
	signalNumberLocal        = "phone:number:local"        // Area code missing, so the number cannot be called
	signalNumberUnassigned   = "phone:number:unassigned"   // In no assigned range of the country's numbering plan
	signalNumberRenumbered   = "phone:number:renumbered"   // In the form that the country's numbers had before they were changed
	signalNumberRepeated     = "phone:number:repeated"     // One digit repeated eight times or more at the end of the number
	signalRangeFictional     = "phone:range:fictional"     // Reserved by the regulator for films and examples, so nobody holds the number
	signalRangeTelemarketing = "phone:range:telemarketing" // Range that the regulator reserves for telemarketing
	signalCostPremium        = "phone:cost:premium"        // Premium rate: calling the number costs extra and pays its holder
	signalCostGlobal         = "phone:cost:global"         // The calling code belongs to no country, and calls cost more than people expect
	signalCostBritish070     = "phone:cost:british_070"    // British 070 number: looks like a mobile number and costs as much as premium rate
	signalCostPersonal       = "phone:cost:personal"       // Personal number: forwards to another number, which it hides
	signalCostShared         = "phone:cost:shared"         // Shared cost: the holder may earn from calls
	signalGuessSpecial       = "phone:guess:special"       // A number that nobody can have or that costs extra, if the guess of its country is right
	signalGuessOrdinary      = "phone:guess:ordinary"      // A special number in the guessed country, and perhaps an ordinary one in another
	signalGuessCountry       = "phone:guess:country"       // The request names no country, or none whose plan the number fits, so it was read in the country whose plan fits best
	signalGuessUnreadable    = "phone:guess:unreadable"    // Fits no numbering plan that was tried, and the request names no country
)
