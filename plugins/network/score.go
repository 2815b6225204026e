package main

import (
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. They add up to the layer's score, 0 to 100. What a person can verify and act on reaches
// review or block alone (TestVerdicts). The rest is circumstantial, because many honest domains are young, parked or
// badly configured: 11 points are a unit of log-odds.
const (
	pointsNoDomain   = 90 // nothing and nobody can be reached there
	pointsNoMail     = 90
	pointsHeld       = 90
	pointsListed     = 90
	pointsListedMore = 100

	pointsSendsNoMail  = 22
	pointsImplicitMail = 5
	pointsForgeable    = 4
	pointsOpenSPF      = 8
	pointsParkedMail   = 15
	pointsNoHost       = 8
	pointsDangling     = 13
	pointsSpecial      = 15
	pointsEnding       = 8
	pointsParked       = 6
	pointsFlux         = 13
	pointsAddress      = 12 // few, because many sites share an address

	// Fast flux: addresses in at least this many autonomous systems or networks, with at most this TTL in seconds. Load
	// balancers of clouds use several networks within one system.
	fluxSystems  = 4
	fluxNetworks = 10
	fluxTTL      = 600
)

// ages holds the points of a registration that is less than a number of days old. Older ones speak for a domain, which
// is what the standing layer counts (docs/decisions/detection.md has the figures).
var ages = [...]struct{ days, points int }{{8, 33}, {31, 30}, {91, 16}, {181, 9}, {366, 3}}

// Score scores a domain, or the domain of an email address, from the dns.*, rdap.* and net.* facts.
func Score(c *sdk.Check) sdk.Outcome {
	if !known(c) {
		return sdk.Abstained
	}
	return score(c)
}

// known reports whether any lookup returned something.
func known(c *sdk.Check) bool {
	return c.Has("dns.status") || c.Has("dns.zone") || c.Has("dns.mx") || c.Has("dns.spf") || c.Has("dns.dmarc") ||
		c.Has("rdap.found") || c.Has("net.asn") || c.Has("net.listed") || c.Has("net.domain_listed")
}

// score is apart from Score, because entering a large function costs fuel.
//
//go:noinline
func score(c *sdk.Check) sdk.Outcome {
	f := read(c)
	gone := f.scoreExistence(c)
	if f.email && !gone {
		f.scoreMail(c)
	}
	f.scoreRegistration(c)
	f.scoreService(c)
	f.scoreListings(c)
	return sdk.Scored
}

// lookups holds the facts from lookups. An absent fact is an empty field.
type lookups struct {
	email                                  bool
	host, domain                           string // as signal texts quote them
	status, zone, special, alias, ns       string
	networks, ttl                          string
	mx, spf, dmarc                         string
	found, age, created, registrar, states string
	asn, addressListings, domainListings   string
}

func read(c *sdk.Check) lookups {
	f := lookups{
		email:  c.Get("entity.type") == "email",
		host:   c.Get("domain.ascii"),
		domain: c.Get("domain.registrable"),
		status: c.Get("dns.status"), zone: c.Get("dns.zone"), special: c.Get("dns.special"), alias: c.Get("dns.alias"),
		ns: c.Get("dns.ns"), networks: c.Get("dns.networks"), ttl: c.Get("dns.ttl"),
		mx: c.Get("dns.mx"), spf: c.Get("dns.spf"), dmarc: c.Get("dns.dmarc"),
		found: c.Get("rdap.found"), age: c.Get("rdap.age_days"), created: c.Get("rdap.created"),
		registrar: c.Get("rdap.registrar"),
		states:    c.Get("rdap.status"),
		asn:       c.Get("net.asn"), addressListings: c.Get("net.listed"), domainListings: c.Get("net.domain_listed"),
	}
	if f.domain == "" {
		f.domain = f.host
	}
	f.host, f.domain = quote.Of(f.host), quote.Of(f.domain)
	return f
}

// scoreExistence scores a domain or host name that does not exist, and reports whether the domain is gone.
func (f *lookups) scoreExistence(c *sdk.Check) (gone bool) {
	switch {
	case f.zone == "nxdomain" && f.status != "ok":
		registry := ""
		if f.found == "no" {
			registry = " and is not registered"
		}
		if f.email {
			c.Signal(pointsNoDomain, "network:mail:no_domain", sdk.Join("No mail can reach it: the domain ", f.domain,
				" does not exist", registry))
		} else {
			c.Signal(pointsNoDomain, "network:dns:no_domain", sdk.Join("The domain ", f.domain, " does not exist",
				registry))
		}
		return true
	case f.email: // a mail domain needs no address
	case f.status == "nxdomain":
		c.Signal(pointsNoHost, "network:dns:no_host", sdk.Join("The name ", f.host, " does not exist, only ", f.domain))
	case f.status == "dangling":
		c.Signal(pointsDangling, "network:dns:dangling", sdk.Join("Alias of ", quote.Of(f.alias),
			", which does not exist and could be taken over"))
	}
	return false
}

// scoreMail scores whether the mail domain accepts mail and, if it does, whether others can send mail in its name.
func (f *lookups) scoreMail(c *sdk.Check) {
	addressless := f.status == "nodata" || f.status == "nxdomain" || f.status == "dangling"
	switch {
	case f.mx == "null":
		c.Signal(pointsNoMail, "network:mail:refused", sdk.Join("No mail can reach it: ", f.host,
			" accepts none (null MX record)"))
		return
	case f.mx == "none" && addressless:
		c.Signal(pointsNoMail, "network:mail:no_server", sdk.Join("No mail can reach it: ", f.host,
			" has neither mail server nor address"))
		return
	case f.spf == "nobody":
		c.Signal(pointsSendsNoMail, "network:mail:sends_none", sdk.Join(f.host,
			" declares that it never sends mail (SPF -all)"))
	case f.mx == "none" && f.status == "ok":
		c.Signal(pointsImplicitMail, "network:mail:implicit", sdk.Join(f.host,
			" names no mail server; mail would go to its web address"))
	}
	if f.spf == "pass_all" {
		c.Signal(pointsOpenSPF, "network:mail:open", sdk.Join("Anybody may send mail as ", f.host, " (SPF +all)"))
	} else if f.spf == "none" && f.dmarc == "none" {
		c.Signal(pointsForgeable, "network:mail:forgeable", sdk.Join("Mail from ", f.host,
			" can be forged: no SPF, no DMARC"))
	}
}

// scoreRegistration scores the age of the registration and whether it is in force.
func (f *lookups) scoreRegistration(c *sdk.Check) {
	if f.age != "" {
		f.scoreAge(c)
	}
	held, ending := false, false
	for words := f.states; words != ""; {
		var word string
		switch word, words = cutWord(words); word {
		case "client_hold", "server_hold":
			held = true
		case "redemption_period", "pending_delete":
			ending = true
		}
	}
	if held {
		c.Signal(pointsHeld, "network:registration:held", sdk.Join(f.domain,
			" was taken offline by its registrar or registry"))
	} else if ending {
		c.Signal(pointsEnding, "network:registration:ending",
			sdk.Join("The registration of ", f.domain, " has expired"))
	} else if by := served(suspenders[:], f.ns); by != "" {
		c.Signal(pointsHeld, "network:registration:held", sdk.Join(f.domain,
			" was suspended by its registrar (name servers of ", by, ")"))
	}
}

// scoreAge scores a young registration.
func (f *lookups) scoreAge(c *sdk.Check) {
	days, points := leading(f.age), 0
	for i := range ages {
		if days < ages[i].days {
			points = ages[i].points
			break
		}
	}
	if points == 0 {
		return
	}
	number, ago := "", "today"
	if days == 1 {
		ago = "yesterday"
	} else if days > 1 {
		number, ago = strconv.Itoa(days), " days ago"
	}
	on := ""
	if f.created != "" {
		on = ", on "
	}
	c.Signal(points, "network:registration:young", sdk.Join(f.domain, " was registered ", number, ago, on,
		quote.Of(f.created)))
}

// scoreService scores who serves the domain, and from which addresses.
func (f *lookups) scoreService(c *sdk.Check) {
	if f.special != "" && f.networks == "0" {
		kind, _, _ := strings.Cut(f.special, " ")
		c.Signal(pointsSpecial, "network:address:special", sdk.Join(f.host, " has no public address, only a ",
			strings.ReplaceAll(quote.Of(kind), "_", "-"), " one"))
	}
	parker := served(parkers[:], f.ns)
	if parker == "" {
		parker = served(parkers[:], f.alias)
	}
	if parker != "" {
		points := pointsParked
		if f.email {
			points = pointsParkedMail
		}
		c.Signal(points, "network:service:parked", sdk.Join(f.domain, " is parked or for sale (",
			parker, ")"))
	}
	f.scoreFlux(c)
	f.scoreProviders(c)
}

// scoreFlux scores fast flux: a name that changes quickly among addresses of many networks.
func (f *lookups) scoreFlux(c *sdk.Check) {
	if f.ttl == "" || leading(f.ttl) > fluxTTL {
		return
	}
	n, among := countWords(f.asn), " network operators every "
	if n < fluxSystems {
		n, among = leading(f.networks), " networks every "
		if n < fluxNetworks {
			return
		}
	}
	c.Signal(pointsFlux, "network:address:flux", sdk.Join(f.host, " switches between addresses of ",
		strconv.Itoa(n), among, strconv.Itoa(leading(f.ttl)), " seconds"))
}

// scoreProviders scores a registrar, name servers or network that many reported domains use. These correlate, so only
// the one with the most points counts.
func (f *lookups) scoreProviders(c *sdk.Check) {
	highest, is, name := registrarPoints(f.registrar), "Registered through ", f.registrar
	for hosts := f.ns; hosts != ""; {
		var host string
		host, hosts = cutWord(hosts)
		host = owner(host)
		if n := points(nameServers[:], host); n > highest {
			highest, is, name = n, "Name servers of ", host
		}
	}
	for numbers := f.asn; numbers != ""; {
		var number string
		number, numbers = cutWord(numbers)
		if n := points(systems[:], number); n > highest {
			highest, is, name = n, "Hosted in ", number
		}
	}
	if highest > 0 {
		c.Signal(highest, "network:service:company", sdk.Join(is, quote.Of(name),
			", like many reported domains"))
	}
}

// scoreListings scores DNS blocklists that name the domain or its addresses.
func (f *lookups) scoreListings(c *sdk.Check) {
	if n := countWords(f.domainListings); n > 0 {
		points, code := pointsListed, "network:blocklist:domain"
		if n > 1 {
			points, code = pointsListedMore, "network:blocklist:several"
		}
		entry, _ := cutWord(f.domainListings)
		c.Signal(points, code, onLists("", f.domain, n, entry))
		c.Threat(listedFor(entry))
	}
	if n := countWords(f.addressListings); n > 0 {
		entry, _ := cutWord(f.addressListings)
		c.Signal(pointsAddress, "network:blocklist:address", onLists("An address of ", f.host, n, entry))
	}
}

// onLists says that something is on n blocklists. The first one is that of entry, "zone=address".
func onLists(what, name string, n int, entry string) string {
	zone, _, _ := strings.Cut(entry, "=")
	if n == 1 {
		return sdk.Join(what, name, " is on the DNS blocklist ", quote.Of(zone))
	}
	return sdk.Join(what, name, " is on ", strconv.Itoa(n), " DNS blocklists, including ", quote.Of(zone))
}

// listedFor returns the threat of a blocklist entry "zone=address". Only the return codes of Spamhaus DBL distinguish
// phishing and malware.
func listedFor(entry string) sdk.Threat {
	zone, code, _ := strings.Cut(entry, "=")
	if strings.HasPrefix(zone, "dbl.") {
		switch code {
		case "127.0.1.4", "127.0.1.104":
			return sdk.Phishing
		case "127.0.1.5", "127.0.1.6", "127.0.1.105", "127.0.1.106":
			return sdk.Malware
		}
	}
	return sdk.Spam
}
