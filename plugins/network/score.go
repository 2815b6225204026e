package main

import (
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. They add up to the layer's score, 0 to 100. Network data is circumstantial: many honest
// domains are young, parked or badly configured. So the layer alone never reaches review in the default lineup
// (TestVerdicts). It raises scores that other layers already found suspicious.
const (
	pointsNoMailDomain = 90 // mail can neither be sent nor received there
	pointsNoMail       = 80
	pointsSendsNoMail  = 45
	pointsImplicitMail = 10
	pointsForgeable    = 8
	pointsOpenSPF      = 15
	pointsParkedMail   = 30

	pointsNoDomain  = 30 // usually a typing mistake, but a domain that was taken down looks the same
	pointsNoHost    = 15
	pointsDangling  = 25
	pointsSpecial   = 30
	pointsHeld      = 40
	pointsEnding    = 15
	pointsParked    = 12
	pointsFlux      = 25
	pointsListed    = 70
	pointsListedTwo = 85
	pointsAddress   = 25 // few, because many sites share an address
	pointsProtected = -5

	// Fast flux: addresses in at least this many autonomous systems or networks, with at most this TTL in seconds. Load
	// balancers of clouds use several networks within one system.
	fluxSystems  = 4
	fluxNetworks = 10
	fluxTTL      = 600
)

// ages holds the points of a registration that is less than a number of days old.
var ages = [...]struct{ days, points int }{{8, 45}, {31, 40}, {91, 25}, {181, 12}, {366, 6}, {5 * 365, 0},
	{10 * 365, -5}}

// pointsOldest are the points of a registration older than all of ages.
const pointsOldest = -10

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
			c.Signal(pointsNoMailDomain, "network:mail:no_domain", sdk.Join("no such domain: ", f.domain,
				" does not exist", registry, ", so no mail can reach the address"))
			c.Threat(sdk.FakeIdentity)
		} else {
			c.Signal(pointsNoDomain, "network:dns:no_domain", sdk.Join("no such domain: ", f.domain, " does not exist",
				registry))
		}
		return true
	case f.email: // a mail domain needs no address
	case f.status == "nxdomain":
		c.Signal(pointsNoHost, "network:dns:no_host", sdk.Join("no such name: ", f.host, " does not exist"))
	case f.status == "dangling":
		c.Signal(pointsDangling, "network:dns:dangling", sdk.Join(f.host, " is an alias of ", quote.Of(f.alias),
			", which does not exist: whoever registers that takes it over"))
	}
	return false
}

// scoreMail scores whether the mail domain accepts mail, and whether others can send mail in its name.
func (f *lookups) scoreMail(c *sdk.Check) {
	addressless := f.status == "nodata" || f.status == "nxdomain" || f.status == "dangling"
	switch {
	case f.mx == "null":
		c.Signal(pointsNoMail, "network:mail:refused", sdk.Join(f.host, " says that it takes no mail (null MX)"))
		c.Threat(sdk.FakeIdentity)
	case f.mx == "none" && addressless:
		c.Signal(pointsNoMail, "network:mail:no_server", sdk.Join(f.host,
			" has no mail server: no MX record and no address"))
		c.Threat(sdk.FakeIdentity)
	case f.spf == "nobody":
		c.Signal(pointsSendsNoMail, "network:mail:sends_none", sdk.Join(f.host,
			" says that nobody sends mail in its name (SPF -all)"))
	case f.mx == "none" && f.status == "ok":
		c.Signal(pointsImplicitMail, "network:mail:implicit", sdk.Join(f.host,
			" names no mail server; mail would go to its web address"))
	}
	if f.spf == "pass_all" {
		c.Signal(pointsOpenSPF, "network:mail:open", sdk.Join(f.host, " lets anybody send mail in its name (SPF +all)"))
	} else if f.spf == "none" && f.dmarc == "none" {
		c.Signal(pointsForgeable, "network:mail:forgeable", sdk.Join(f.host,
			" says nothing about who may send mail in its name: no SPF, no DMARC"))
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
			" was taken off the net by its registrar or registry"))
	} else if ending {
		c.Signal(pointsEnding, "network:registration:ending",
			sdk.Join("the registration of ", f.domain, " has run out"))
	} else if by := served(suspenders[:], f.ns); by != "" {
		c.Signal(pointsHeld, "network:registration:held", sdk.Join(f.domain,
			" was suspended by its registrar: it is served by ", by))
	}
}

