package main

import (
	"slices"
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
var ages = []struct{ days, points int }{{8, 45}, {31, 40}, {91, 25}, {181, 12}, {366, 6}, {5 * 365, 0}, {10 * 365, -5}}

// pointsOldest are the points of a registration older than all of ages.
const pointsOldest = -10

// Score scores a domain, or the domain of an email address, from the dns.*, rdap.* and net.* facts.
func Score(c *sdk.Check) sdk.Outcome {
	f := read(c)
	if !f.known() {
		return sdk.Abstained
	}
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

// known reports whether any lookup returned something.
func (f *lookups) known() bool {
	return f.status+f.zone+f.mx+f.spf+f.dmarc+f.found+f.asn+f.addressListings+f.domainListings != ""
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
			c.Signal(pointsNoMailDomain, "network:mail:no_domain",
				"no such domain: "+f.domain+" does not exist"+registry+", so no mail can reach the address")
			c.Threat(sdk.FakeIdentity)
		} else {
			c.Signal(pointsNoDomain, "network:dns:no_domain", "no such domain: "+f.domain+" does not exist"+registry)
		}
		return true
	case f.email: // a mail domain needs no address
	case f.status == "nxdomain":
		c.Signal(pointsNoHost, "network:dns:no_host", "no such name: "+f.host+" does not exist")
	case f.status == "dangling":
		c.Signal(pointsDangling, "network:dns:dangling",
			f.host+" is an alias of "+quote.Of(f.alias)+
				", which does not exist: whoever registers that takes it over")
	}
	return false
}

// scoreMail scores whether the mail domain accepts mail, and whether others can send mail in its name.
func (f *lookups) scoreMail(c *sdk.Check) {
	addressless := f.status == "nodata" || f.status == "nxdomain" || f.status == "dangling"
	switch {
	case f.mx == "null":
		c.Signal(pointsNoMail, "network:mail:refused", f.host+" says that it takes no mail (null MX)")
		c.Threat(sdk.FakeIdentity)
	case f.mx == "none" && addressless:
		c.Signal(pointsNoMail, "network:mail:no_server", f.host+" has no mail server: no MX record and no address")
		c.Threat(sdk.FakeIdentity)
	case f.spf == "nobody":
		c.Signal(pointsSendsNoMail, "network:mail:sends_none", f.host+
			" says that nobody sends mail in its name (SPF -all)")
	case f.mx == "none" && f.status == "ok":
		c.Signal(pointsImplicitMail, "network:mail:implicit",
			f.host+" names no mail server; mail would go to its web address")
	}
	if f.spf == "pass_all" {
		c.Signal(pointsOpenSPF, "network:mail:open", f.host+" lets anybody send mail in its name (SPF +all)")
	} else if f.spf == "none" && f.dmarc == "none" {
		c.Signal(pointsForgeable, "network:mail:forgeable", f.host+
			" says nothing about who may send mail in its name: no SPF, no DMARC")
	}
}

// scoreRegistration scores the age of the registration and whether it is in force.
func (f *lookups) scoreRegistration(c *sdk.Check) {
	if f.age != "" {
		days := leading(f.age)
		points := pointsOldest
		for _, a := range ages {
			if days < a.days {
				points = a.points
				break
			}
		}
		if points > 0 {
			c.Signal(points, "network:registration:young", f.domain+" was registered "+ago(days)+f.registeredOn())
		} else if points < 0 {
			c.Signal(points, "network:registration:old", f.domain+" was registered "+ago(days)+f.registeredOn())
		}
	}
	switch {
	case has(f.states, "client_hold"), has(f.states, "server_hold"):
		c.Signal(pointsHeld, "network:registration:held", f.domain+
			" was taken off the net by its registrar or registry")
	case has(f.states, "redemption_period"), has(f.states, "pending_delete"):
		c.Signal(pointsEnding, "network:registration:ending", "the registration of "+f.domain+" has run out")
	case served(suspenders, f.ns) != "":
		c.Signal(pointsHeld, "network:registration:held", f.domain+" was suspended by its registrar: it is served by "+
			served(suspenders, f.ns))
	}
}

// registeredOn returns ", on" and the date of the registration, or "" if it is unknown.
func (f *lookups) registeredOn() string {
	if f.created == "" {
		return ""
	}
	return ", on " + quote.Of(f.created)
}

