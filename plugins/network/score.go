package main

import (
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. At the layer's default weight of 4.5, and a bias of -4, all of them together ask for a
// review at most: what a network says of a domain is circumstance. Among the reported domains whose registration date
// is known, 8 in 100 were reported within a week of it, 46 within a month and 60 within three.
const (
	pointsNoMailDomain = 90 // nobody can have written from there, nor read there
	pointsNoMail       = 80
	pointsNobodySends  = 45
	pointsImplicitMail = 10
	pointsForgeable    = 8
	pointsAnybodySends = 15
	pointsParkedMail   = 30

	pointsNoDomain  = 30 // most often a slip; but the taken down look the same
	pointsNoHost    = 15
	pointsDangling  = 25
	pointsSpecial   = 30
	pointsHeld      = 40
	pointsEnding    = 15
	pointsParked    = 12
	pointsFlux      = 25
	pointsListed    = 70
	pointsListedTwo = 85
	pointsAddress   = 25 // of an address: many sites share one
	pointsOrderly   = -5

	// Fast flux: addresses in so many systems, or so many networks, kept for so few seconds.
	// Load balancers of clouds have up to eight networks within one system.
	fluxSystems  = 4
	fluxNetworks = 10
	fluxTTL      = 600
)

// ages gives the points of a registration younger than so many days.
var ages = []struct{ days, points int }{{8, 45}, {31, 40}, {91, 25}, {181, 12}, {366, 6}, {5 * 365, 0}, {10 * 365, -5}}

const pointsOldest = -10

// Score judges a domain, or an email address by its domain.
func Score(c *sdk.Check) sdk.Outcome {
	f := read(c)
	if !f.known() {
		return sdk.Abstained
	}
	gone := f.existence(c)
	if f.email && !gone {
		f.mail(c)
	}
	f.registration(c)
	f.service(c)
	f.listings(c)
	return sdk.Scored
}

// observed is what was looked up; empty is unknown, or nothing.
type observed struct {
	email                                  bool
	host, domain                           string // what to call them
	status, zone, special, alias, ns       string
	networks, ttl                          string
	mx, spf, dmarc                         string
	found, age, created, registrar, states string
	asn, addressListings, domainListings   string
}

func read(c *sdk.Check) observed {
	f := observed{
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

// known says whether anything was learned at all.
func (f *observed) known() bool {
	return f.status+f.zone+f.mx+f.spf+f.dmarc+f.found+f.asn+f.addressListings+f.domainListings != ""
}

// existence says whether the domain and the name are there.
func (f *observed) existence(c *sdk.Check) (gone bool) {
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

// mail says whether the mail domain can take mail, and whether others may send in its name.
func (f *observed) mail(c *sdk.Check) {
	addressless := f.status == "nodata" || f.status == "nxdomain" || f.status == "dangling"
	switch {
	case f.mx == "null":
		c.Signal(pointsNoMail, "network:mail:refused", f.host+" says that it takes no mail (null MX)")
		c.Threat(sdk.FakeIdentity)
	case f.mx == "none" && addressless:
		c.Signal(pointsNoMail, "network:mail:no_server", f.host+" has no mail server: no MX record and no address")
		c.Threat(sdk.FakeIdentity)
	case f.spf == "nobody":
		c.Signal(pointsNobodySends, "network:mail:sends_none", f.host+
			" says that nobody sends mail in its name (SPF -all)")
	case f.mx == "none" && f.status == "ok":
		c.Signal(pointsImplicitMail, "network:mail:implicit",
			f.host+" names no mail server; mail would go to its web address")
	}
	if f.spf == "pass_all" {
		c.Signal(pointsAnybodySends, "network:mail:open", f.host+" lets anybody send mail in its name (SPF +all)")
	} else if f.spf == "none" && f.dmarc == "none" {
		c.Signal(pointsForgeable, "network:mail:forgeable", f.host+
			" says nothing about who may send mail in its name: no SPF, no DMARC")
	}
}

// registration says how old the registration is, and whether it is in force.
func (f *observed) registration(c *sdk.Check) {
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
			c.Signal(points, "network:registration:young", f.domain+" was registered "+ago(days)+f.on())
		} else if points < 0 {
			c.Signal(points, "network:registration:old", f.domain+" was registered "+ago(days)+f.on())
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

// on words the date of the registration.
func (f *observed) on() string {
	if f.created == "" {
		return ""
	}
	return ", on " + quote.Of(f.created)
}

// ago words a number of days.
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

// service says who serves the domain, and from where.
func (f *observed) service(c *sdk.Check) {
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
	f.flux(c)
	f.company(c)
	takes := f.mx != "" && f.mx != "none" && f.mx != "null"
	if takes && (f.spf == "fail" || f.spf == "softfail") && (f.dmarc == "reject" || f.dmarc == "quarantine") {
		c.Signal(pointsOrderly, "network:mail:orderly", f.domain+" takes mail and protects its name (SPF, DMARC)")
	}
}

func (f *observed) flux(c *sdk.Check) {
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

// company says whether registrar, name servers or network are those of many reported domains. They go together, so only
// the worst counts.
func (f *observed) company(c *sdk.Check) {
	most, text := 0, ""
	worse := func(n int, evidence string) {
		if n > most {
			most, text = n, evidence
		}
	}
	worse(registrarPoints(f.registrar), "registered through "+quote.Of(f.registrar))
	for _, host := range strings.Fields(f.ns) {
		worse(points(nameServers, owner(host)), "served by the name servers of "+quote.Of(owner(host)))
	}
	for _, number := range strings.Fields(f.asn) {
		worse(points(systems, number), "hosted in "+quote.Of(number))
	}
	if most > 0 {
		c.Signal(most, "network:service:company", f.domain+" is "+text+", like many reported domains")
	}
}

// listings says which DNS blocklists name the domain or its addresses.
func (f *observed) listings(c *sdk.Check) {
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

func counted(n int, zone string) string {
	if n == 1 {
		return "the blocklist " + quote.Of(zone)
	}
	return strconv.Itoa(n) + " blocklists, " + quote.Of(zone) + " among them"
}

// listedFor reads the answer of the one list whose codes tell phishing and malware apart.
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

// has says whether words, joined by blanks, hold word.
func has(words, word string) bool {
	for _, w := range strings.Fields(words) {
		if w == word {
			return true
		}
	}
	return false
}
