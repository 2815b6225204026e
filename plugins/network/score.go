package main

import (
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// Fast flux: addresses in at least this many autonomous systems or networks. How long they stay is unknown: a resolver
// says how long its cache keeps them, which depends on when it is asked. Load balancers of clouds use several networks
// within one system.
const (
	fluxSystems  = 4
	fluxNetworks = 10
)

// signal adds a finding's signal.
func signal(c *sdk.Check, kind *finding, evidence ...string) {
	c.Signal(kind.points, kind.code, quote.Fill(kind.text, evidence...))
}

// Score scores a domain, or the domain of an email address, from the dns.*, rdap.* and net.* facts.
func Score(c *sdk.Check) sdk.Outcome {
	if !known(c) {
		return sdk.Abstained
	}
	return score(c)
}

// known reports whether any lookup returned something.
func known(c *sdk.Check) bool {
	return c.Has(sdk.DNSStatus) || c.Has(sdk.DNSZone) || c.Has(sdk.TextFact(sdk.DNSMX)) || c.Has(sdk.DNSSPF) ||
		c.Has(sdk.DNSDMARC) || c.Has(sdk.TextFact(sdk.RDAPAgeDays)) || c.Has(sdk.TextFact(sdk.RDAPStatus)) ||
		c.Has(sdk.TextFact(sdk.NetASN)) || c.Has(sdk.TextFact(sdk.NetListed)) ||
		c.Has(sdk.TextFact(sdk.NetDomainListed))
}

// score is separate from Score, because entering a large function costs fuel.
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
	email                                bool
	host, domain                         string
	status, zone, special, alias, ns     string
	networks                             string
	mx, spf, dmarc                       string
	age, registrar, states               string
	asn, addressListings, domainListings string
}

func read(c *sdk.Check) lookups {
	f := lookups{
		email:  c.Get(sdk.EntityType) == "email",
		host:   c.Get(sdk.DomainASCII),
		domain: c.Get(sdk.DomainRegistrable),
		status: c.Get(sdk.DNSStatus), zone: c.Get(sdk.DNSZone),
		special: c.Get(sdk.TextFact(sdk.DNSSpecial)), alias: c.Get(sdk.DNSAlias),
		ns: c.Get(sdk.TextFact(sdk.DNSNS)), networks: c.Get(sdk.TextFact(sdk.DNSNetworks)),
		mx: c.Get(sdk.TextFact(sdk.DNSMX)), spf: c.Get(sdk.DNSSPF), dmarc: c.Get(sdk.DNSDMARC),
		age:       c.Get(sdk.TextFact(sdk.RDAPAgeDays)),
		registrar: c.Get(sdk.RDAPRegistrar),
		states:    c.Get(sdk.TextFact(sdk.RDAPStatus)),
		asn:       c.Get(sdk.TextFact(sdk.NetASN)), addressListings: c.Get(sdk.TextFact(sdk.NetListed)),
		domainListings: c.Get(sdk.TextFact(sdk.NetDomainListed)),
	}
	if f.domain == "" {
		f.domain = f.host
	}
	return f
}

// scoreExistence scores a domain or host name that does not exist, and reports whether the domain is gone.
func (f *lookups) scoreExistence(c *sdk.Check) (gone bool) {
	switch {
	case f.zone == "nxdomain" && f.status != "ok" && f.email:
		signal(c, &noMailDomain, f.domain)
		return true
	case f.zone == "nxdomain" && f.status != "ok":
		signal(c, &noDomain, f.domain)
		return true
	case f.email: // a mail domain needs no address
	case f.status == "nxdomain":
		signal(c, &noHost, f.host, f.domain)
	case f.status == "dangling":
		signal(c, &dangling, f.alias)
	}
	return false
}

