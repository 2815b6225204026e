package main

// finding is a kind of signal. The manifest promises the points of those that warrant a band.
type finding struct {
	points int // 0: they depend on the evidence
	code   string
	text   string // "%" is replaced by evidence
}

// The findings of the layer. Their points add up to its score, 0 to 100. A finding that a person can verify and act on
// reaches review or block alone (TestVerdicts). The rest is circumstantial, because many honest domains are young,
// parked or badly configured: 11 points are a unit of log-odds.
var (
	noDomain = finding{58, signalDnsNoDomain, "The domain % does not exist"}
	noHost   = finding{8, signalDnsNoHost, "The name % does not exist, only %"}
	dangling = finding{13, signalDnsDangling, "Alias of %, which does not exist and could be taken over"}

	noMailDomain = finding{58, signalMailNoDomain, "No mail can reach it: the domain % does not exist"}
	refusesMail  = finding{58, signalMailRefused, "No mail can reach it: % accepts none (null MX record)"}
	noMailServer = finding{58, signalMailNoServer, "No mail can reach it: % has neither mail server nor address"}
	sendsNoMail  = finding{22, signalMailSendsNone, "% declares that it never sends mail (SPF -all)"}
	implicitMail = finding{5, signalMailImplicit, "% names no mail server; mail would go to its web address"}
	openMail     = finding{8, signalMailOpen, "Anybody may send mail as % (SPF +all)"}
	forgeable    = finding{4, signalMailForgeable, "Mail from % can be forged: no SPF, no DMARC"}

	youngToday     = finding{0, signalRegistrationYoung, "% was registered today"}
	youngYesterday = finding{0, signalRegistrationYoung, "% was registered yesterday"}
	young          = finding{0, signalRegistrationYoung, "% was registered % days ago"}
	held           = finding{58, signalRegistrationHeld, "% was taken offline by its registrar or registry"}
	suspended      = finding{58, signalRegistrationHeld, "% was suspended by its registrar (name servers of %)"}
	expired        = finding{8, signalRegistrationEnding, "The registration of % has expired"}

	specialAddress = finding{15, signalAddressSpecial, "% has no public address, only a % one"}
	fluxOperators  = finding{13, signalAddressFlux, "% has addresses of % network operators"}
	fluxAddresses  = finding{13, signalAddressFlux, "% has addresses in % networks"}
	parked         = finding{6, signalServiceParked, "% is parked or for sale (%)"}
	parkedMail     = finding{15, signalServiceParked, "% is parked or for sale (%)"}
	registrar      = finding{0, signalServiceCompany, "Registered through %, like many reported domains"}
	nameServer     = finding{0, signalServiceCompany, "Name servers of %, like many reported domains"}
	hosting        = finding{0, signalServiceCompany, "Hosted in %, like many reported domains"}

	listed        = finding{58, signalBlocklistDomain, "% is on the DNS blocklist %"}
	listedMore    = finding{100, signalBlocklistSeveral, "% is on % DNS blocklists, including %"}
	listedAddress = finding{12, signalBlocklistAddress, "An address of % is on the DNS blocklist %"}
	listedTwice   = finding{12, signalBlocklistAddress, "An address of % is on % DNS blocklists, including %"}
)

// ages holds the points of a registration that is less than a number of days old. Older ones speak for a domain, which
// the standing layer counts (docs/decisions/detection.md has the figures).
var ages = [...]struct{ days, points int }{{8, 33}, {31, 30}, {91, 16}, {181, 9}, {366, 3}}
