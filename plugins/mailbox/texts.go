package main

// style is a kind of signal.
type style struct {
	points int
	code   string
	text   string // "%" is replaced by evidence
}

// The texts of the layer. Texts without points have them by spelling.
var (
	relay          = style{-25, "mailbox:provider:relay", "Privacy relay that forwards to a real mailbox: “%”"}
	large          = style{-16, "mailbox:provider:known", "Well-known mailbox provider: “%”"}
	minor          = style{-16, "mailbox:provider:known", "Long-standing mailbox provider: “%”"}
	resembles      = style{0, "mailbox:domain:resembles", "“%” is on no list and spelt like disposable mail domains: “%”"}
	ordinary       = style{0, "mailbox:domain:ordinary", "“%” is spelt like the domains of ordinary sites"}
	group          = style{-20, "mailbox:role:shared", "Address of a team or a mailing list: “%@”"}
	role           = style{-8, "mailbox:role:shared", "Shared role address, not one person's: “%@”"}
	random         = style{8, "mailbox:local:random", "Mailbox name reads as made by a machine: “%@”"}
	randomUnlisted = style{16, "mailbox:local:random", "Mailbox name reads as made by a machine: “%@”"}
	longNumber     = style{3, "mailbox:local:digits", "Mailbox name ends in a long number: “%@”"}
)
