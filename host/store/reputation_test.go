package store

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/facts/reputation"
	"assay/host/feed"
	"assay/host/postgres/postgrestest"
)

// town is a store with customers who check things.
type town struct {
	t         *testing.T
	s         *Store
	l         *Ledger
	clock     *atomic.Pointer[time.Time]
	customers []check.Caller
}

func newTown(t *testing.T, customers int) *town {
	t.Helper()
	clock := &atomic.Pointer[time.Time]{}
	start := noon
	clock.Store(&start)
	s := open(t, postgrestest.Database(t), func() time.Time { return *clock.Load() })
	w := &town{t: t, s: s, l: ledgerOn(t, s, LedgerConfig{}), clock: clock}
	for range customers {
		w.customers = append(w.customers, newCaller(t, s, plan(t, "pro", 1_000_000)))
	}
	return w
}

// pass lets time go by.
func (w *town) pass(d time.Duration) {
	then := w.clock.Load().Add(d)
	w.clock.Store(&then)
}

// check records a check of a customer.
func (w *town) check(customer int, e entity.Entity, verdict check.Verdict, also ...entity.Entity) {
	w.t.Helper()
	r := at(decided(w.customers[customer], e, verdict), *w.clock.Load())
	r.Linked = also
	if err := w.l.Append(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
}

func (w *town) domain(name string) entity.Entity { return parse(w.t, entity.Domain, name) }

// reputation asks for an entity as the source does.
func (w *town) reputation(e entity.Entity) reputation.Aggregate {
	w.t.Helper()
	got, err := w.s.GraphAggregates(w.t.Context(), []reputation.Subject{subjectOf(e)})
	if err != nil {
		w.t.Fatal(err)
	}
	return got[0]
}

func subjectOf(e entity.Entity) reputation.Subject {
	sub := reputation.Subject{Entity: reputation.Node{Kind: string(e.Type), Value: e.Value}}
	for _, h := range e.Parents() {
		sub.Parents = append(sub.Parents, reputation.Node(h))
	}
	return sub
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.011 }

// What one or two customers did is told to nobody; from three on, each has one vote.
func TestReputationNeedsThreeCustomers(t *testing.T) {
	t.Parallel()
	w := newTown(t, 4)
	e := w.domain("shop.example.org")
	for range 50 {
		w.check(0, e, check.Block)
	}
	w.check(1, e, check.Allow)
	if got := w.reputation(e); got != (reputation.Aggregate{}) {
		t.Errorf("of two customers %+v is told", got)
	}
	public := w.s.PublicCaller()
	if err := w.l.Append(t.Context(), decided(public, e, check.Block)); err != nil {
		t.Fatal(err)
	}
	if got := w.reputation(e); got != (reputation.Aggregate{}) {
		t.Errorf("a caller without a key counts as a customer: %+v", got)
	}
	w.pass(time.Hour)
	w.check(2, e, check.Allow)
	got := w.reputation(e)
	if got.Customers != 3 || !near(got.BlockedShare, 1.0/3) || !near(got.Seen, 12) ||
		!got.Since.Equal(noon.Add(time.Hour)) {
		t.Errorf("reputation %+v, want 3 customers, a third blocked, 12 checks, since the third came", got)
	}
	if got := w.reputation(w.domain("other.example.org")); got.Customers != 0 {
		t.Errorf("a neighbour's customers are counted: %+v", got)
	}
}

// A vote halves in 30 days, and ends after 90.
func TestReputationDecays(t *testing.T) {
	t.Parallel()
	w := newTown(t, 4)
	e := w.domain("example.org")
	w.check(0, e, check.Block)
	w.pass(30 * 24 * time.Hour)
	for i := 1; i < 4; i++ {
		w.check(i, e, check.Allow)
	}
	if got := w.reputation(e); got.Customers != 4 || !near(got.BlockedShare, 0.5/3.5) || !near(got.Seen, 3.5) {
		t.Errorf("after 30 days: %+v", got)
	}
	w.pass(61 * 24 * time.Hour)
	if got := w.reputation(e); got.Customers != 3 || got.BlockedShare != 0 {
		t.Errorf("after 91 days: %+v", got)
	}
	w.pass(60 * 24 * time.Hour)
	if got := w.reputation(e); got != (reputation.Aggregate{}) {
		t.Errorf("after 151 days: %+v", got)
	}
}

// One hop: what was sent along. Two hops: what hangs on the same.
func TestNeighbourRisk(t *testing.T) {
	t.Parallel()
	w := newTown(t, 4)
	phone := parse(t, entity.Phone, "+4915123456789")
	victim := w.domain("new.evil-host.example")
	for customer := range 3 {
		for i := range 4 {
			w.check(customer, w.domain(fmt.Sprintf("s%d.evil-host.example", i)), check.Block)
		}
		w.check(customer, w.domain("s4.evil-host.example"), check.Allow, phone)
	}
	// Never seen before, it hangs on the registrable domain of five others, of which four were blocked.
	if got := w.reputation(victim); got.Customers != 0 || got.Neighbours != 5 || !near(got.NeighbourRisk, 0.8) {
		t.Errorf("two hops: %+v, want 5 neighbours at 0.8", got)
	}
	// The phone was sent with the one that was allowed, which counts 1, and hangs through it with the others on nothing
	// more.
	if got := w.reputation(phone); got.Neighbours != 1 || got.NeighbourRisk != 0 {
		t.Errorf("one hop: %+v, want 1 harmless neighbour", got)
	}
	// The entity's own blocks are no risk of its neighbourhood.
	for customer := range 3 {
		w.check(customer, victim, check.Block)
	}
	if got := w.reputation(victim); got.Neighbours != 5 || !near(got.NeighbourRisk, 0.8) {
		t.Errorf("after its own blocks: %+v, want 5 neighbours at 0.8", got)
	}
	if got := w.reputation(w.domain("elsewhere.example")); got != (reputation.Aggregate{}) {
		t.Errorf("a stranger: %+v", got)
	}
}

// A listed neighbour is a risk as long as its list is in force, however it was judged.
func TestListedNeighbour(t *testing.T) {
	t.Parallel()
	w := newTown(t, 3)
	listed := w.domain("a.blumenwiese.example")
	for customer := range 3 {
		w.check(customer, listed, check.Allow)
	}
	e := w.domain("b.blumenwiese.example")
	risk := func() float64 { return w.reputation(e).NeighbourRisk }
	if got := risk(); got != 0 {
		t.Fatalf("risk %v before any list", got)
	}
	importList(t, w.s, feed.List{Name: "Bad", Kind: feed.Bad}, entryOf(listed))
	if got := risk(); got != 1 {
		t.Errorf("risk %v beside a listed one, want 1", got)
	}
	importList(t, w.s, feed.List{Name: "Good", Kind: feed.Good}, entryOf(listed))
	if got := risk(); got != 0 {
		t.Errorf("risk %v where a good list objects, want 0", got)
	}
	if err := w.s.WithdrawFeed(t.Context(), "Good"); err != nil {
		t.Fatal(err)
	}
	until := w.clock.Load().Add(time.Hour)
	importList(t, w.s, feed.List{Name: "Bad", Kind: feed.Bad, ExpiresAt: &until}, entryOf(listed))
	if got := risk(); got != 1 {
		t.Errorf("risk %v before the list expires, want 1", got)
	}
	w.pass(2 * time.Hour)
	if got := risk(); got != 0 {
		t.Errorf("risk %v after the list expired, want 0", got)
	}
	importList(t, w.s, feed.List{Name: "Bad", Kind: feed.Bad}, entryOf(listed))
	if err := w.s.WithdrawFeed(t.Context(), "Bad"); err != nil {
		t.Fatal(err)
	}
	if got := risk(); got != 0 {
		t.Errorf("risk %v after the list was withdrawn, want 0", got)
	}
}

// A hub ties nothing together: who shares a large provider is nobody's neighbour.
func TestHubTiesNothing(t *testing.T) {
	t.Parallel()
	w := newTown(t, 3)
	for i := range maxLinks/3 + 1 {
		for customer := range 3 {
			w.check(customer, w.domain(fmt.Sprintf("s%d.large.example", i)), check.Block)
		}
		if i == 9 {
			if got := w.reputation(w.domain("new.large.example")); got.Neighbours != 10 {
				t.Errorf("%+v, want 10 neighbours", got)
			}
		}
	}
	if got := w.reputation(w.domain("new.large.example")); got != (reputation.Aggregate{}) {
		t.Errorf("a hub's neighbours are told: %+v", got)
	}
}

// A thousand false sightings move a share as much as one does.
func TestOneVoteEach(t *testing.T) {
	t.Parallel()
	w := newTown(t, 6)
	e := w.domain("example.org")
	for customer := range 5 {
		w.check(customer, e, check.Allow)
	}
	w.check(5, e, check.Block)
	once := w.reputation(e)
	records := make([]check.Record, 999)
	for i := range records {
		records[i] = decided(w.customers[5], e, check.Block)
	}
	if err := w.l.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	often := w.reputation(e)
	if !near(once.BlockedShare, often.BlockedShare) || often.Customers != 6 ||
		!near(often.Seen, once.Seen+maxChecks-1) {
		t.Errorf("a thousand times: %+v, once: %+v", often, once)
	}
}

// What a check's own reputation said is not counted as evidence for the next.
func TestFirstHand(t *testing.T) {
	t.Parallel()
	layers := func(contributions map[string]float64) []check.Outcome {
		var all []check.Outcome
		for name, c := range contributions {
			all = append(all, check.Outcome{Layer: name, Contribution: c, ReadsReputation: name != "domain"})
		}
		return all
	}
	tests := map[string]struct {
		score   int
		verdict check.Verdict
		layers  map[string]float64
		want    check.Verdict
	}{
		"nothing second hand":        {91, check.Block, map[string]float64{"domain": 6}, check.Block},
		"a lineup's own bands":       {50, check.Block, map[string]float64{"domain": 6}, check.Block},
		"the list alone":             {78, check.Block, map[string]float64{"feeds": 5.25}, check.Allow},
		"the graph tipped it":        {74, check.Block, map[string]float64{"domain": 4.5, "graph": 0.6}, check.Review},
		"the graph only added to it": {97, check.Block, map[string]float64{"domain": 6, "graph": 1}, check.Block},
		"similar and listed": {99, check.Block, map[string]float64{"domain": 2, "feeds": 4, "similarity": 3},
			check.Allow},
		"beyond what a score shows": {100, check.Block, map[string]float64{"domain": 14, "graph": 2.5}, check.Block},
		"harmless":                  {2, check.Allow, map[string]float64{"graph": 0.1}, check.Allow},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &check.Decision{Fused: check.Fused{Score: tt.score, Verdict: tt.verdict}, Layers: layers(tt.layers)}
			if got := firstHandVerdict(d); got != tt.want {
				t.Errorf("firstHand = %s, want %s", got, tt.want)
			}
		})
	}
}

