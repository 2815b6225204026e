package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/host/access/keyring"
	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/entity"
	"assay/host/facts/reputation"
	"assay/host/store/storetest"
)

// graphDump returns the whole graph, without the waiting contributions.
func graphDump(t *testing.T, s *Store) string {
	t.Helper()
	return one[string](t, s, `SELECT
		coalesce((SELECT string_agg(g::text, E'\n' ORDER BY node, account) FROM graph_sightings AS g), '') ||
		coalesce((SELECT string_agg(g::text, E'\n' ORDER BY node, other, account) FROM graph_edges AS g), '')`)
}

// waits returns the number of contributions that are not applied.
func waits(t *testing.T, s *Store) int {
	t.Helper()
	return one[int](t, s, "SELECT coalesce(sum(items), 0) FROM graph_contributions")
}

// read returns what the applier of a host would write: it has read, and not written yet.
func read(t *testing.T, s *Store) (write func() bool) {
	t.Helper()
	waiting := must(s.waitingContributions(t.Context()))(t)
	mustHold(t, len(waiting) == 1, "%d chains have contributions, want 1", len(waiting))
	p := waiting[0]
	forgotten := must(readForgotten(t.Context(), s.db, p.Chain))(t)
	var rows []contributionRow
	noError(t, s.db.NewRaw("SELECT seq, items, added FROM graph_contributions WHERE chain = ? ORDER BY seq", p.Chain).
		Scan(t.Context(), &rows))
	g := newSightings()
	for _, row := range rows {
		bad := s.addUp(g, row, forgotten)
		mustHold(t, bad == nil, "unreadable: %v", bad)
	}
	return func() bool {
		t.Helper()
		return must(s.writeGraph(t.Context(), p, p.Last, len(rows), g, nil))(t)
	}
}

// Every contribution counts exactly once, however many hosts apply them while others are recorded.
func TestContributionsCountOnce(t *testing.T) {
	t.Parallel()
	const hosts, callers, each = 3, 4, 30
	g := newGraphTest(t, callers)
	ctx, cancel := context.WithCancel(t.Context())
	var appliers sync.WaitGroup
	applied := make([]int, hosts)
	for i := range hosts {
		s := open(t, g.s.url, g.s.now)
		appliers.Go(func() {
			for ctx.Err() == nil {
				n, _, err := s.applyContributions(ctx, func(int, time.Duration) {})
				holds(t, err == nil || ctx.Err() != nil, "%v", err)
				applied[i] += n
			}
		})
	}
	e := g.domain("shop.example.org")
	noError(t, errors.Join(concurrently(callers, func(i int) error {
		for range each {
			if err := g.l.Append(t.Context(), decided(g.customers[i], e, check.Block)); err != nil {
				return err
			}
		}
		return nil
	})...))
	noError(t, g.s.CatchUp(t.Context()))
	cancel()
	appliers.Wait()
	expect(t, "contributions left", waits(t, g.s), 0)
	for _, c := range g.customers {
		expect(t, "blocked checks of a customer", one[int](t, g.s,
			"SELECT blocked FROM graph_sightings WHERE account = ? AND kind = 'domain'", graphAccount(c.Account)), each)
		expect(t, "links of a customer", one[int](t, g.s,
			"SELECT sum(checks) FROM graph_edges WHERE account = graph_account(?)", c.Account), 2*each)
	}
	expect(t, "the last applied record", one[int](t, g.s, "SELECT sum(applied) FROM graph_progress"), callers*each)
}

// A host that stops between reading and applying delays no other, and nothing is applied twice.
func TestStoppedApplierHoldsNothing(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 1)
	e := g.domain("shop.example.org")
	g.check(0, e, check.Allow)
	write := read(t, g.s)
	g.check(0, e, check.Block)
	noError(t, open(t, g.s.url, g.s.now).CatchUp(t.Context()))
	before := graphDump(t, g.s)
	holds(t, !write(), "contributions were applied twice")
	expect(t, "the graph", graphDump(t, g.s), before)
	expect(t, "checks", one[int](t, g.s, "SELECT checks FROM graph_sightings WHERE kind = 'domain'"), 2)

	// A stop with the statement on its way.
	g.check(0, e, check.Allow)
	proxy := proxied(t, g.s.url)
	stopped := open(t, proxy.URL, g.s.now)
	reached := proxy.HoldBack(containing("FROM graph_contributions WHERE"), func([]byte) bool { return true })
	done := async(func() error { return stopped.CatchUp(t.Context()) })
	receive(t, "the applier reads", reached)
	noError(t, g.s.CatchUp(t.Context()))
	expect(t, "contributions left", waits(t, g.s), 0)
	proxy.Disconnect()
	if err := <-done; err != nil {
		t.Log(err) // its connection was cut
	}
	expect(t, "checks", one[int](t, g.s, "SELECT checks FROM graph_sightings WHERE kind = 'domain'"), 3)
}

