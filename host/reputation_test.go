package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/reputation"
	"assay/host/feed"
	"assay/host/keyring"
	"assay/host/postgres/postgrestest"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
)

// market is a checker with the layers of reputation, on a real database, and customers who use it.
type market struct {
	t         *testing.T
	store     *store.Store
	ledger    *store.Ledger
	checker   *check.Checker
	similar   *reputation.Similar
	customers []check.Caller
}

// newMarket wires what serve does, with the given layers at the weights that their manifests suggest.
func newMarket(t *testing.T, customers int, layers ...string) *market {
	t.Helper()
	log := quietLog(&terminal{err: t.Output()})
	keys, err := keyring.Load(filepath.Join(t.TempDir(), "secret"))
	if err != nil {
		t.Fatal(err)
	}
	m := &market{t: t}
	if m.store, err = store.Open(t.Context(), store.Config{URL: postgrestest.Database(t), Keys: keys,
		Logger: log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.store.Close() })
	if m.ledger, err = m.store.NewLedger(store.LedgerConfig{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.ledger.Close() })
	m.similar = reputation.NewSimilar(m.store, log)
	lineup, err := registry.DefaultLineup()
	if err != nil {
		t.Fatal(err)
	}
	live := &check.Live{}
	live.Swap(check.NewLineup(1, lineup.Bias, check.Bands(lineup.Bands), members(t, layers)))
	m.checker = newChecker(live, m.ledger, failurePrinter{&terminal{err: t.Output()}})
	m.checker.Collector = facts.NewCollector(log, reputation.NewFeed(m.store, m.similar.NoLists),
		reputation.NewGraph(m.store), m.similar)
	m.checker.FactsDeadline, m.checker.Deadline = time.Minute, time.Minute // a machine that stalls is nobody's fault
	plan, _ := check.PlanNamed("pro")
	plan.Quota = 1_000_000
	for range customers {
		account, err := m.store.CreateAccount(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		key, err := m.store.CreateKey(t.Context(), account, "test")
		if err != nil {
			t.Fatal(err)
		}
		m.customers = append(m.customers, check.Caller{Account: account, Key: key.ID, Plan: plan})
	}
	return m
}

// members opens layers of this checkout in a sandbox.
func members(t *testing.T, names []string) []check.Member {
	t.Helper()
	source, err := registry.FindSource(".", filepath.Join(sharedDir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := source.BuildAll(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quietLog(&terminal{err: t.Output()})})
	t.Cleanup(func() { _ = box.Close() })
	var all []check.Member
	for _, m := range modules {
		if !slices.Contains(names, m.Manifest.Name) {
			continue
		}
		m.Manifest.BudgetMS = 10_000
		plugin, err := box.OpenShared(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = plugin.Close(context.Background()) })
		member := check.Member{Name: m.Manifest.Name, Version: m.Manifest.Version, Weight: m.Manifest.DefaultWeight,
			Facts: m.Manifest.Facts, Layer: plugin}
		for _, e := range m.Manifest.Entities {
			member.Entities = append(member.Entities, entity.Type(e))
		}
		all = append(all, member)
	}
	if len(all) != len(names) {
		t.Fatalf("%d of the layers %v were built", len(all), names)
	}
	return all
}

func (m *market) check(customer int, fields ...check.Field) *check.Decision {
	d, err := m.checker.Check(m.t.Context(), check.Request{Caller: m.customers[customer], Fields: fields})
	if err != nil {
		m.t.Error(err)
		return &check.Decision{}
	}
	return d
}

// score is what a check would answer, without recording it.
func (m *market) score(kind entity.Type, value string) *check.Decision {
	m.t.Helper()
	d, err := m.checker.Explain(m.t.Context(), check.Field{Type: kind, Value: value}, "")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, s := range d.Signals {
		if strings.HasPrefix(s.Code, "host:") {
			m.t.Fatalf("the score of %s rests on less than all: %s", value, s.Text)
		}
	}
	return d
}

// blockedShare is the fact graph.blocked_share of a value.
func (m *market) blockedShare(f check.Field) int {
	m.t.Helper()
	e, err := entity.Parse(f.Type, f.Value, "")
	if err != nil {
		m.t.Fatal(err)
	}
	found, err := reputation.NewGraph(m.store).Observe(m.t.Context(), e, func(string) bool { return true })
	if err != nil {
		m.t.Fatal(err)
	}
	share, err := strconv.Atoi(found["graph.blocked_share"])
	if err != nil {
		m.t.Fatalf("the graph knows nothing of %s: %v", f.Value, found)
	}
	return share
}

func domain(name string) check.Field { return check.Field{Type: entity.Domain, Value: name} }

// TestPoisoning: what one customer does a thousand times moves what others know well by less than 5 points (the fused
// score).
func TestPoisoning(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 6, "domain", "patterns", "lexical", "feeds", "graph", "similarity")
	if err := m.similar.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
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

	// Lies that no check could tell: as if the victims themselves had been blocked.
	for _, v := range victims {
		e, err := entity.Parse(v.Type, v.Value, "")
		if err != nil {
			t.Fatal(err)
		}
		lies := make([]check.Record, 1000)
		for i := range lies {
			lies[i] = check.Record{Caller: m.customers[attacker], Entity: e, Decision: &check.Decision{
				Fused: check.Fused{Score: 99, Verdict: check.Block}, Ref: check.NewRef(), Type: e.Type, Query: e.Value,
				At: time.Now().UTC().Truncate(time.Millisecond),
			}}
		}
		if err := m.ledger.Append(t.Context(), lies...); err != nil {
			t.Fatal(err)
		}
	}
	// And through the front door: scams that are blocked, sent along with the victims and hung on them.
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
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, v := range victims {
		d := m.score(v.Type, v.Value)
		if d.Score-before[v.Type] >= 5 {
			t.Errorf("%s went from %d to %d: %v", v.Value, before[v.Type], d.Score, d.Signals)
		}
		// One of six customers has a sixth of the say, whatever the layer makes of it.
		if share := m.blockedShare(v); share > 20 {
			t.Errorf("%s has a blocked share of %d percent", v.Value, share)
		}
	}

	// Without the attacker the graph is what it was.
	if _, _, err := m.store.ForgetAccountSightings(t.Context(), m.customers[attacker].Account); err != nil {
		t.Fatal(err)
	}
	for _, v := range victims {
		if d := m.score(v.Type, v.Value); d.Score != before[v.Type] {
			t.Errorf("%s is at %d after the attacker was taken out, was at %d", v.Value, d.Score, before[v.Type])
		}
	}
}

