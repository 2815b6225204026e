package store

import (
	"testing"

	"assay/host/check"
	"assay/host/entity"
)

// What is forgotten stays forgotten, whether its contribution waits or a host has read it already.
func TestForgetWhatWaits(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 2)
	conn := session(t, g.s.url)
	jane, john := parse(t, entity.Email, "jane@mail.example.org"), parse(t, entity.Email, "john@mail.example.org")
	phone := parse(t, entity.Phone, "+4915123456789")
	forgetNode := func(account func(*graphTest) string) func(*testing.T, *graphTest) {
		return func(t *testing.T, g *graphTest) {
			t.Helper()
			_, err := g.s.db.ExecContext(t.Context(), "SELECT graph_forget_node(?, ?)", account(g),
				g.s.node(subjectOf(jane).Entity))
			noError(t, err)
		}
	}
	mine := func(g *graphTest) string { return g.customers[0].Account }
	for name, forget := range map[string]func(*testing.T, *graphTest){
		"an entity of one account":  forgetNode(mine),
		"an entity of all accounts": forgetNode(func(*graphTest) string { return "" }),
		"an account": func(t *testing.T, g *graphTest) {
			t.Helper()
			_, err := g.s.db.ExecContext(t.Context(), "SELECT graph_forget_pending(?, '')", mine(g))
			noError(t, err)
		},
		"by an erasure": func(t *testing.T, g *graphTest) {
			t.Helper()
			must(g.s.Erase(t.Context(), g.customers[0], about(jane)))(t)
		},
	} {
		for when, raced := range map[string]bool{"before it is read": false, "after it is read": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				exec(t, conn, "TRUNCATE graph_sightings, graph_edges")
				remains := func(i int, jane bool) {
					g.check(i, john, check.Block)
					if jane {
						g.check(i, phone, check.Allow)
					}
				}
				// The graph as it should be: without jane, or without the account.
				remains(1, true)
				if name != "an account" {
					remains(0, true)
				}
				noError(t, g.s.CatchUp(t.Context()))
				want := graphDump(t, g.s)
				exec(t, conn, "TRUNCATE graph_sightings, graph_edges")
				remains(1, true)
				remains(0, false)
				g.check(0, jane, check.Block)
				g.check(0, phone, check.Allow, jane)
				write := func() bool { return false }
				if raced {
					write = read(t, g.s)
				}
				forget(t, g)
				if write() {
					t.Error("an applier wrote what was forgotten after it had read")
				}
				noError(t, g.s.CatchUp(t.Context()))
				expect(t, "after forgetting", graphDump(t, g.s), want)
				expect(t, "what must still be left out", one[int](t, g.s, "SELECT count(*) FROM graph_forgotten"), 0)
				// Later checks count again.
				g.check(0, jane, check.Allow)
				noError(t, g.s.CatchUp(t.Context()))
				expect(t, "later checks", one[int](t, g.s,
					"SELECT count(*) FROM graph_sightings WHERE kind = 'email' AND checks = 1 AND blocked = 0"), 1)
			})
		}
	}
}

// What is forgotten is left out until the last contribution that contains it was applied.
func TestForgottenUntilAllIsApplied(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 1)
	e := g.domain("shop.example.org")
	g.check(0, e, check.Allow)
	g.check(0, e, check.Allow)
	node := g.s.node(subjectOf(e).Entity)
	_, err := g.s.db.ExecContext(t.Context(), "SELECT graph_forget_node('', ?)", node)
	noError(t, err)
	waiting := must(g.s.waitingContributions(t.Context()))(t)[0]
	wantErrorText(t, "applying less than was read",
		errOf(g.s.writeGraph(t.Context(), waiting, waiting.Applied+1, 2, newSightings(), nil)),
		"batches of contributions")
	if !must(g.s.writeGraph(t.Context(), waiting, waiting.Applied+1, 1, newSightings(), nil))(t) {
		t.Error("the first contribution was not applied")
	}
	noError(t, g.s.CatchUp(t.Context()))
	expect(t, "forgotten sightings", one[int](t, g.s, "SELECT count(*) FROM graph_sightings WHERE node = ?", node), 0)
}

// An entity that was sent along with a forgotten one was checked itself, so its sighting stays.
func TestForgettingKeepsLinkedEntities(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 1)
	jane := parse(t, entity.Email, "jane@mail.example.org")
	g.check(0, parse(t, entity.Phone, "+4915123456789"), check.Allow, jane)
	noError(t, g.s.CatchUp(t.Context()))
	_, _, err := g.s.ForgetSightings(t.Context(), g.customers[0].Account, jane)
	noError(t, err)
	expect(t, "sightings", one[string](t, g.s, `SELECT string_agg(format('%s: %s', kind, checks), ', ')
		FROM graph_sightings WHERE kind IN ('email', 'phone')`), "phone: 1")
}

// Forgetting an account or an entity restores the graph as it was without it.
func TestForget(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 4)
	e, other := parse(t, entity.Email, "jane@mail.example.org"), parse(t, entity.Email, "john@mail.example.org")
	phone := parse(t, entity.Phone, "+4915123456789")
	for customer := range 3 {
		g.check(customer, other, check.Allow)
	}
	dump := func() string {
		noError(t, g.s.CatchUp(t.Context()))
		return one[string](t, g.s, `SELECT
			coalesce((SELECT string_agg(format('%s %s %s %s', encode(node, 'hex'), account_id, checks, blocked), ';'
				ORDER BY node, account_id) FROM graph_sightings), '') ||
			coalesce((SELECT string_agg(format('%s %s %s %s', encode(node, 'hex'), encode(other, 'hex'), account_id,
				checks), ';' ORDER BY node, other, account_id) FROM graph_edges), '')`)
	}
	before := dump()
	for range 3 {
		g.check(3, e, check.Block)
	}
	g.check(3, other, check.Block, phone)
	if dump() == before {
		t.Fatal("the checks left the graph unchanged")
	}
	_, _, err := g.s.ForgetAccountSightings(t.Context(), g.customers[3].Account)
	noError(t, err)
	expect(t, "after forgetting the account", dump(), before)
	for customer := range 3 {
		g.check(customer, e, check.Block)
	}
	_, _, err = g.s.ForgetSightings(t.Context(), g.customers[0].Account, e)
	noError(t, err)
	if got := g.aggregate(e); got.Customers != 0 {
		t.Errorf("after forgetting one of three customers: %+v, want none", got)
	}
	_, _, err = g.s.ForgetSightings(t.Context(), "", e)
	noError(t, err)
	expect(t, "after forgetting the subject", dump(), before)
}
