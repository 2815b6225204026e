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
	noDomain = finding{90, "network:dns:no_domain", "The domain % does not exist"}
	noHost   = finding{8, "network:dns:no_host", "The name % does not exist, only %"}
	dangling = finding{13, "network:dns:dangling", "Alias of %, which does not exist and could be taken over"}

	noMailDomain = finding{90, "network:mail:no_domain", "No mail can reach it: the domain % does not exist"}
	refusesMail  = finding{90, "network:mail:refused", "No mail can reach it: % accepts none (null MX record)"}
	noMailServer = finding{90, "network:mail:no_server", "No mail can reach it: % has neither mail server nor address"}
	sendsNoMail  = finding{22, "network:mail:sends_none", "% declares that it never sends mail (SPF -all)"}
	implicitMail = finding{5, "network:mail:implicit", "% names no mail server; mail would go to its web address"}
	openMail     = finding{8, "network:mail:open", "Anybody may send mail as % (SPF +all)"}
	forgeable    = finding{4, "network:mail:forgeable", "Mail from % can be forged: no SPF, no DMARC"}

	youngToday     = finding{0, "network:registration:young", "% was registered today"}
	youngYesterday = finding{0, "network:registration:young", "% was registered yesterday"}
	young          = finding{0, "network:registration:young", "% was registered % days ago"}
	held           = finding{90, "network:registration:held", "% was taken offline by its registrar or registry"}
	suspended      = finding{90, "network:registration:held", "% was suspended by its registrar (name servers of %)"}
	expired        = finding{8, "network:registration:ending", "The registration of % has expired"}

	specialAddress = finding{15, "network:address:special", "% has no public address, only a % one"}
	fluxOperators  = finding{13, "network:address:flux",
		"% switches between addresses of % network operators every % seconds"}
	fluxAddresses = finding{13, "network:address:flux", "% switches between addresses of % networks every % seconds"}
	parked        = finding{6, "network:service:parked", "% is parked or for sale (%)"}
	parkedMail    = finding{15, "network:service:parked", "% is parked or for sale (%)"}
	registrar     = finding{0, "network:service:company", "Registered through %, like many reported domains"}
	nameServer    = finding{0, "network:service:company", "Name servers of %, like many reported domains"}
	hosting       = finding{0, "network:service:company", "Hosted in %, like many reported domains"}

	listed        = finding{90, "network:blocklist:domain", "% is on the DNS blocklist %"}
	listedMore    = finding{100, "network:blocklist:several", "% is on % DNS blocklists, including %"}
	listedAddress = finding{12, "network:blocklist:address", "An address of % is on the DNS blocklist %"}
	listedTwice   = finding{12, "network:blocklist:address", "An address of % is on % DNS blocklists, including %"}
)

// ages holds the points of a registration that is less than a number of days old. Older ones speak for a domain, which
// the standing layer counts (docs/decisions/detection.md has the figures).
var ages = [...]struct{ days, points int }{{8, 33}, {31, 30}, {91, 16}, {181, 9}, {366, 3}}