// scoreAge scores the age of the registration.
func (f *lookups) scoreAge(c *sdk.Check) {
	days, points := leading(f.age), pointsOldest
	for i := range ages {
		if days < ages[i].days {
			points = ages[i].points
			break
		}
	}
	if points == 0 {
		return
	}
	code := "network:registration:young"
	if points < 0 {
		code = "network:registration:old"
	}
	number, ago := ago(days)
	on := ""
	if f.created != "" {
		on = ", on "
	}
	c.Signal(points, code, sdk.Join(f.domain, " was registered ", number, ago, on, quote.Of(f.created)))
}

// ago formats a number of days in the past.
func ago(days int) (number, unit string) {
	switch {
	case days == 0:
		return "", "today"
	case days == 1:
		return "1", " day ago"
	case days < 2*365:
		return strconv.Itoa(days), " days ago"
	}
	return strconv.Itoa(days / 365), " years ago"
}

// scoreService scores who serves the domain, and from which addresses.
func (f *lookups) scoreService(c *sdk.Check) {
	if f.special != "" && f.networks == "0" {
		kind, _, _ := strings.Cut(f.special, " ")
		c.Signal(pointsSpecial, "network:address:special", sdk.Join(f.host, " has no public address but a ",
			strings.ReplaceAll(quote.Of(kind), "_", "-"), " one, as names have that are blocked or point home"))
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
		c.Signal(points, "network:service:parked", sdk.Join(f.domain, " is parked: it is served by ", parker))
	}
	f.scoreFlux(c)
	f.scoreProviders(c)
	acceptsMail := f.mx != "" && f.mx != "none" && f.mx != "null"
	if acceptsMail && (f.spf == "fail" || f.spf == "softfail") && (f.dmarc == "reject" || f.dmarc == "quarantine") {
		c.Signal(pointsProtected, "network:mail:orderly", sdk.Join(f.domain,
			" takes mail and protects its name (SPF, DMARC)"))
	}
}

// scoreFlux scores fast flux: a name that changes quickly among addresses of many networks.
func (f *lookups) scoreFlux(c *sdk.Check) {
	if f.ttl == "" || leading(f.ttl) > fluxTTL {
		return
	}
	n, among := countWords(f.asn), " operators' networks"
	if n < fluxSystems {
		n, among = leading(f.networks), " networks"
		if n < fluxNetworks {
			return
		}
	}
	c.Signal(pointsFlux, "network:address:flux", sdk.Join(f.host, " changes among addresses in ", strconv.Itoa(n),
		among, ", for ", strconv.Itoa(leading(f.ttl)), " seconds at a time"))
}

// scoreProviders scores a registrar, name servers or network that many reported domains use. These correlate, so only
// the one with the most points counts.
func (f *lookups) scoreProviders(c *sdk.Check) {
	highest, is, name := registrarPoints(f.registrar), " is registered through ", f.registrar
	for hosts := f.ns; hosts != ""; {
		var host string
		host, hosts = cutWord(hosts)
		host = owner(host)
		if n := points(nameServers[:], host); n > highest {
			highest, is, name = n, " is served by the name servers of ", host
		}
	}
	for numbers := f.asn; numbers != ""; {
		var number string
		number, numbers = cutWord(numbers)
		if n := points(systems[:], number); n > highest {
			highest, is, name = n, " is hosted in ", number
		}
	}
	if highest > 0 {
		c.Signal(highest, "network:service:company", sdk.Join(f.domain, is, quote.Of(name),
			", like many reported domains"))
	}
}

// scoreListings scores DNS blocklists that name the domain or its addresses.
func (f *lookups) scoreListings(c *sdk.Check) {
	if n := countWords(f.domainListings); n > 0 {
		points := pointsListed
		if n > 1 {
			points = pointsListedTwo
		}
		entry, _ := cutWord(f.domainListings)
		c.Signal(points, "network:blocklist:domain", onLists("", f.domain, n, entry))
		c.Threat(listedFor(entry))
	}
	if n := countWords(f.addressListings); n > 0 {
		entry, _ := cutWord(f.addressListings)
		c.Signal(pointsAddress, "network:blocklist:address", onLists("an address of ", f.host, n, entry))
	}
}

// onLists says that something is on n blocklists. The first one is that of entry, "zone=address".
func onLists(what, name string, n int, entry string) string {
	zone, _, _ := strings.Cut(entry, "=")
	if n == 1 {
		return sdk.Join(what, name, " is on the blocklist ", quote.Of(zone))
	}
	return sdk.Join(what, name, " is on ", strconv.Itoa(n), " blocklists, ", quote.Of(zone), " among them")
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
