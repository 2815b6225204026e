package main

// style is a kind of signal.
type style struct {
	points int
	code   string
	text   string // "%" is replaced by evidence
}

// The texts of the layer. 10 points are about one unit of log-odds, by a logistic fit to labelled addresses. Texts with
// 0 points get theirs from the spelling.
var (
	relay          = style{-40, signalProviderRelay, "Privacy relay that forwards to a real mailbox: “%”"}
	large          = style{-40, signalProviderKnown, "Well-known mailbox provider: “%”"}
	minor          = style{-32, signalProviderKnown, "Long-standing mailbox provider: “%”"}
	resembles      = style{0, signalDomainResembles, "“%” is spelt like disposable mail domains: “%”"}
	ordinary       = style{0, signalDomainOrdinary, "“%” is spelt like the domains of ordinary sites"}
	below          = style{6, signalDomainHost, "Mail domain is a host below “%”"}
	group          = style{-26, signalRoleShared, "Address of a team or a mailing list: “%@”"}
	role           = style{-14, signalRoleShared, "Shared role address, not one person's: “%@”"}
	random         = style{2, signalLocalRandom, "Mailbox name reads as made by a machine: “%@”"}
	randomUnlisted = style{14, signalLocalRandom, "Mailbox name reads as made by a machine: “%@”"}
	longNumber     = style{2, signalLocalDigits, "Mailbox name ends in a long number: “%@”"}
)