// ago formats a number of days in the past.
func ago(days int) string {
	switch {
	case days == 0:
		return "today"
	case days == 1:
		return "1 day ago"
	case days < 2*365:
		return strconv.Itoa(days) + " days ago"
	}
	return strconv.Itoa(days/365) + " years ago"
}

// scoreService scores who serves the domain, and from which addresses.
func (f *lookups) scoreService(c *sdk.Check) {
	if f.special != "" && f.networks == "0" {
		kind, _, _ := strings.Cut(f.special, " ")
		c.Signal(pointsSpecial, "network:address:special", f.host+" has no public address but a "+
			strings.ReplaceAll(quote.Of(kind), "_", "-")+" one, as names have that are blocked or point home")
	}
	if parker := served(parkers, f.ns+" "+f.alias); parker != "" {
		points := pointsParked
		if f.email {
			points = pointsParkedMail
		}
		c.Signal(points, "network:service:parked", f.domain+" is parked: it is served by "+parker)
	}
	f.scoreFlux(c)
	f.scoreProviders(c)
	acceptsMail := f.mx != "" && f.mx != "none" && f.mx != "null"
	if acceptsMail && (f.spf == "fail" || f.spf == "softfail") && (f.dmarc == "reject" || f.dmarc == "quarantine") {
		c.Signal(pointsProtected, "network:mail:orderly", f.domain+" takes mail and protects its name (SPF, DMARC)")
	}
}

// scoreFlux scores fast flux: a name that changes quickly among addresses of many networks.
func (f *lookups) scoreFlux(c *sdk.Check) {
	if f.ttl == "" || leading(f.ttl) > fluxTTL {
		return
	}
	among := ""
	if n := len(strings.Fields(f.asn)); n >= fluxSystems {
		among = strconv.Itoa(n) + " operators' networks"
	} else if n := leading(f.networks); n >= fluxNetworks {
		among = strconv.Itoa(n) + " networks"
	}
	if among != "" {
		c.Signal(pointsFlux, "network:address:flux", f.host+" changes among addresses in "+among+", for "+
			strconv.Itoa(leading(f.ttl))+" seconds at a time")
	}
}

// scoreProviders scores a registrar, name servers or network that many reported domains use. These correlate, so only
// the one with the most points counts.
func (f *lookups) scoreProviders(c *sdk.Check) {
	highest, text := 0, ""
	consider := func(points int, evidence string) {
		if points > highest {
			highest, text = points, evidence
		}
	}
	consider(registrarPoints(f.registrar), "registered through "+quote.Of(f.registrar))
	for _, host := range strings.Fields(f.ns) {
		consider(points(nameServers, owner(host)), "served by the name servers of "+quote.Of(owner(host)))
	}
	for _, number := range strings.Fields(f.asn) {
		consider(points(systems, number), "hosted in "+quote.Of(number))
	}
	if highest > 0 {
		c.Signal(highest, "network:service:company", f.domain+" is "+text+", like many reported domains")
	}
}

// scoreListings scores DNS blocklists that name the domain or its addresses.
func (f *lookups) scoreListings(c *sdk.Check) {
	if lists := strings.Fields(f.domainListings); len(lists) > 0 {
		points := pointsListed
		if len(lists) > 1 {
			points = pointsListedTwo
		}
		zone, _, _ := strings.Cut(lists[0], "=")
		c.Signal(points, "network:blocklist:domain", f.domain+" is on "+counted(len(lists), zone))
		c.Threat(listedFor(lists[0]))
	}
	if lists := strings.Fields(f.addressListings); len(lists) > 0 {
		zone, _, _ := strings.Cut(lists[0], "=")
		c.Signal(pointsAddress, "network:blocklist:address", "an address of "+f.host+" is on "+
			counted(len(lists), zone))
	}
}

// counted names the blocklist of zone and the number of blocklists.
func counted(n int, zone string) string {
	if n == 1 {
		return "the blocklist " + quote.Of(zone)
	}
	return strconv.Itoa(n) + " blocklists, " + quote.Of(zone) + " among them"
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

// has reports whether words, separated by spaces, contain word.
func has(words, word string) bool { return slices.Contains(strings.Fields(words), word) }
