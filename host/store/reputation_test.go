package store

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/facts/feed"
	"assay/host/facts/reputation"
	is "assay/registry/expect"
)

// graphTest is a store with customers whose checks fill the reputation graph.
type graphTest struct {
	t         *testing.T
	s         *Store
	l         *Ledger
	clock     *is.Clock
	customers []check.Caller
}

// No aggregate says when fewer than three customers have seen an entity: it is since the third.
func TestSinceTheThirdCustomer(t *testing.T) {
	t.Parallel()
	var rows []observed
	for hours := range 4 { // the newest first
		rows = append(rows, observed{Checks: 1, LastSeen: noon, FirstSeen: noon.Add(-time.Duration(hours) * time.Hour)})
	}
	r := graphReader{now: noon}
	expect(t, "since", r.ofEntity(reputation.Aggregate{}, rows).Since, noon.Add(-time.Hour))
}

func newGraphTest(t *testing.T, customers int) *graphTest {
	t.Helper()
	clock := is.NewClock(noon)
	s := newStore(t, clock.Now)
	return &graphTest{t: t, s: s, l: ledgerOn(t, s, LedgerConfig{}), clock: clock,
		customers: listOf(customers, func(int) check.Caller { return newCaller(t, s, plan(t, "pro", 1_000_000)) })}
}

// check records a check by a customer, with linked entities in the same request.
func (g *graphTest) check(customer int, e entity.Entity, verdict check.Verdict, linked ...entity.Entity) {
	g.t.Helper()
	r := at(decided(g.customers[customer], e, verdict), g.clock.Now())
	r.Linked = linked
	noError(g.t, g.l.Append(g.t.Context(), r))
}

func (g *graphTest) domain(name string) entity.Entity { return parse(g.t, entity.Domain, name) }

// aggregate returns the aggregate of an entity.
func (g *graphTest) aggregate(e entity.Entity) reputation.Aggregate {
	g.t.Helper()
	noError(g.t, g.s.CatchUp(g.t.Context()))
	return must(g.s.GraphAggregates(g.t.Context(), []reputation.Subject{subjectOf(e)}))(g.t)[0]
}

func subjectOf(e entity.Entity) reputation.Subject {
	return reputation.Subject{Entity: reputation.Node{Kind: string(e.Type), Value: e.Value},
		Parents: column(e.Parents(), func(p entity.Parent) reputation.Node { return reputation.Node(p) })}
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.011 }

// One or two customers stay invisible. From three on, each has one vote.
func TestAggregateNeedsThreeCustomers(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 4)
	e := g.domain("shop.example.org")
	noError(t, g.l.Append(t.Context(), decidedMany(g.customers[0], e, check.Block, 50)...))
	g.check(1, e, check.Allow)
	expect(t, "two customers", g.aggregate(e), reputation.Aggregate{})
	noError(t, g.l.Append(t.Context(), decided(g.s.PublicCaller(), e, check.Block)))
	expect(t, "two customers and a caller without a key", g.aggregate(e), reputation.Aggregate{})
	g.clock.Add(time.Hour)
	g.check(2, e, check.Allow)
	got := g.aggregate(e)
	holds(t, got.Customers == 3 && near(got.BlockedShare, 1.0/3) && near(got.Seen, 12) && got.Since.Equal(noon.Add(
		time.Hour)), "%+v, want 3 customers, share 1/3, 12 checks, since the third customer's check", got)
	expect(t, "customers of a neighbour", g.aggregate(g.domain("other.example.org")).Customers, 0)

	// A vote halves every 30 days and expires after 90.
	e = g.domain("example.net")
	g.check(0, e, check.Block)
	g.clock.Add(30 * 24 * time.Hour)
	for i := 1; i < 4; i++ {
		g.check(i, e, check.Allow)
	}
	got = g.aggregate(e)
	holds(t, got.Customers == 4 && near(got.BlockedShare, 0.5/3.5) && near(got.Seen, 3.5), "after 30 days: %+v", got)
	g.clock.Add(61 * 24 * time.Hour)
	got = g.aggregate(e)
	holds(t, got.Customers == 3 && got.BlockedShare == 0, "after 91 days: %+v", got)
	g.clock.Add(60 * 24 * time.Hour)
	expect(t, "after 151 days", g.aggregate(e), reputation.Aggregate{})
}

