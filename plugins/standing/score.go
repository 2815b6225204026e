package main

import (
	"strconv"

	"assay/plugins/internal/bank"
	"assay/plugins/internal/quote"
	"assay/plugins/internal/suffix"
	"assay/sdk"
)

// step gives points to numbers of at least from.
type step struct{ from, points int }

// The points are 25 for each unit of log-odds (a weight of 4), rounded towards 0. The log-odds compare reported domains
// with all registered ones. Evidence that can be bought or faked gets fewer (docs/decisions/detection.md).
var (
	// ages are days since the registration.
	ages = [...]step{{20 * 365, -50}, {10 * 365, -45}, {5 * 365, -38}, {2 * 365, -28}, {365, -12}}
	// unchanged are days without a change of the registration, of domains older than a year.
	unchanged = [...]step{{365, -10}, {90, -6}}
	// ranks are positions on a list of popular sites; anyone can buy a place near its end.
	ranks = [...]step{{100_001, -15}, {10_001, -35}, {1_001, -50}, {1, -60}}
	// tenures are customers who know the entity. The points are few, because an attacker can open accounts.
	tenures = [...]step{{100, -30}, {50, -24}, {20, -18}, {10, -12}, {5, -6}}
)

const (
	pointsGood       = -45 // the entity itself is on a good list
	pointsGoodAbove  = -25 // a domain above it, or its mail domain
	pointsMail       = -8  // minutes of work, but fraudsters seldom do it
	pointsBank       = -15 // anybody can look one up, but made-up accounts often have none
	recentlyChanged  = 60  // days: an old domain may have been bought, so its age counts half
	longEnough       = 30  // days that customers must have known the entity; below establishedDays it counts half
	establishedDays  = 90
	mostlyUnblocked  = 20 // percent; above it, customers who know the entity do not speak for it
	maxPlausibleDays = 60 * 365
)

// Score scores an entity by the facts that speak for it, from -100 to 0.
func Score(c *sdk.Check) sdk.Outcome {
	if customers, met := c.Count(sdk.GraphCustomers); met {
		scoreTenure(c, customers)
	}
	if c.Has(sdk.FeedGood) {
		scoreGood(c)
	}
	if c.Has(sdk.TextFact(sdk.FeedRank)) || c.Has(sdk.TextFact(sdk.RDAPAgeDays)) || c.Has(sdk.DNSDMARC) {
		scoreDomain(c)
	}
	if c.Has(sdk.IBANBank) {
		scoreBank(c)
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

// scoreTenure scores the customers who know the entity.
func scoreTenure(c *sdk.Check, customers int) {
	worth := points(tenures[:], customers)
	share, counted := c.Count(sdk.GraphBlockedShare)
	days, _ := c.Count(sdk.GraphFirstSeenDays)
	if worth == 0 || !counted || share >= mostlyUnblocked || days < longEnough {
		return
	}
	if days < establishedDays {
		worth /= 2
	}
	kind := &known
	if share > 0 {
		worth, kind = worth/2, &often
	}
	c.Signal(worth, kind.code, quote.Fill(kind.own, strconv.Itoa(customers), strconv.Itoa(min(days, maxPlausibleDays))))
}

// scoreGood scores lists of good entities.
func scoreGood(c *sdk.Check) {
	worth, kind := pointsGoodAbove, &goodAbove
	switch match := c.Get(sdk.FeedGoodMatch); {
	case match == "exact":
		worth, kind = pointsGood, &good
	case isTenant(c):
		return
	case match == "mail_domain":
		kind = &goodMailDomain
	}
	c.Signal(worth, kind.code, quote.Fill(kind.own, c.Get(sdk.FeedGood)))
}

// isOwn reports whether the name is the registrable domain or its www.
func isOwn(c *sdk.Check) bool {
	below := c.Get(sdk.DomainSubdomain)
	return below == "" || below == "www"
}

// isTenant reports whether a service gave the name to a customer, for whom its domain does not speak.
func isTenant(c *sdk.Check) bool { return !isOwn(c) && suffix.HasTenants(c.Get(sdk.DomainRegistrable)) }

// scoreDomain scores the registrable domain. It counts half for a name below it or a mailbox, which the owner may have
// given to somebody else. A domain says nothing about users of a mail provider or tenants of a service. A name under a
// private suffix has no registration of its own.
func scoreDomain(c *sdk.Check) {
	if c.Has(sdk.EmailProvider) || isTenant(c) {
		return
	}
	d := domain{Check: c, share: 1}
	if c.Get(sdk.EntityType) == "email" || !isOwn(c) {
		d.share = 2
	}
	d.scoreRank()
	if c.Get(sdk.DomainSuffixKind) == "icann" {
		d.scoreRegistration()
	}
	d.scoreMail()
}

// scoreBank scores the bank code of an IBAN that can exist. Anybody can look one up, so it is worth little.
func scoreBank(c *sdk.Check) {
	country, code := c.Get(sdk.IBANCountry), c.Get(sdk.IBANBank)
	if c.Get(sdk.IBANCheck) != "ok" || c.Get(sdk.IBANNational) == "wrong" {
		return
	}
	if found, _ := bank.Find(country, code); found {
		c.Signal(pointsBank, inUse.code, quote.Fill(inUse.own, code, country))
	}
}

// domain is the registrable domain of a checked entity.
type domain struct {
	*sdk.Check
	share int // its points are divided by this: 1 if the domain is the entity itself
}

// signal adds a signal about the domain.
func (d *domain) signal(worth int, kind *text, evidence ...string) {
	if d.share == 1 {
		d.Signal(worth, kind.code, quote.Fill(kind.own, evidence...))
		return
	}
	all := [4]string{d.Get(sdk.DomainRegistrable)}
	n := 1 + copy(all[1:], evidence)
	d.Signal(worth/d.share, kind.code, quote.Fill(kind.above, all[:n]...))
}

func (d *domain) scoreRank() {
	if rank, _ := d.Count(sdk.FeedRank); rank > 0 {
		d.signal(points(ranks[:], rank), &popular, d.Get(sdk.FeedRankList), thousands(rank))
	}
}

func (d *domain) scoreRegistration() {
	age, _ := d.Count(sdk.RDAPAgeDays)
	worth := points(ages[:], age)
	if worth == 0 {
		return
	}
	days, counted := d.Count(sdk.RDAPUnchangedDays)
	created := d.Get(sdk.RDAPCreated)
	switch {
	case len(created) < 4:
		d.signal(worth, &years, strconv.Itoa(min(age, maxPlausibleDays)/365))
	case counted && days < recentlyChanged:
		d.signal(worth/2, &changed, created[:4], strconv.Itoa(days))
		return
	default:
		d.signal(worth, &since, created[:4])
	}
	if worth := points(unchanged[:], days); worth != 0 {
		d.signal(worth, &same, strconv.Itoa(min(days, maxPlausibleDays)))
	}
}

// scoreMail scores a domain that accepts mail and asks receivers to refuse forged mail in its name.
func (d *domain) scoreMail() {
	if d.Get(sdk.DNSDMARC) != "reject" {
		return
	}
	mx, spf := d.Get(sdk.TextFact(sdk.DNSMX)), d.Get(sdk.DNSSPF)
	if mx == "" || mx == "none" || mx == "null" || spf != "fail" && spf != "softfail" {
		return
	}
	d.signal(pointsMail, &protected)
}

// thousands formats a number with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