// scoreMail scores whether the mail domain accepts mail and, if it does, whether others can send mail in its name.
func (f *lookups) scoreMail(c *sdk.Check) {
	addressless := f.status == "nodata" || f.status == "nxdomain" || f.status == "dangling"
	switch {
	case f.mx == "null":
		signal(c, &refusesMail, f.host)
		return
	case f.mx == "none" && addressless:
		signal(c, &noMailServer, f.host)
		return
	case f.spf == "nobody":
		signal(c, &sendsNoMail, f.host)
	case f.mx == "none" && f.status == "ok":
		signal(c, &implicitMail, f.host)
	}
	if f.spf == "pass_all" {
		signal(c, &openMail, f.host)
	} else if f.spf == "none" && f.dmarc == "none" {
		signal(c, &forgeable, f.host)
	}
}

// scoreRegistration scores the age of the registration and whether it is in force.
func (f *lookups) scoreRegistration(c *sdk.Check) {
	if f.age != "" {
		f.scoreAge(c)
	}
	onHold, ending := false, false
	for words := f.states; words != ""; {
		var word string
		switch word, words = cutWord(words); word {
		case "client_hold", "server_hold":
			onHold = true
		case "redemption_period", "pending_delete":
			ending = true
		}
	}
	if onHold {
		signal(c, &held, f.domain)
	} else if ending {
		signal(c, &expired, f.domain)
	} else if by := served(suspenders[:], f.ns); by != "" {
		signal(c, &suspended, f.domain, by)
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
	kind := &young
	if days == 0 {
		kind = &youngToday
	} else if days == 1 {
		kind = &youngYesterday
	}
	c.Signal(points, kind.code, quote.Fill(kind.text, f.domain, strconv.Itoa(days)))
}

// scoreService scores who serves the domain, and from which addresses.
func (f *lookups) scoreService(c *sdk.Check) {
	if f.special != "" && f.networks == "0" {
		kind, _, _ := strings.Cut(f.special, " ")
		signal(c, &specialAddress, f.host, strings.ReplaceAll(kind, "_", "-"))
	}
	parker := served(parkers[:], f.ns)
	if parker == "" {
		parker = served(parkers[:], f.alias)
	}
	if parker != "" && f.email {
		signal(c, &parkedMail, f.domain, parker)
	} else if parker != "" {
		signal(c, &parked, f.domain, parker)
	}
	f.scoreFlux(c)
	f.scoreProviders(c)
}

// scoreFlux scores fast flux: a name with addresses in many networks.
func (f *lookups) scoreFlux(c *sdk.Check) {
	n, kind := countWords(f.asn), &fluxOperators
	if n < fluxSystems {
		n, kind = leading(f.networks), &fluxAddresses
		if n < fluxNetworks {
			return
		}
	}
	signal(c, kind, f.host, strconv.Itoa(n))
}

// scoreProviders scores a registrar, name servers or network that many reported domains use. These correlate, so only
// the one with the most points counts.
func (f *lookups) scoreProviders(c *sdk.Check) {
	highest, kind, name := registrarPoints(f.registrar), &registrar, f.registrar
	for hosts := f.ns; hosts != ""; {
		var host string
		host, hosts = cutWord(hosts)
		host = owner(host)
		if n := points(nameServers[:], host); n > highest {
			highest, kind, name = n, &nameServer, host
		}
	}
	for numbers := f.asn; numbers != ""; {
		var number string
		number, numbers = cutWord(numbers)
		if n := points(systems[:], number); n > highest {
			highest, kind, name = n, &hosting, number
		}
	}
	if highest > 0 {
		c.Signal(highest, kind.code, quote.Fill(kind.text, name))
	}
}

// scoreListings scores DNS blocklists that name the domain or its addresses.
func (f *lookups) scoreListings(c *sdk.Check) {
	if f.domainListings != "" {
		entry, _ := cutWord(f.domainListings)
		report(c, &listed, &listedMore, f.domain, f.domainListings)
		c.Threat(listedFor(entry))
	}
	if f.addressListings != "" {
		report(c, &listedAddress, &listedTwice, f.host, f.addressListings)
	}
}

// report says that name is on one or several blocklists, each "zone=address".
func report(c *sdk.Check, one, several *finding, name, listings string) {
	zone, _, _ := strings.Cut(listings, "=")
	if n := countWords(listings); n > 1 {
		signal(c, several, name, strconv.Itoa(n), zone)
	} else {
		signal(c, one, name, zone)
	}
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