// Entities of the same request are one hop apart; entities with a common parent are two hops apart.
func TestNeighbourRisk(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 4)
	phone := parse(t, entity.Phone, "+4915123456789")
	victim := g.domain("new.evil-host.example")
	for customer := range 3 {
		for i := range 4 {
			g.check(customer, g.domain(fmt.Sprintf("s%d.evil-host.example", i)), check.Block)
		}
		g.check(customer, g.domain("s4.evil-host.example"), check.Allow, phone)
	}
	// The new domain shares its registrable domain with five others, four of which were blocked.
	got := g.aggregate(victim)
	holds(t, got.Customers == 0 && got.Neighbours == 5 && near(got.NeighbourRisk, 0.8),
		"two hops: %+v, want 5 neighbours at 0.8", got)
	// The phone is linked only with the allowed domain.
	got = g.aggregate(phone)
	holds(t, got.Neighbours == 1 && got.NeighbourRisk == 0, "one hop: %+v, want 1 neighbour at risk 0", got)
	// An entity's own blocks do not add to the risk of its neighbourhood.
	for customer := range 3 {
		g.check(customer, victim, check.Block)
	}
	got = g.aggregate(victim)
	holds(t, got.Neighbours == 5 && near(got.NeighbourRisk, 0.8), "after its own blocks: %+v, want 5 at 0.8", got)
	expect(t, "an unrelated domain", g.aggregate(g.domain("elsewhere.example")), reputation.Aggregate{})

	// A neighbour on a bad list is a risk while the list is in force, whatever its verdicts.
	listed := g.domain("a.blumenwiese.example")
	for customer := range 3 {
		g.check(customer, listed, check.Allow)
	}
	e := g.domain("b.blumenwiese.example")
	risk := func() float64 { return g.aggregate(e).NeighbourRisk }
	expect(t, "risk before any list", risk(), 0)
	importList(t, g.s, feed.List{Name: "Bad", Kind: feed.Bad}, entryOf(listed))
	expect(t, "risk with a listed neighbour", risk(), 1)
	importList(t, g.s, feed.List{Name: "Good", Kind: feed.Good}, entryOf(listed))
	expect(t, "risk with the neighbour on a good list too", risk(), 0)
	noError(t, g.s.WithdrawFeed(t.Context(), "Good"))
	until := g.clock.Now().Add(time.Hour)
	importList(t, g.s, feed.List{Name: "Bad", Kind: feed.Bad, ExpiresAt: &until}, entryOf(listed))
	expect(t, "risk before the list expires", risk(), 1)
	g.clock.Add(2 * time.Hour)
	expect(t, "risk after the list expired", risk(), 0)
	importList(t, g.s, feed.List{Name: "Bad", Kind: feed.Bad}, entryOf(listed))
	noError(t, g.s.WithdrawFeed(t.Context(), "Bad"))
	expect(t, "risk after the list was withdrawn", risk(), 0)
}

// Customers of a large provider are not neighbours.
func TestHubsAreIgnored(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 3)
	for i := range maxLinks/3 + 1 {
		for customer := range 3 {
			g.check(customer, g.domain(fmt.Sprintf("s%d.large.example", i)), check.Block)
		}
		if i == 9 {
			expect(t, "neighbours", g.aggregate(g.domain("new.large.example")).Neighbours, 10)
		}
	}
	expect(t, "neighbours through a hub", g.aggregate(g.domain("new.large.example")), reputation.Aggregate{})
}

