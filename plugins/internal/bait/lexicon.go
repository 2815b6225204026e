package bait

// Class is a set of purposes of bait words, one bit each.
type Class uint32

// The purposes of bait words.
const (
	Login    Class = 1 << iota // asks to sign in
	Verify                     // asks to confirm, to validate, to authenticate
	Secure                     // promises or threatens safety
	Account                    // the victim's account, profile or subscription
	Urgent                     // something expires, is suspended or must be renewed
	Bank                       // banking and its tools
	Pay                        // payments, invoices and cards
	Refund                     // money back: tax, fees, benefits
	Parcel                     // deliveries
	Fee                        // customs, tolls, fines
	Official                   // a government and its documents
	Prize                      // gifts, bonuses, giveaways
	Crypto                     // crypto assets
	Connect                    // connecting a wallet to a page
	Invest                     // returns on money
	Support                    // help desks
	Work                       // jobs and applications
	Romance                    // dating and webcams
	Shop                       // outlets, replicas, discounts
	Cheat                      // cracks, cheats, generators
	Gaming                     // goods and events inside games and chat rooms
	Software                   // downloads, drivers, activators
	Gamble                     // games of chance
	Loan                       // quick credit
	Goods                      // goods that only licensed sellers may sell: medicine, drugs, arms, documents
	Pets                       // animals for sale
	Filler                     // words that make any name look official: www, com, my, online, official
)