// Blocks by a list are no blocks in the graph, so that they go when the list does.
func TestSecondHandBlocksAreNotCounted(t *testing.T) {
	t.Parallel()
	w := newTown(t, 3)
	e := w.domain("example.org")
	for customer := range 3 {
		r := at(decided(w.customers[customer], e, check.Block), *w.clock.Load())
		r.Decision.Layers = []check.Outcome{{Layer: "feeds", Weight: 7, Score: 90, Contribution: 6.3, ReadsReputation: true}}
		if err := w.l.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.reputation(e); got.Customers != 3 || got.BlockedShare != 0 {
		t.Errorf("%+v, want nothing blocked", got)
	}
}

// What a lookup found ties names together that have nothing else in common.
func TestObservedParents(t *testing.T) {
	t.Parallel()
	w := newTown(t, 3)
	observed := entity.Facts{"dns.ns": "ns1.bulletproof.example ns2.bulletproof.example", "dns.a": "198.51.100.7",
		"dns.aaaa": "2001:db8::1"}
	record := func(customer int, name string, verdict check.Verdict, observed entity.Facts) {
		r := at(decided(w.customers[customer], w.domain(name), verdict), *w.clock.Load())
		r.LookedUp = observed
		if err := w.l.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for customer := range 3 {
		record(customer, "one.example", check.Block, observed)
		record(customer, "two.example", check.Allow, entity.Facts{"dns.a": "198.51.100.200"})
	}
	if got := w.reputation(w.domain("two.example")); got.Neighbours != 1 || got.NeighbourRisk != 1 {
		t.Errorf("on the same network: %+v, want 1 neighbour at risk 1", got)
	}
	if got := w.reputation(w.domain("one.example")); got.Neighbours != 1 || got.NeighbourRisk != 0 {
		t.Errorf("the other way: %+v, want 1 harmless neighbour", got)
	}
	want := []entity.Parent{{Kind: "nameserver", Value: "bulletproof.example"},
		{Kind: "network", Value: "198.51.100.0/24"}, {Kind: "network", Value: "2001:db8::/48"}}
	if got := observedParents(observed); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("parents %v, want %v", got, want)
	}
	many := observedParents(entity.Facts{"dns.ns": "a.one.example a.two.example a.three.example",
		"dns.a": "bad 192.0.2.1 198.51.100.1 203.0.113.1"})
	if len(many) != 2*maxObserved {
		t.Errorf("%d parents %v, want %d", len(many), many, 2*maxObserved)
	}
}

// What counts no longer goes, and what was seen again since stays.
func TestPruneSightings(t *testing.T) {
	t.Parallel()
	w := newTown(t, 1)
	for _, name := range []string{"old.example.org", "again.example.org"} {
		w.check(0, w.domain(name), check.Allow)
	}
	w.pass(sightingMaxAge - time.Hour)
	w.check(0, w.domain("again.example.org"), check.Allow)
	prune := func(nodes, links int) {
		t.Helper()
		if err := w.s.PruneSightings(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, l := one[int](t, w.s, "SELECT count(*) FROM graph_sightings"),
			one[int](t, w.s, "SELECT count(*) FROM graph_links"); n != nodes || l != links {
			t.Errorf("%d nodes and %d links are left, want %d and %d", n, l, nodes, links)
		}
	}
	prune(3, 2) // both hang on example.org
	w.pass(time.Hour)
	prune(2, 1)
	w.pass(sightingMaxAge)
	prune(0, 0)
}

// An account's, and a subject's, part can be taken out again as if it had never been.
func TestForget(t *testing.T) {
	t.Parallel()
	w := newTown(t, 4)
	e, other := parse(t, entity.Email, "jane@mail.example.org"), parse(t, entity.Email, "john@mail.example.org")
	phone := parse(t, entity.Phone, "+4915123456789")
	for customer := range 3 {
		w.check(customer, other, check.Allow)
	}
	dump := func() string {
		return one[string](t, w.s, `SELECT coalesce((SELECT string_agg(format('%s %s %s %s', encode(node, 'hex'), account_id, checks, blocked), ';' ORDER BY node, account_id) FROM graph_sightings), '')
			|| coalesce((SELECT string_agg(format('%s %s %s %s', encode(low, 'hex'), encode(high, 'hex'), account_id, checks), ';' ORDER BY low, high, account_id) FROM graph_links), '')`)
	}
	before := dump()
	for range 3 {
		w.check(3, e, check.Block)
	}
	w.check(3, other, check.Block, phone)
	if dump() == before {
		t.Fatal("nothing was added")
	}
	if _, _, err := w.s.ForgetAccountSightings(t.Context(), w.customers[3].Account); err != nil {
		t.Fatal(err)
	}
	if got := dump(); got != before {
		t.Errorf("after forgetting the account:\n%s\nwant:\n%s", got, before)
	}
	for customer := range 3 {
		w.check(customer, e, check.Block)
	}
	if _, _, err := w.s.ForgetSightings(t.Context(), w.customers[0].Account, e); err != nil {
		t.Fatal(err)
	}
	if got := w.reputation(e); got.Customers != 0 {
		t.Errorf("without one of three customers: %+v", got)
	}
	if _, _, err := w.s.ForgetSightings(t.Context(), "", e); err != nil {
		t.Fatal(err)
	}
	if got := dump(); got != before {
		t.Errorf("after forgetting the subject:\n%s\nwant:\n%s", got, before)
	}
}

// Many subjects in one query get each their own answer.
func TestReputationsTogether(t *testing.T) {
	t.Parallel()
	w := newTown(t, 5)
	var subjects []reputation.Subject
	for i := range 300 {
		e := w.domain(fmt.Sprintf("n%d.example%d.org", i, i))
		subjects = append(subjects, subjectOf(e))
		if i%100 == 50 {
			for customer := range 3 + i/100 {
				w.check(customer, e, check.Block)
			}
		}
	}
	got, err := w.s.GraphAggregates(t.Context(), subjects)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		want := 0
		if i%100 == 50 {
			want = 3 + i/100
		}
		if r.Customers != want {
			t.Errorf("subject %d: %+v, want %d customers", i, r, want)
		}
	}
}
