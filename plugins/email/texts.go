package main

import "assay/sdk"

// finding is a kind of signal. The manifest promises its points and its band.
type finding struct {
	points int
	code   string
	threat sdk.Threat
	text   string // "%" is replaced by evidence
}

// The points of findings that block on their own, of those that ask for a review, and of those that only add to others.
// A finding that asks for a review gets one: clearing style does not lower it, and neutral style does not raise it.
const (
	blocks  = 92
	named   = 64
	reviews = 33
	adds    = 30
	hints   = 20
)

// The texts of the layer. A disposable service blocks on its own, because its addresses exist to be thrown away, and so
// does a brand's desk at a free mailbox. A slip or another pose asks for a review, because the owner may have mistyped
// the address or chosen an odd name.
var (
	disposableListed = finding{blocks, signalDisposableService, sdk.Disposable,
		"On % lists of disposable mail: “%”"}
	disposableService = finding{blocks, signalDisposableService, sdk.Disposable,
		"Disposable mail service: “%”"}
	disposableName = finding{named, signalDisposableName, sdk.Disposable,
		"Mail domain is named like a disposable service: “%” in “%”"}
	temporarily = finding{reviews, signalDisposableWording, sdk.Disposable,
		"Mail domain says that it is temporary: “%”"}
	borrowed = finding{reviews, signalProviderBorrowed, sdk.Disposable,
		"“%” borrows the name of % without being it"}
	mistyped = finding{reviews, signalProviderTypo, sdk.FakeIdentity, "“%” looks like %: %"}
	posing   = finding{named, signalImpersonationBrand, sdk.Impersonation,
		"Poses as a desk of % at a free mailbox: “%@”"}
	posingWord = finding{reviews, signalImpersonationPart, sdk.Impersonation,
		"May pose as a desk of % at a free mailbox: “%@”"}
	posingPart = finding{reviews, signalImpersonationPart, sdk.Impersonation,
		"Joins % with service words at a free mailbox: “%@”"}
	posingOwn = finding{hints, signalImpersonationSender, sdk.Impersonation,
		"Poses as a desk of % at “%”, which lacks that name"}
	brandOnly = finding{hints, signalImpersonationName, sdk.Impersonation,
		"Name of % at a free mailbox: “%@”"}
	desk = finding{adds, signalImpersonationDesk, sdk.Impersonation,
		"Poses as an organisation's desk at a free mailbox: “%@”"}
	office = finding{hints, signalImpersonationDesk, sdk.Impersonation,
		"Named like an organisation's desk at a free mailbox: “%@”"}
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
	noGmail = finding{reviews, signalLocalImpossible, sdk.FakeIdentity,
		"Gmail has no such mailbox: its names have only a to z, digits and dots, unlike “%”"}
	keyboard = finding{reviews, signalLocalKeyboard, sdk.FakeIdentity,
		"Mailbox name runs along the keyboard: “%@”"}
	random = finding{reviews, signalLocalRandom, sdk.FakeIdentity,
		"Mailbox name is random letters, as programs make them for free mailboxes: “%@”"}
	medicine = finding{reviews, signalLocalMedicine, sdk.Spam,
		"Mailbox name advertises medicine: “%@”"}
)
