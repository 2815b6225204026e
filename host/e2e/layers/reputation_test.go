package layers

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/feed"
	"assay/host/facts/reputation"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	lineups "assay/host/lineup"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/expect"
)

// deployment is a checker with the reputation layers on a real database, and its customers.
type deployment struct {
	t         *testing.T
	store     *store.Store
	ledger    *store.Ledger
	checker   *check.Checker
	similar   *reputation.Similar
	customers []check.Caller
}

// newDeployment wires a checker as serve does, with the given layers at their default weights.
func newDeployment(t *testing.T, customers int, layers ...string) *deployment {
	t.Helper()
	log := installation.QuietLog(&terminal.Terminal{Err: t.Output()})
	database := postgrestest.Database(t)
	expect.NoError(t, storetest.PutInForce(t.Context(), database))
	m := &deployment{t: t, store: hosttest.OpenStore(t, hosttest.SharedDir(t), database).Store}
	m.ledger = storetest.Close(t, expect.Value(m.store.NewLedger(hosttest.PatientLedger))(t))
	m.similar = reputation.NewSimilar(m.store, log)
	lineup := expect.Value(registry.DefaultLineup())(t)
	live := &check.Live{}
	live.Swap(check.NewLineup(storetest.Revision, lineups.ByType(lineup.Bias), check.Bands(lineup.Bands),
		members(t, layers...)))
	m.checker = installation.NewChecker(live, m.ledger,
		installation.FailurePrinter{Terminal: &terminal.Terminal{Err: t.Output()}})
	m.checker.Collector = facts.NewCollector(log, reputation.NewFeed(m.store, m.similar.NoLists),
		reputation.NewGraph(m.store), m.similar)
	m.checker.Deadline = time.Minute
	for range customers {
		m.customers = append(m.customers, storetest.NewCaller(t, m.store, storetest.Plan(t, "pro", 1_000_000)))
	}
	return m
}

func (m *deployment) check(customer int, fields ...check.Field) *check.Decision {
	expect.Error(m.t, "catching up with the checks before this one", m.store.CatchUp(m.t.Context()), nil)
	d, err := m.checker.Check(m.t.Context(), check.Request{Caller: m.customers[customer], Fields: fields})
	if err != nil {
		m.t.Error(err)
		return &check.Decision{}
	}
	return d
}

// score scores a value without recording it.
func (m *deployment) score(kind entity.Type, value string) *check.Decision {
	m.t.Helper()
	expect.NoError(m.t, m.store.CatchUp(m.t.Context())) // with the checks before this one
	var d *check.Decision
	complete := hosttest.Repeat(func() bool { // a busy machine may not read the graph in time
		d = expect.Value(m.checker.Explain(m.t.Context(), check.Field{Type: kind, Value: value}, ""))(m.t)
		return !slices.ContainsFunc(d.Signals, func(s check.Signal) bool { return strings.HasPrefix(s.Code, "host:") })
	})
	expect.Must(m.t, complete, "the score of %s is incomplete: %+v", value, d.Signals)
	return d
}

// blockedShare returns the fact graph.blocked_share of a value, in percent.
func (m *deployment) blockedShare(f check.Field) int {
	m.t.Helper()
	e := storetest.Parse(m.t, f.Type, f.Value)
	expect.NoError(m.t, m.store.CatchUp(m.t.Context()))
	all := func(string) bool { return true }
	found := expect.Value(reputation.NewGraph(m.store).Observe(m.t.Context(), e, all))(m.t)
	return expect.Value(strconv.Atoi(found["graph.blocked_share"]))(m.t)
}

func domain(name string) check.Field { return check.Field{Type: entity.Domain, Value: name} }

