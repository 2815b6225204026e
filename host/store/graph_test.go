package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	is "assay/registry/expect"
)

// node returns the hash of a node in hexadecimal.
func node(kind, value string) string {
	return fmt.Sprintf("%x", newNodeNames(testRing).of(kind, value))
}

func sightingOf(t *testing.T, s *Store, account, kind, value string) string {
	t.Helper()
	return graphRow(t, s, `SELECT format('%s: %s checks, %s blocked, %s reviewed, %s to %s',
			kind, checks, blocked, reviewed, to_char(first_seen, 'HH24:MI'), to_char(last_seen, 'HH24:MI'))
		FROM graph_sightings WHERE encode(node, 'hex') = ? AND account = graph_account(?)`, node(kind, value), account)
}

// linkOf returns how often two nodes were linked, and when last.
func linkOf(t *testing.T, s *Store, account, a, b string) string {
	t.Helper()
	return graphRow(t, s, `SELECT format('%s, %s', checks, to_char(last_seen, 'HH24:MI')) FROM graph_edges
		WHERE encode(node, 'hex') = ? AND encode(other, 'hex') = ? AND account = graph_account(?)`, a, b, account)
}

// graphRow returns the only row of a query, or the number of rows.
func graphRow(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	var rows []string
	noError(t, s.db.NewRaw(query, args...).Scan(t.Context(), &rows))
	if len(rows) != 1 {
		return fmt.Sprintf("%d rows", len(rows))
	}
	return rows[0]
}

// Sightings add up within a batch and across batches, separately for each account.
func TestSightingsAddUp(t *testing.T) {
	t.Parallel()
	is.Each(t, map[string]bool{"in one batch": true, "in batches of one": false}, func(t *testing.T, together bool) {
		s := newStore(t, nil)
		var sizes sizes
		l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
		mine, theirs := newCaller(t, s, plan(t, "pro", 100)), newCaller(t, s, plan(t, "pro", 100))
		email := parse(t, entity.Email, "jane@mail.example.co.uk")
		domain := parse(t, entity.Domain, "shop.example.co.uk")
		phone := parse(t, entity.Phone, "+4915123456789")
		minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
		blocked := at(decided(mine, email, check.Block), minute(5))
		blocked.Linked = []entity.Entity{domain, phone}
		twice := at(decided(theirs, phone, check.Allow), minute(4))
		twice.Linked = []entity.Entity{phone}
		records := []check.Record{
			blocked,
			at(decided(mine, email, check.Review), minute(9)),
			at(decided(mine, email, check.Allow), minute(2)), // recorded out of order
			at(decided(mine, domain, check.Allow), minute(3)),
			at(decided(theirs, email, check.Block), minute(4)),
			twice,
		}
		if together {
			noError(t, errors.Join(inOneBatch(t, s.url, l, s.PublicCaller(), records)...))
			sizes.want(t, 1, len(records))
		} else {
			for _, r := range records {
				noError(t, l.Append(t.Context(), r))
			}
		}
		noError(t, s.CatchUp(t.Context()))
		for _, n := range []struct{ kind, value, want string }{
			{"email", email.Value, "3 checks, 1 blocked, 1 reviewed, 12:05 to 12:09"},
			{"maildomain", "mail.example.co.uk", "3 checks, 0 blocked, 0 reviewed, 12:05 to 12:09"},
			{"domain", domain.Value, "2 checks, 0 blocked, 0 reviewed, 12:05 to 12:05"},
			{"registrable", "example.co.uk", "5 checks, 0 blocked, 0 reviewed, 12:05 to 12:09"},
			{"phone", phone.Value, "1 checks, 0 blocked, 0 reviewed, 12:05 to 12:05"},
			{"range", "4915123", "1 checks, 0 blocked, 0 reviewed, 12:05 to 12:05"},
		} {
			expect(t, "sighting", sightingOf(t, s, mine.Account, n.kind, n.value), n.kind+": "+n.want)
		}
		expect(t, "another account's sighting", sightingOf(t, s, theirs.Account, "email",
			email.Value), "email: 1 checks, 1 blocked, 0 reviewed, 12:04 to 12:04")
		e, d, p := node("email", email.Value), node("domain", domain.Value), node("phone", phone.Value)
		maildomain, registrable := node("maildomain", "mail.example.co.uk"), node("registrable", "example.co.uk")
		for name, link := range map[string]struct{ account, a, b, want string }{
			"email and mail domain":         {mine.Account, e, maildomain, "3, 12:09"},
			"email and registrable domain":  {mine.Account, e, registrable, "3, 12:09"},
			"email and the domain with it":  {mine.Account, e, d, "1, 12:05"},
			"email and the phone with it":   {mine.Account, e, p, "1, 12:05"},
			"an entity and itself":          {theirs.Account, p, p, "0 rows"},
			"domain and registrable domain": {mine.Account, d, registrable, "2, 12:05"},
			"phone and its range":           {mine.Account, p, node("range", "4915123"), "1, 12:05"},
			"domain and phone, both linked": {mine.Account, d, p, "0 rows"},
			"another account's":             {theirs.Account, e, maildomain, "1, 12:04"},
		} {
			expect(t, name, linkOf(t, s, link.account, link.a, link.b), link.want)
		}
		verifyLedger(t, s)
	})
}