// An item or a batch that cannot be read is set aside, and delays nothing.
func TestUnreadableContributions(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 1)
	noError(t, g.l.Append(t.Context(), decidedMany(g.customers[0], g.domain("one.example"), check.Allow, 3)...))
	g.check(0, g.domain("two.example"), check.Allow)
	g.check(0, g.domain("three.example"), check.Allow)
	// The second item of the first batch, and the length of the second batch's item.
	exec(t, session(t, g.s.url), `UPDATE graph_contributions SET added =
			set_byte(added, length(added) / 2, get_byte(added, length(added) / 2) # 1) WHERE seq = 3`,
		"UPDATE graph_contributions SET added = set_byte(added, 0, 1) WHERE seq = 4")
	noError(t, g.s.CatchUp(t.Context()))
	checks := func(name string) int {
		return one[int](t, g.s, "SELECT coalesce(sum(checks), 0) FROM graph_sightings WHERE node = ?",
			g.s.node(subjectOf(g.domain(name)).Entity))
	}
	for name, want := range map[string]int{"one.example": 2, "two.example": 0, "three.example": 1} {
		expect(t, "checks of "+name, checks(name), want)
	}
	expect(t, "records set aside", one[string](t, g.s,
		"SELECT string_agg(format('%s-%s', chain, seq), ' ' ORDER BY seq) FROM graph_unreadable"), "0-2 0-4")
	expect(t, "contributions left", waits(t, g.s), 0)
}

// A host that applies contributions waits only briefly for a locked row of the graph.
func TestLockedSightingFailsTheApplier(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "workers do not get the function's lock_timeout")
	g := newGraphTest(t, 1)
	e := g.domain("shop.example.org")
	g.check(0, e, check.Allow)
	noError(t, g.s.CatchUp(t.Context()))
	conn := session(t, g.s.url)
	exec(t, conn, "BEGIN")
	must(conn.Exec(t.Context(), "SELECT FROM graph_sightings WHERE node = $1 FOR UPDATE",
		g.s.node(reputation.Node{Kind: "domain", Value: e.Value})))(t)
	g.check(0, e, check.Allow)
	expect(t, "the reason", sqlState(g.s.CatchUp(t.Context())), lockNotAvailable)
	exec(t, conn, "COMMIT")
	noError(t, g.s.CatchUp(t.Context()))

	// A host whose clock is behind does not make the graph older. Counters stop at the maximum of their type.
	exec(t, conn, "TRUNCATE graph_sightings, graph_edges")
	for _, verdict := range []check.Verdict{check.Block, check.Review} {
		g.check(0, e, verdict)
		noError(t, g.s.CatchUp(t.Context()))
		g.clock.Add(-time.Second)
	}
	expect(t, "the earliest last time", one[time.Time](t, g.s, `SELECT least((SELECT min(last_seen)
		FROM graph_sightings), (SELECT min(last_seen) FROM graph_edges))`).UTC(), noon)
	exec(t, session(t, g.s.url),
		"UPDATE graph_sightings SET checks = 2147483646, blocked = 2147483647, reviewed = 2147483647",
		"UPDATE graph_edges SET checks = 2147483647")
	noError(t, g.l.Append(t.Context(), decidedMany(g.customers[0], e, check.Block, 5)...))
	g.check(0, e, check.Review)
	noError(t, g.s.CatchUp(t.Context()))
	expect(t, "the lowest counter", one[int](t, g.s, `SELECT least((SELECT min(checks) FROM graph_sightings),
		(SELECT min(checks) FROM graph_edges),
		(SELECT min(least(blocked, reviewed)) FROM graph_sightings WHERE kind = 'domain'))`), math.MaxInt32)
}