// One customer's links neither make a node a hub nor crowd out what others linked.
func TestNoCustomerHidesOthersLinks(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 4)
	phone := parse(t, entity.Phone, "+4915123456789")
	jane, john := parse(t, entity.Email, "jane@one.example"), parse(t, entity.Email, "john@two.example")
	for customer := range 3 {
		g.check(customer, g.domain("s.evil-host.example"), check.Block)
		g.check(customer, jane, check.Allow, phone)
		g.check(customer, john, check.Block, phone)
	}
	for i := range maxLinks + 1 {
		g.check(3, g.domain(fmt.Sprintf("x%d.evil-host.example", i)), check.Allow)
		g.check(3, jane, check.Allow, g.domain(fmt.Sprintf("x%d.example", i)))
	}
	for _, e := range []struct {
		entity entity.Entity
		risk   float64 // each customer has one vote
	}{{g.domain("new.evil-host.example"), 3. / 4}, {jane, 3. / 3 / 4}} {
		got := g.aggregate(e.entity)
		holds(t, near(got.NeighbourRisk, e.risk), "%s: %+v, want the risk %v", e.entity.Value, got, e.risk)
	}
}

// A thousand checks by one customer move a share no further than one check.
func TestOneVotePerCustomer(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 6)
	e := g.domain("example.org")
	for customer := range 5 {
		g.check(customer, e, check.Allow)
	}
	g.check(5, e, check.Block)
	once := g.aggregate(e)
	noError(t, g.l.Append(t.Context(), decidedMany(g.customers[5], e, check.Block, 999)...))
	often := g.aggregate(e)
	holds(t, near(once.BlockedShare, often.BlockedShare) && often.Customers == 6 &&
		near(often.Seen, once.Seen+maxChecks-1), "after a thousand checks: %+v, after one: %+v", often, once)

	// A block caused by a list is not counted in the graph, so that it ends with the list.
	e = g.domain("listed.example.net")
	for customer := range 3 {
		r := at(decided(g.customers[customer], e, check.Block), g.clock.Now())
		r.Decision.Layers = []check.Outcome{
			{Layer: "feeds", Weight: 7, Score: 90, Contribution: 6.3, ReadsReputation: true},
		}
		noError(t, g.l.Append(t.Context(), r))
	}
	got := g.aggregate(e)
	holds(t, got.Customers == 3 && got.BlockedShare == 0, "%+v, want 3 customers and share 0", got)

	// Subjects that are queried together get their own aggregates.
	var subjects []reputation.Subject
	for i := range 300 {
		e := g.domain(fmt.Sprintf("n%d.example%d.org", i, i))
		subjects = append(subjects, subjectOf(e))
		if i%100 == 50 {
			for customer := range 3 + i/100 {
				g.check(customer, e, check.Block)
			}
		}
	}
	noError(t, g.s.CatchUp(t.Context()))
	for i, r := range must(g.s.GraphAggregates(t.Context(), subjects))(t) {
		want := 0
		if i%100 == 50 {
			want = 3 + i/100
		}
		expect(t, fmt.Sprint("customers of subject ", i), r.Customers, want)
	}
}

// The graph's verdict leaves out layers that read reputation, overrides, and accusations that nobody was told.
func TestFirstHandVerdict(t *testing.T) {
	t.Parallel()
	layers := func(contributions map[string]float64) []check.Outcome {
		var all []check.Outcome
		for name, c := range contributions {
			all = append(all, check.Outcome{Layer: name, Contribution: c, ReadsReputation: name != "domain"})
		}
		return all
	}
	type layersOf = map[string]float64
	by := func(verdict, found check.Verdict, score int) *check.Override {
		return &check.Override{Verdict: verdict, Score: score, Found: found}
	}
	for name, tt := range map[string]struct {
		score    int
		verdict  check.Verdict
		layers   layersOf
		want     check.Verdict
		override *check.Override
	}{
		"no second-hand layer":       {91, check.Block, layersOf{"domain": 6}, check.Block, nil},
		"other bands":                {50, check.Block, layersOf{"domain": 6}, check.Block, nil},
		"a list alone":               {78, check.Block, layersOf{"feeds": 5.25}, check.Allow, nil},
		"the graph was decisive":     {74, check.Block, layersOf{"domain": 4.5, "graph": 0.6}, check.Review, nil},
		"the graph added to a block": {97, check.Block, layersOf{"domain": 6, "graph": 1}, check.Block, nil},
		"similarity and a list": {99, check.Block, layersOf{"domain": 2, "feeds": 4, "similarity": 3}, check.Allow,
			nil},
		"cleared by reputation": {20, check.Allow, layersOf{"domain": 6, "standing": -4}, check.Allow, nil},
		"cleared and listed":    {75, check.Block, layersOf{"domain": 5, "standing": -3, "feeds": 4}, check.Allow, nil},
		"a clamped score":       {100, check.Block, layersOf{"domain": 14, "graph": 2.5}, check.Block, nil},
		"a low score":           {2, check.Allow, layersOf{"graph": 0.1}, check.Allow, nil},

		"a block without findings":    {70, check.Block, nil, check.Allow, by(check.Block, check.Allow, 3)},
		"a block of what is reviewed": {70, check.Block, nil, check.Review, by(check.Block, check.Review, 50)},
		"a block of what is blocked":  {70, check.Block, nil, check.Block, by(check.Block, check.Block, 91)},
		"a block of what a list blocks": {70, check.Block, layersOf{"feeds": 5.25}, check.Allow,
			by(check.Block, check.Block, 78)},
		"an allow of what is blocked": {70, check.Allow, nil, check.Allow, by(check.Allow, check.Block, 91)},
	} {
		d := &check.Decision{Fused: check.Fused{Score: tt.score, Verdict: tt.verdict}, Layers: layers(tt.layers),
			Override: tt.override}
		expect(t, name, firstHandVerdict(d), tt.want)
	}
}

