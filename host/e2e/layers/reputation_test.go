package layers

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/host/access/keyring"
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
	keys := expect.Value(keyring.Load(filepath.Join(hosttest.SharedDir(t), "secret")))(t)
	m, database := &deployment{t: t}, postgrestest.Database(t)
	m.store = storetest.Close(t, expect.Value(store.Open(t.Context(), store.Config{URL: database, Keys: keys,
		Logger: log}))(t))
	expect.NoError(t, storetest.PutInForce(t.Context(), database))
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
	plan, _ := check.PlanNamed("pro")
	plan.Quota = 1_000_000
	for range customers {
		account := expect.Value(m.store.CreateAccount(t.Context(), plan))(t)
		key := expect.Value(m.store.CreateKey(t.Context(), account, "test"))(t)
		m.customers = append(m.customers, check.Caller{Account: account, Key: key.ID, Plan: plan})
	}
	return m
}

func (m *deployment) check(customer int, fields ...check.Field) *check.Decision {
	if err := m.store.CatchUp(m.t.Context()); err != nil { // with the checks before this one
		m.t.Error(err)
	}
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
	if err := m.store.CatchUp(m.t.Context()); err != nil { // with the checks before this one
		m.t.Fatal(err)
	}
	var d *check.Decision
	var incomplete string
	if !hosttest.Repeat(func() (complete bool) { // a busy machine may not read the graph in time
		d = expect.Value(m.checker.Explain(m.t.Context(), check.Field{Type: kind, Value: value}, ""))(m.t)
		incomplete = ""
		for _, s := range d.Signals {
			if strings.HasPrefix(s.Code, "host:") {
				incomplete = s.Text
			}
		}
		return incomplete == ""
	}) {
		m.t.Fatalf("the score of %s is incomplete: %s", value, incomplete)
	}
	return d
}

// blockedShare returns the fact graph.blocked_share of a value, in percent.
func (m *deployment) blockedShare(f check.Field) int {
	m.t.Helper()
	e, err := entity.Parse(f.Type, f.Value, "")
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.store.CatchUp(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	found, err := reputation.NewGraph(m.store).Observe(m.t.Context(), e, func(string) bool { return true })
	if err != nil {
		m.t.Fatal(err)
	}
	share, err := strconv.Atoi(found["graph.blocked_share"])
	if err != nil {
		m.t.Fatalf("the facts of %s lack the blocked share: %v", f.Value, found)
	}
	return share
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
		e, forged := expect.Value(entity.Parse(v.Type, v.Value, ""))(t), make([]check.Record, 1000)
		for i := range forged {
			forged[i] = check.Record{Caller: m.customers[attacker], Entity: e, Decision: &check.Decision{
				Fused: check.Fused{Score: 99, Verdict: check.Block}, Ref: check.NewRef(), Type: e.Type, Query: e.Value,
				At: time.Now().UTC().Truncate(time.Millisecond), Revision: storetest.Revision,
			}}
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