// What an account reports about a check counts even if the check is not in the graph yet.
func TestVoteBeforeTheSighting(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 3)
	e := g.domain("shop.example.org")
	for customer := range 3 {
		r := decided(g.customers[customer], e, check.Allow)
		noError(t, g.l.Append(t.Context(), r))
		must(g.s.KeepFeedback(t.Context(), g.customers[customer],
			feedback.Report{Ref: r.Decision.Ref, Label: feedback.Fraud}, nil))(t)
	}
	if got := g.aggregate(e); got.Customers != 3 || got.BlockedShare != 1 || !near(got.Seen, 3) {
		t.Errorf("%+v, want 3 customers with a share of 1", got)
	}
	// A report about what was forgotten creates nothing.
	r := decided(g.customers[0], g.domain("other.example"), check.Allow)
	noError(t, g.l.Append(t.Context(), r))
	noError(t, errOf(g.s.db.ExecContext(t.Context(), "SELECT graph_forget_pending(?, '')", g.customers[0].Account)))
	must(g.s.KeepFeedback(t.Context(), g.customers[0],
		feedback.Report{Ref: r.Decision.Ref, Label: feedback.Fraud}, nil))(t)
	noError(t, g.s.CatchUp(t.Context()))
	expect(t, "sightings of the forgotten check", rowsOf(t, g.s,
		"graph_sightings WHERE node = ?", g.s.node(subjectOf(r.Entity).Entity)), 0)
}

// The times of an entity's latest checks: the account's own exactly, those of all only if three customers have some.
func TestHistory(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 4)
	e := g.domain("shop.example.org")
	own := func(customer int) string {
		t.Helper()
		noError(t, g.s.CatchUp(t.Context()))
		subject := subjectOf(e)
		subject.Account = g.customers[customer].Account
		a := must(g.s.GraphAggregates(t.Context(), []reputation.Subject{subjectOf(e), subject}))(t)
		holds(t, a[0].Own.Day == 0 && a[0].Own.Since.IsZero(), "nobody's own history is %+v", a[0].Own)
		return fmt.Sprintf("%d/%d of all, %d/%d own since %s", a[1].Hour, a[1].Day, a[1].Own.Hour, a[1].Own.Day,
			a[1].Own.Since.Format("02 15:04"))
	}
	expect(t, "before any check", own(0), "0/0 of all, 0/0 own since 01 00:00")
	g.check(0, e, check.Allow)
	g.check(0, e, check.Allow)
	g.check(1, e, check.Allow)
	expect(t, "two customers", own(0), "0/0 of all, 2/2 own since 20 12:00")
	g.clock.Add(2 * time.Hour)
	g.check(2, e, check.Allow)
	g.check(0, g.domain("other.example"), check.Allow, e) // a linked entity was checked too
	expect(t, "three customers, two of them this hour", own(0), "0/5 of all, 1/3 own since 20 12:00")
	expect(t, "a customer without checks", own(3), "0/5 of all, 0/0 own since 01 00:00")
	noError(t, g.l.Append(t.Context(), atAll(decidedMany(g.customers[1], e, check.Allow, 100), g.clock.Now())...))
	expect(t, "a hundred checks", own(1), "12/14 of all, 64/64 own since 20 12:00")
	asked := subjectOf(e)
	asked.Account = g.customers[1].Account
	a := must(g.s.GraphAggregates(t.Context(), []reputation.Subject{asked, subjectOf(g.domain("other.example"))}))(t)
	expect(t, "nobody's own history after that of an account", a[1].Own, reputation.History{})
	g.clock.Add(23 * time.Hour)
	expect(t, "the next day", own(1), "0/12 of all, 0/64 own since 20 12:00")
	g.clock.Add(25 * time.Hour)
	expect(t, "two days later", own(1), "0/0 of all, 0/0 own since 20 12:00")
	g.clock.Add(sightingMaxAge)
	expect(t, "months later", own(1), "0/0 of all, 0/0 own since 01 00:00")
	public := subjectOf(e)
	public.Account = publicAccount
	noError(t, g.l.Append(t.Context(), at(decided(g.s.PublicCaller(), e, check.Allow), g.clock.Now())))
	noError(t, g.s.CatchUp(t.Context()))
	a = must(g.s.GraphAggregates(t.Context(), []reputation.Subject{subjectOf(e), public}))(t)
	expect(t, "checks in the history of callers without a key", a[1].Own.Day, 0)
}

