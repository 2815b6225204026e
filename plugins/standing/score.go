package main

import (
	"strconv"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// step gives points from a number on.
type step struct{ from, points int }

// The points are 25 for each unit of log-odds (a weight of 4), rounded towards 0: what the evidence is worth among
// reported domains against all registered ones, less where it can be bought or faked (docs/decisions/detection.md).
var (
	// ages are days since the registration.
	ages = [...]step{{20 * 365, -50}, {10 * 365, -45}, {5 * 365, -38}, {2 * 365, -28}, {365, -12}}
	// unchanged are days without a change of the registration, of domains older than a year.
	unchanged = [...]step{{365, -10}, {90, -6}}
	// ranks are positions on a list of popular sites; anyone can buy a place near its end.
	ranks = [...]step{{100_001, -15}, {10_001, -35}, {1_001, -50}, {1, -60}}
	// tenures are customers who have met the entity. Few points: an attacker can open accounts.
	tenures = [...]step{{100, -30}, {50, -24}, {20, -18}, {10, -12}, {5, -6}}
)

const (
	pointsGood       = -45 // the entity itself is on a good list
	pointsGoodAbove  = -25 // a domain above it, or its mail domain
	pointsMail       = -8  // minutes of work, but fraudsters seldom do it
	recentlyChanged  = 60  // days: an old domain may have been bought, so its age counts half
	longEnough       = 30  // days that customers must have known the entity; below establishedDays it counts half
	establishedDays  = 90
	mostlyUnblocked  = 20 // percent; above it, customers' acquaintance does not speak for the entity
	maxPlausibleDays = 60 * 365
)

// Score scores an entity by the facts that speak for it, from -100 to 0.
func Score(c *sdk.Check) sdk.Outcome {
	if customers, known := c.Count("graph.customers"); known {
		scoreTenure(c, customers)
	}
	if c.Has("feed.good") {
		scoreGood(c)
	}
	ranked, registered, protected := c.Has("feed.rank"), c.Has("rdap.age_days"), c.Has("dns.dmarc")
	if ranked || registered || protected {
		scoreDomain(c, ranked, registered, protected)
	}
	return sdk.Scored
}

// points returns the points of the first of steps that n reaches.
func points(steps []step, n int) int {
	for i := range steps {
		if n >= steps[i].from {
			return steps[i].points
		}
	}
	return 0
}

// scoreTenure scores the customers who have met the entity.
func scoreTenure(c *sdk.Check, customers int) {
	worth := points(tenures[:], customers)
	share, known := c.Count("graph.blocked_share")
	days, _ := c.Count("graph.first_seen_days")
	if worth == 0 || !known || share >= mostlyUnblocked || days < longEnough {
		return
	}
	if days < establishedDays {
		worth /= 2
	}
	blocked := ", never blocked"
	if share > 0 {
		worth, blocked = worth/2, ", rarely blocked"
	}
	c.Signal(worth, "standing:customers:known", sdk.Join("Known to at least ", strconv.Itoa(customers),
		" customers, for ", strconv.Itoa(min(days, maxPlausibleDays)), " days", blocked))
}

// scoreGood scores lists of good entities.
func scoreGood(c *sdk.Check) {
	worth, lead := pointsGoodAbove, "A domain above it is listed as good by "
	switch c.Get("feed.good_match") {
	case "exact":
		worth, lead = pointsGood, "Listed as good by "
	case "mail_domain":
		lead = "The mail domain is listed as good by "
	}
	c.Signal(worth, "standing:list:good", sdk.Join(lead, quote.Of(c.Get("feed.good"))))
}

// scoreDomain scores what is known of the registrable domain. It counts half for whoever the owner may have given a
// part of the domain: a name below it or a mailbox. A mail provider's domain says nothing about its users, and a name
// under a private suffix has no registration of its own.
func scoreDomain(c *sdk.Check, ranked, registered, protected bool) {
	if c.Has("email.provider") {
		return
	}
	d := domain{Check: c, share: 1}
	if c.Get("entity.type") == "email" {
		d.share = 2
	} else if below := c.Get("domain.subdomain"); below != "" && below != "www" {
		d.share = 2
	}
	if d.share > 1 {
		d.subject = quote.Of(c.Get("domain.registrable"))
	}
	if ranked {
		d.scoreRank()
	}
	if registered && c.Get("domain.suffix_kind") == "icann" {
		d.scoreRegistration()
	}
	if protected {
		d.scoreMail()
	}
}

// domain is the registrable domain of a checked entity.
type domain struct {
	*sdk.Check
	share   int    // its points are divided by this
	subject string // its name if it is not the entity itself
}

// sentence begins a sentence with own if it is about the entity, and with the domain's name otherwise.
func (d *domain) sentence(own, above string) string {
	if d.subject == "" {
		return own
	}
	return sdk.Join(d.subject, above)
}

func (d *domain) scoreRank() {
	rank, _ := d.Count("feed.rank")
	if rank == 0 {
		return
	}
	d.Signal(points(ranks[:], rank)/d.share, "standing:rank:popular", sdk.Join(d.sentence("On the ", " is on the "),
		quote.Of(d.Get("feed.rank_list")), " list of popular sites (rank ", thousands(rank), ")"))
}

func (d *domain) scoreRegistration() {
	age, _ := d.Count("rdap.age_days")
	worth := points(ages[:], age)
	if worth == 0 {
		return
	}
	since, unit := "since ", ""
	number := d.Get("rdap.created")
	if len(number) >= 4 {
		number = number[:4]
	} else {
		since, number, unit = "for ", strconv.Itoa(min(age, maxPlausibleDays)/365), " years"
	}
	days, known := d.Count("rdap.unchanged_days")
	if known && days < recentlyChanged {
		d.Signal(worth/2/d.share, "standing:registration:old", sdk.Join(d.sentence("Registered ", " has been registered "),
			since, quote.Of(number), unit, ", but changed ", strconv.Itoa(days), " days ago"))
		return
	}
	d.Signal(worth/d.share, "standing:registration:old", sdk.Join(d.sentence("Registered ", " has been registered "), since,
		quote.Of(number), unit))
	if worth := points(unchanged[:], days); worth != 0 {
		d.Signal(worth/d.share, "standing:registration:unchanged", sdk.Join(
			d.sentence("Name servers and registrar unchanged for ", ": name servers and registrar unchanged for "),
			strconv.Itoa(min(days, maxPlausibleDays)), " days"))
	}
}

// scoreMail scores a domain that takes mail and has forged mail in its name refused.
func (d *domain) scoreMail() {
	mx, spf := d.Get("dns.mx"), d.Get("dns.spf")
	if d.Get("dns.dmarc") != "reject" || mx == "" || mx == "none" || mx == "null" ||
		spf != "fail" && spf != "softfail" {
		return
	}
	d.Signal(pointsMail/d.share, "standing:mail:protected",
		d.sentence("Has forged mail refused (DMARC reject, SPF)", " has forged mail refused (DMARC reject, SPF)"))
}

// thousands formats a number with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