// What is forgotten stays forgotten, whether its contribution waits or a host has read it already.
func TestForgetWhatWaits(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 2)
	conn := session(t, g.s.url)
	jane, john := parse(t, entity.Email, "jane@mail.example.org"), parse(t, entity.Email, "john@mail.example.org")
	phone := parse(t, entity.Phone, "+4915123456789")
	forgetNode := func(account string) func() error {
		return func() error {
			return errOf(g.s.db.ExecContext(t.Context(), "SELECT graph_forget_node(?, ?)", account,
				g.s.node(subjectOf(jane).Entity)))
		}
	}
	mine := g.customers[0]
	for name, forget := range map[string]func() error{
		"an entity of one account":  forgetNode(mine.Account),
		"an entity of all accounts": forgetNode(""),
		"an account": func() error {
			return errOf(g.s.db.ExecContext(t.Context(), "SELECT graph_forget_pending(?, '')", mine.Account))
		},
		"by an erasure": func() error { return errOf(g.s.Erase(t.Context(), mine, about(jane))) },
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
				noError(t, forget())
				holds(t, !write(), "an applier wrote what was forgotten after it had read")
				noError(t, g.s.CatchUp(t.Context()))
				expect(t, "after forgetting", graphDump(t, g.s), want)
				expect(t, "what must still be left out", rowsOf(t, g.s, "graph_forgotten"), 0)
				// Later checks count again.
				g.check(0, jane, check.Allow)
				noError(t, g.s.CatchUp(t.Context()))
				expect(t, "later checks", rowsOf(t, g.s, `graph_sightings
					WHERE kind = 'email' AND checks = 1 AND blocked = 0`), 1)
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
	noError(t, errOf(g.s.db.ExecContext(t.Context(), "SELECT graph_forget_node('', ?)", node)))
	waiting := must(g.s.waitingContributions(t.Context()))(t)[0]
	wantErrorText(t, "applying less than was read", errOf(g.s.writeGraph(t.Context(), waiting, waiting.Applied+1, 2,
		newSightings(), nil)), "batches of contributions")
	holds(t, must(g.s.writeGraph(t.Context(), waiting, waiting.Applied+1, 1, newSightings(), nil))(t),
		"the first contribution was not applied")
	noError(t, g.s.CatchUp(t.Context()))
	expect(t, "forgotten sightings", rowsOf(t, g.s, "graph_sightings WHERE node = ?", node), 0)

	// An entity that was sent along with a forgotten one was checked itself, so its sighting stays.
	jane := parse(t, entity.Email, "jane@mail.example.org")
	g.check(0, parse(t, entity.Phone, "+4915123456789"), check.Allow, jane)
	noError(t, g.s.CatchUp(t.Context()))
	noError(t, errOf2(g.s.ForgetSightings(t.Context(), g.customers[0].Account, jane)))
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
		return graphDump(t, g.s)
	}
	before := dump()
	for range 3 {
		g.check(3, e, check.Block)
	}
	g.check(3, other, check.Block, phone)
	mustHold(t, dump() != before, "the checks left the graph unchanged")
	noError(t, errOf2(g.s.ForgetAccountSightings(t.Context(), g.customers[3].Account)))
	expect(t, "after forgetting the account", dump(), before)
	for customer := range 3 {
		g.check(customer, e, check.Block)
	}
	noError(t, errOf2(g.s.ForgetSightings(t.Context(), g.customers[0].Account, e)))
	expect(t, "customers after forgetting one of three", g.aggregate(e).Customers, 0)
	noError(t, errOf2(g.s.ForgetSightings(t.Context(), "", e)))
	expect(t, "after forgetting the subject", dump(), before)
}

// Hosts and the database agree on the number of an account.
func TestGraphAccount(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	for _, id := range []string{"", publicAccount, "acct_1", "konto_ä"} {
		expect(t, "the number of "+id, one[int64](t, s, "SELECT graph_account(?)", id), graphAccount(id))
	}
	holds(t, graphAccount("acct_1") != graphAccount("acct_2"), "two accounts have the same number")
}
