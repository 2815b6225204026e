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
	disposableService = finding{blocks, signalDisposableService, sdk.Disposable,
		"Disposable mail service: “%”"}
	disposableName = finding{strong, signalDisposableName, sdk.Disposable,
		"Mail domain is named like a disposable service: “%” in “%”"}
	borrowed = finding{strong, signalProviderBorrowed, sdk.Disposable,
		"“%” borrows the name of % without being it"}
	mistyped = finding{reviews, signalProviderTypo, sdk.FakeIdentity, "“%” looks like %: %"}
	posing   = finding{strong, signalImpersonationBrand, sdk.Impersonation,
		"Poses as a desk of % at a free mailbox: “%@”"}
	posingPart = finding{reviews, signalImpersonationBrand, sdk.Impersonation,
		"Joins % with service words at a free mailbox: “%@”"}
	posingOwn = finding{hints, signalImpersonationSender, sdk.Impersonation,
		"Poses as a desk of % at “%”, which lacks that name"}
	brandOnly = finding{hints, signalImpersonationName, sdk.Impersonation,
		"Name of % at a free mailbox: “%@”"}
	desk = finding{adds, signalImpersonationDesk, sdk.Impersonation,
		"Poses as an organisation's desk at a free mailbox: “%@”"}
	noReply = finding{hints, signalImpersonationNoReply, sdk.Impersonation,
		"No-reply address at “%”, where only people hold mailboxes"}
	deskOfBrand = finding{hints, signalRoleBrand, sdk.Impersonation,
		"Speaks for security or accounts: “%@” at a domain that joins % with other words"}
	webAddress = finding{reviews, signalLocalWebAddress, sdk.Phishing,
		"Mailbox name is written like a web address: “%@”"}
	domainName = finding{adds, signalLocalDomainName, sdk.Phishing,
		"Mailbox name is written like a domain name: “%@”"}
	scripts = finding{reviews, signalLocalMixedScripts, sdk.Impersonation,
		"Mailbox name mixes Latin with Cyrillic or Greek letters: “%@”"}
	keyboard = finding{reviews, signalLocalKeyboard, sdk.FakeIdentity,
		"Mailbox name runs along the keyboard: “%@”"}
	medicine = finding{reviews, signalLocalMedicine, sdk.Spam,
		"Mailbox name advertises medicine: “%@”"}
)