// TestBadCompany: a domain that nobody has met is judged by what hangs on the same, once three customers say so.
func TestBadCompany(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 3, "domain", "patterns", "lexical", "graph")
	// The scams' own names are blocked by themselves; the new one is plain.
	fresh := domain("blumen.wiese-7781.xyz")
	before := m.score(fresh.Type, fresh.Value)
	for customer := range 3 {
		for i := range 6 {
			if d := m.check(customer, domain(fmt.Sprintf("paypa1-secure-login%d.wiese-7781.xyz",
				i))); d.Verdict != check.Block {
				t.Fatalf("the scam is at %d", d.Score)
			}
		}
		after := m.score(fresh.Type, fresh.Value)
		if raised := after.Score > before.Score; raised != (customer == 2) {
			t.Errorf("after %d customers: %d, before %d", customer+1, after.Score, before.Score)
		}
	}
	d := m.score(fresh.Type, fresh.Value)
	if d.Verdict == check.Block || !slices.ContainsFunc(d.Signals,
		func(s check.Signal) bool { return s.Code == "graph:neighbours:bad" }) {
		t.Errorf("score %d, %v", d.Score, d.Signals)
	}
}

// TestListing: a list that is imported counts, for the entity and for what is like it, and nothing of it is left when
// it is withdrawn.
func TestListing(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 3, "domain", "patterns", "lexical", "feeds", "graph", "similarity")
	load := func() {
		t.Helper()
		if err := m.similar.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	load()
	listed, like, address := "blumenwiese-angebote.shop", "blumenwiese-angebot.site", "jane@blumenwiese-angebote.shop"
	scores := func() [3]int {
		return [3]int{m.score(entity.Domain, listed).Score, m.score(entity.Domain, like).Score,
			m.score(entity.Email, address).Score}
	}
	before := scores()
	entries := []feed.Entry{{Type: entity.Domain, Value: listed, Name: "blumenwiese-angebote", Category: "scam"}}
	_, err := m.store.ImportFeed(t.Context(), feed.List{Name: "Shops", Kind: feed.Bad}, oneList(entries))
	if err != nil {
		t.Fatal(err)
	}
	load()
	d := m.score(entity.Domain, listed)
	if d.Verdict != check.Block || d.Threat != "scam" || d.Signals[0].Text != "listed by Shops as scam" {
		t.Errorf("the listed one: %d %s, %v", d.Score, d.Threat, d.Signals)
	}
	if d := m.score(entity.Email, address); d.Verdict != check.Block {
		t.Errorf("an address there: %d, %v", d.Score, d.Signals)
	}
	d = m.score(entity.Domain, like)
	want := "nearly the same name as blumenwiese-angebote.shop, which Shops lists as scam, but for 1 letter of 19"
	if d.Score <= before[1] || !slices.ContainsFunc(d.Signals, func(s check.Signal) bool { return s.Text == want }) {
		t.Errorf("one like it: %d, %v", d.Score, d.Signals)
	}
	for customer := range 3 {
		m.check(customer, domain(listed))
	}
	if err := m.store.WithdrawFeed(t.Context(), "Shops"); err != nil {
		t.Fatal(err)
	}
	load()
	if after := scores(); after != before {
		t.Errorf("scores after the withdrawal %v, before the import %v", after, before)
	}
}

// oneList hands out entries at once.
func oneList(entries []feed.Entry) func() ([]feed.Entry, error) {
	return func() ([]feed.Entry, error) {
		if len(entries) == 0 {
			return nil, io.EOF
		}
		all := entries
		entries = nil
		return all, nil
	}
}