// A projection applies what this host recorded at once, and goes on after an outage.
func TestProjectionRuns(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 1)
	proxy := proxied(t, g.s.url)
	applied := make(chan int, 10)
	p := open(t, proxy.URL, g.s.now).NewProjection(ProjectionConfig{Interval: time.Millisecond,
		OnApplied: func(checks int, lag time.Duration) {
			holds(t, lag > 0 && lag <= time.Minute, "a lag of %v", lag)
			applied <- checks
		}})
	storetest.Background(t, p.Run)
	noError(t, g.l.Append(t.Context(), decidedMany(g.customers[0], g.domain("shop.example"), check.Allow, 3)...))
	p.Hint()
	expect(t, "checks applied", receive(t, "the first batch", applied), 3)
	proxy.Set(nil, true)
	g.check(0, g.domain("shop.example"), check.Allow)
	until(t, "the projection to fail", func() bool { return proxy.Refused.Load() > 0 })
	proxy.Set(nil, false)
	expect(t, "checks applied", receive(t, "the batch after the outage", applied), 1)
}

// contributed returns the contribution of a check with linked entities and observed parents.
func contributed(t testing.TB) (contribution, check.Record) {
	t.Helper()
	r := decided(check.Caller{Account: "acct_1"}, parse(t, entity.Email, "jane@mail.example.co.uk"), check.Review)
	r.Linked = []entity.Entity{parse(t, entity.Domain, "shop.example.co.uk"), parse(t, entity.Phone, "+4915123456789"),
		parse(t, entity.IBAN, "DE89370400440532013000")}
	r.LookedUp = entity.Facts{"dns.ns": "ns1.hosting.example", "dns.a": "198.51.100.7"}
	return contributionOf(newNodeNames(testRing), "acct_1", r), r
}

// A contribution can be read again, and only by holders of the secret.
func TestContributionIsSealed(t *testing.T) {
	t.Parallel()
	want, r := contributed(t)
	item, scored := newContribution(testRing, "acct_1", r)
	got := must(openContribution(testRing, item))(t)
	holds(t, bytes.Equal(got.encode(), want.encode()) && got.account == graphAccount("acct_1") &&
		got.verdict == check.Review && got.at.Equal(r.Decision.At) && len(got.links) == len(want.links),
		"%+v, want %+v", got, want)
	holds(t, bytes.Equal(scored, got.nodes[0].node) && got.nodes[0].kind == "email", "the scored node is %+v",
		got.nodes[0])
	for _, kind := range nodeKinds {
		holds(t, slices.ContainsFunc(got.nodes, func(n nodeSeen) bool { return n.kind == kind }), "no node is a %s",
			kind)
	}
	other := must(keyring.Create(t.TempDir() + "/secret"))(t)
	wantFailure(t, errOf(openContribution(other, item)), "another secret opens it")
	for i := range item {
		altered := bytes.Clone(item)
		altered[i] ^= 1
		wantFailure(t, errOf(openContribution(testRing, altered)), "it opens with byte %d altered", i)
	}
}

// The format does not change: contributions wait in the database while hosts are replaced.
func TestContributionFormat(t *testing.T) {
	t.Parallel()
	a, b := bytes.Repeat([]byte{0xaa}, nodeBytes), bytes.Repeat([]byte{0xbb}, nodeBytes)
	c := contribution{account: 0x0708090a0b0c0d0e, at: time.UnixMilli(0x0102030405).UTC(), verdict: check.Block,
		nodes: []nodeSeen{{"domain", a}, {"registrable", b}}, links: [][2]int{{0, 1}}}
	want := slices.Concat([]byte{1, 2, 0, 0, 0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 2, 0}, a, []byte{4}, b,
		[]byte{1, 0, 1})
	got := c.encode()
	holds(t, bytes.Equal(got, want), "encoded as %x, want %x", got, want)
}

// FuzzDecodeContribution checks that any bytes are either refused or decoded into what encodes to the same meaning.
func FuzzDecodeContribution(f *testing.F) {
	c, _ := contributed(f)
	f.Add(c.encode())
	f.Add([]byte{})
	head := append([]byte{contributionVersion}, make([]byte, headBytes-1)...)
	f.Add(append(head, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeContribution(b)
		if err != nil {
			return
		}
		for _, l := range c.links {
			mustHold(t, max(l[0], l[1]) < len(c.nodes), "a link to node %v of %d", l, len(c.nodes))
		}
		again, err := decodeContribution(c.encode())
		mustHold(t, err == nil && bytes.Equal(again.encode(), c.encode()), "%v: %+v becomes %+v", err, c, again)
	})
}