// Lookups link domains that have nothing else in common.
func TestObservedParents(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 3)
	observed := entity.Facts{"dns.ns": "ns1.bulletproof.example ns2.bulletproof.example", "dns.a": "198.51.100.7",
		"dns.aaaa": "2001:db8::1"}
	record := func(customer int, name string, verdict check.Verdict, observed entity.Facts) {
		r := at(decided(g.customers[customer], g.domain(name), verdict), g.clock.Now())
		r.LookedUp = observed
		noError(t, g.l.Append(t.Context(), r))
	}
	for customer := range 3 {
		record(customer, "one.example", check.Block, observed)
		record(customer, "two.example", check.Allow, entity.Facts{"dns.a": "198.51.100.200"})
	}
	got := g.aggregate(g.domain("two.example"))
	holds(t, got.Neighbours == 1 && got.NeighbourRisk == 1, "on the same network: %+v, want 1 neighbour at risk 1", got)
	got = g.aggregate(g.domain("one.example"))
	holds(t, got.Neighbours == 1 && got.NeighbourRisk == 0, "its neighbour: %+v, want 1 neighbour at risk 0", got)
	want := []entity.Parent{{Kind: "nameserver", Value: "bulletproof.example"},
		{Kind: "network", Value: "198.51.100.0/24"}, {Kind: "network", Value: "2001:db8::/48"}}
	noDiff(t, "parents", want, observedParents(observed))
	many := observedParents(entity.Facts{"dns.ns": "a.one.example a.two.example a.three.example",
		"dns.a": "bad 192.0.2.1 198.51.100.1 203.0.113.1"})
	expect(t, "parents", len(many), 2*maxObserved)
}

// Pruning deletes sightings that no longer count and keeps those that were renewed.
func TestPruneSightings(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 1)
	for _, name := range []string{"old.example.org", "again.example.org"} {
		g.check(0, g.domain(name), check.Allow)
	}
	g.clock.Add(sightingMaxAge - time.Hour)
	g.check(0, g.domain("again.example.org"), check.Allow)
	prune := func(nodes, links int) {
		t.Helper()
		noError(t, errors.Join(g.s.CatchUp(t.Context()), g.s.PruneSightings(t.Context())))
		n, l := rowsOf(t, g.s, "graph_sightings"),
			rowsOf(t, g.s, "graph_edges")
		holds(t, n == nodes && l == 2*links, "%d nodes and %d links remain, want %d and %d", n, l, nodes, links)
	}
	prune(3, 2) // both share example.org
	g.clock.Add(time.Hour)
	prune(2, 1)
	g.clock.Add(sightingMaxAge)
	prune(0, 0)
}

// atAll is at for several records.
func atAll(records []check.Record, then time.Time) []check.Record {
	return column(records, func(r check.Record) check.Record { return at(r, then) })
}
