package main

// style is a kind of signal.
type style struct {
	points int
	code   string
	text   string // "%" is replaced by evidence
}

// The texts of the layer. 10 points are about one unit of log-odds, by a logistic fit to labelled addresses. Texts
// without points have them by spelling.
var (
	relay     = style{-40, "mailbox:provider:relay", "Privacy relay that forwards to a real mailbox: “%”"}
	large     = style{-40, "mailbox:provider:known", "Well-known mailbox provider: “%”"}
	minor     = style{-32, "mailbox:provider:known", "Long-standing mailbox provider: “%”"}
	resembles = style{0, "mailbox:domain:resembles",
		"“%” is on no list and spelt like disposable mail domains: “%”"}
	ordinary       = style{0, "mailbox:domain:ordinary", "“%” is spelt like the domains of ordinary sites"}
	below          = style{6, "mailbox:domain:host", "Mail domain is a host below “%”"}
	group          = style{-26, "mailbox:role:shared", "Address of a team or a mailing list: “%@”"}
	role           = style{-14, "mailbox:role:shared", "Shared role address, not one person's: “%@”"}
	random         = style{2, "mailbox:local:random", "Mailbox name reads as made by a machine: “%@”"}
	randomUnlisted = style{14, "mailbox:local:random", "Mailbox name reads as made by a machine: “%@”"}
	longNumber     = style{2, "mailbox:local:digits", "Mailbox name ends in a long number: “%@”"}
)