// A single customer cannot raise the score of well-known entities by 5 points or more, even with thousands of checks.
func TestPoisoning(t *testing.T) {
	t.Parallel()
	m := newDeployment(t, 6, "domain", "lexical", "feeds", "graph", "similarity")
	expect.NoError(t, m.similar.Load(t.Context()))
	const attacker = 5
	victims := []check.Field{domain("blumenwiese-mueller.de"),
		{Type: entity.Email, Value: "info@blumenwiese-mueller.de"}, {Type: entity.Phone, Value: "+493090182000"}}
	for customer := range attacker {
		for _, v := range victims {
			m.check(customer, v)
		}
		m.check(customer, victims...)
	}
	before := map[entity.Type]int{}
	for _, v := range victims {
		before[v.Type] = m.score(v.Type, v.Value).Score
	}

	// Records that no real check can create: the victims themselves were blocked.
	for _, v := range victims {
		e, forged := storetest.Parse(t, v.Type, v.Value), make([]check.Record, 1000)
		for i := range forged {
			forged[i] = storetest.At(storetest.Decided(m.customers[attacker], e, check.Block),
				time.Now().UTC().Truncate(time.Millisecond))
		}
		expect.NoError(t, m.ledger.Append(t.Context(), forged...))
	}
	// Real checks: scams that are blocked, in one request with the victims or on their domain.
	var g errgroup.Group
	g.SetLimit(16)
	for i := range 200 {
		g.Go(func() error {
			scam := domain(fmt.Sprintf("paypa1-secure-login-%d.xyz", i))
			if i%2 == 0 {
				m.check(attacker, scam, victims[1], victims[2])
			} else {
				m.check(attacker, domain(fmt.Sprintf("paypa1-secure-login-%d.blumenwiese-mueller.de", i)), victims[2])
			}
			return nil
		})
	}
	expect.NoError(t, g.Wait())
	for _, v := range victims {
		d := m.score(v.Type, v.Value)
		expect.That(t, d.Score-before[v.Type] < 5, "the score of %s rose from %d to %d: %v", v.Value, before[v.Type],
			d.Score, d.Signals)
		// One of six customers counts for a sixth of the share.
		share := m.blockedShare(v)
		expect.That(t, share <= 20, "%s has a blocked share of %d percent", v.Value, share)
	}

	// Removing the attacker's sightings restores the scores.
	_, _, err := m.store.ForgetAccountSightings(t.Context(), m.customers[attacker].Account)
	expect.NoError(t, err)
	for _, v := range victims {
		expect.Equal(t, "the score without the attacker of "+v.Value, m.score(v.Type, v.Value).Score, before[v.Type])
	}
}

// An imported list affects the scores of its entities and of similar ones, until it is withdrawn.
func TestImportedList(t *testing.T) {
	t.Parallel()
	m := newDeployment(t, 3, "domain", "lexical", "feeds", "graph", "similarity")
	load := func() {
		t.Helper()
		expect.NoError(t, m.similar.Load(t.Context()))
	}
	load()
	listed, like, address := "blumenwiese-angebote.shop", "blumenwiese-angebot.site", "jane@blumenwiese-angebote.shop"
	scores := func() [3]int {
		return [3]int{m.score(entity.Domain, listed).Score, m.score(entity.Domain, like).Score,
			m.score(entity.Email, address).Score}
	}
	before := scores()
	entries := []feed.Entry{{Type: entity.Domain, Value: listed, Name: "blumenwiese-angebote", Category: "scam"}}
	read := func() (all []feed.Entry, err error) {
		if all, entries = entries, nil; all == nil {
			err = io.EOF
		}
		return all, err
	}
	expect.Value(m.store.ImportFeed(t.Context(), feed.List{Name: "Shops", Kind: feed.Bad}, read))(t)
	load()
	d := m.score(entity.Domain, listed)
	expect.That(t, d.Verdict == check.Block && d.Threat == "scam" && d.Signals[0].Text == "Listed by Shops as scam",
		"the listed domain: %d %s, %v", d.Score, d.Threat, d.Signals)
	d = m.score(entity.Email, address)
	expect.That(t, d.Verdict != check.Allow, "an address at the listed domain: %d, %v", d.Score, d.Signals)
	d = m.score(entity.Domain, like)
	want := "Differs in 1 of 19 letters from blumenwiese-angebote.shop, listed by Shops as scam"
	expect.That(t, d.Score > before[1] && slices.ContainsFunc(d.Signals,
		func(s check.Signal) bool { return s.Text == want }), "a similar domain: %d, %v", d.Score, d.Signals)
	for customer := range 3 {
		m.check(customer, domain(listed))
	}
	expect.NoError(t, m.store.WithdrawFeed(t.Context(), "Shops"))
	load()
	expect.Equal(t, "scores after the withdrawal", scores(), before)
}
