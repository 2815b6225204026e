package main

import "assay/sdk"

// finding is a kind of signal. The manifest promises its points and its band.
type finding struct {
	points int
	code   string
	threat sdk.Threat
	text   string // "%" is replaced by evidence
}

// The points of a finding that blocks on its own, of those that ask for a review, and of those that only add to others.
const (
	blocks  = 92
	strong  = 76
	reviews = 64
	adds    = 40
	hints   = 20
)

// The texts of the layer. A disposable service blocks on its own, because its addresses exist to be thrown away. A
// slip or a pose asks for a review, because the owner may have mistyped the address or chosen an odd name.
var (
	disposableService = finding{blocks, "email:disposable:service", sdk.Disposable,
		"Disposable mail service: “%”"}
	disposableName = finding{strong, "email:disposable:name", sdk.Disposable,
		"Mail domain is named like a disposable service: “%” in “%”"}
	borrowed = finding{strong, "email:provider:borrowed", sdk.Disposable,
		"“%” borrows the name of % without being it"}
	mistyped = finding{reviews, "email:provider:typo", sdk.FakeIdentity, "“%” looks like %: %"}
	posing   = finding{strong, "email:impersonation:brand", sdk.Impersonation,
		"Poses as a desk of % at a free mailbox: “%@”"}
	posingPart = finding{reviews, "email:impersonation:brand", sdk.Impersonation,
		"Joins % with service words at a free mailbox: “%@”"}
	posingOwn = finding{hints, "email:impersonation:sender", sdk.Impersonation,
		"Poses as a desk of % at “%”, which lacks that name"}
	brandOnly = finding{hints, "email:impersonation:name", sdk.Impersonation,
		"Name of % at a free mailbox: “%@”"}
	desk = finding{adds, "email:impersonation:desk", sdk.Impersonation,
		"Poses as an organisation's desk at a free mailbox: “%@”"}
	noReply = finding{hints, "email:impersonation:no_reply", sdk.Impersonation,
		"No-reply address at “%”, where only people hold mailboxes"}
	deskOfBrand = finding{hints, "email:role:brand", sdk.Impersonation,
		"Speaks for security or accounts: “%@” at a domain that joins % with other words"}
	webAddress = finding{reviews, "email:local:web_address", sdk.Phishing,
		"Mailbox name is written like a web address: “%@”"}
	domainName = finding{adds, "email:local:domain_name", sdk.Phishing,
		"Mailbox name is written like a domain name: “%@”"}
	scripts = finding{reviews, "email:local:mixed_scripts", sdk.Impersonation,
		"Mailbox name mixes Latin with Cyrillic or Greek letters: “%@”"}
	keyboard = finding{reviews, "email:local:keyboard", sdk.FakeIdentity,
		"Mailbox name runs along the keyboard: “%@”"}
	medicine = finding{reviews, "email:local:medicine", sdk.Spam,
		"Mailbox name advertises medicine: “%@”"}
)
