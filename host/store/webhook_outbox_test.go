package store

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/facts/feed"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

// dbClock controls the now() that a store's statements see.
type dbClock struct{ conn *pgx.Conn }

// openWithClock opens a store whose now() advances only when the test says so.
func openWithClock(t *testing.T) (*Store, *dbClock) {
	t.Helper()
	at := postgrestest.Database(t)
	s := open(t, at, nil)
	c := &dbClock{session(t, at)}
	onEachNode(t, c.conn, "CREATE SCHEMA fake",
		"CREATE TABLE fake.clock AS SELECT timestamptz '2031-05-20 12:00:00Z' AS at",
		"CREATE FUNCTION fake.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT at FROM fake.clock'")
	u := must(url.Parse(at))(t)
	if onCitus() { // for the connections between nodes
		onEachNode(t, c.conn, "ALTER DATABASE "+strings.TrimPrefix(u.Path, "/")+
			" SET search_path = fake, pg_catalog, public")
	}
	q := u.Query()
	q.Set("search_path", "fake,pg_catalog,public")
	u.RawQuery = q.Encode()
	db := must(connect(u.String(), 4))(t)
	noError(t, s.db.Close())
	s.AuditLog.db, s.db, s.url = db, db, u.String()
	s.now = func() (now time.Time) {
		wantError(t, "error", db.NewRaw("SELECT now()").Scan(context.Background(), &now), nil)
		return now
	}
	s.hostNow = s.now
	return s, c
}

func (c *dbClock) advance(t *testing.T, d time.Duration) {
	t.Helper()
	onEachNode(t, c.conn, fmt.Sprintf("UPDATE fake.clock SET at = at + interval '%d microseconds'", d.Microseconds()))
}

func (c *dbClock) set(t *testing.T, now time.Time) {
	t.Helper()
	onEachNode(t, c.conn, "UPDATE fake.clock SET at = '"+now.Format(time.RFC3339Nano)+"'")
}

func outboxOf(t *testing.T, s *Store) *Outbox {
	t.Helper()
	o := must(s.NewOutbox())(t)
	t.Cleanup(func() { wantError(t, "closing outbox", o.Close(), nil) })
	return o
}

// withEndpoint opens a store whose now() stands still, with an outbox, a ledger and a caller with an endpoint.
func withEndpoint(t *testing.T) (*Store, *dbClock, *Outbox, *Ledger, check.Caller) {
	t.Helper()
	s, clock := openWithClock(t)
	return s, clock, outboxOf(t, s), ledgerOn(t, s, LedgerConfig{}), subscriber(t, s)
}

// subscriber creates an account with an endpoint.
func subscriber(t *testing.T, s *Store) check.Caller {
	t.Helper()
	caller := newCaller(t, s, plan(t, "pro", 100_000))
	must(s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"))(t)
	return caller
}

// blocked records n checks that trigger an event each, and returns their references in order.
func blocked(t *testing.T, l *Ledger, caller check.Caller, n int) (refs []string) {
	t.Helper()
	for range n {
		r := decided(caller, parse(t, entity.Domain, "example.org"), check.Block)
		noError(t, l.Append(t.Context(), r))
		refs = append(refs, r.Decision.Ref)
	}
	return refs
}

var all = webhook.ClaimOptions{MaxEvents: 100, MaxPerAccount: 100}

func claim(t *testing.T, o *Outbox, opts webhook.ClaimOptions) []webhook.Delivery {
	t.Helper()
	return must(o.Claim(t.Context(), opts))(t)
}

func claimOne(t *testing.T, o *Outbox) webhook.Delivery {
	t.Helper()
	claimed := claim(t, o, all)
	mustHold(t, len(claimed) == 1, "%d events were claimed, want 1", len(claimed))
	return claimed[0]
}

func claimNone(t *testing.T, o *Outbox, when string) {
	t.Helper()
	claimed := claim(t, o, all)
	mustHold(t, len(claimed) == 0, "%s: %+v was claimed", when, claimed)
}

// ended returns the outcome of an attempt that ends in the future, so none of a delay is over. Status 0 is no answer.
func ended(d webhook.Delivery, status int) webhook.Outcome {
	return webhook.Outcome{Chain: d.Chain, Ref: d.Ref, Attempt: d.Attempt, EndedAt: time.Now().Add(time.Hour),
		Took: 40 * time.Millisecond, Status: status, Delivered: status == 200,
		ResponseBody: []byte("answer")[:min(6, status)]}
}

func finish(t *testing.T, o *Outbox, e webhook.Outcome) (time.Duration, bool) {
	t.Helper()
	delay, retry, err := o.Finish(t.Context(), e)
	noError(t, err)
	return delay, retry
}

// state describes an event's delivery state.
func state(t *testing.T, s *Store, ref string) string {
	t.Helper()
	return one[string](t, s, `SELECT concat_ws(' ', state, attempts || ' begun', tries || ' ended',
			CASE WHEN leased_until IS NOT NULL THEN 'leased' END,
			CASE WHEN sealed_payload IS NOT NULL THEN 'held' END,
			'due in ' || round(extract(epoch FROM next_attempt_at - now()), 3))
		FROM webhook_events WHERE ref = ?`, ref)
}

// A running host without the generation of the secret in use leaves what it cannot read to others. It learns of the
// generation when it cannot open a value.
func TestHostWithoutTheKeysInUse(t *testing.T) {
	t.Parallel()
	at, from := postgrestest.Database(t), time.Now().Add(-time.Hour)
	sender, applier := open(t, at, nil), open(t, at, nil)
	s := storetest.Close(t, must(Open(t.Context(), Config{URL: at, Keys: storetest.NewRing('a', from),
		Logger: discard()}))(t))
	key := s.signer.Hold(s.keys.Current().SignSeed)
	noError(t, s.KeepKeyStatement(t.Context(), 2, must(s.signer.Introduce(key, audit.Records, from))(t)))
	caller := subscriber(t, s)
	blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, 2)
	must(s.Begin(t.Context(), caller, privacy.KindExport, about(parse(t, entity.Domain, "example.org"))))(t)
	noError(t, s.Subscribe(t.Context(), feed.Subscription{Name: "list", Kind: feed.Bad}))
	token := must(s.NewAddressLink(t.Context(), caller.Account, "owner@example.org"))(t)
	claimBoth := func(s *Store) string {
		return fmt.Sprint(must(s.ClaimRequest(t.Context()))(t) != nil, " ",
			must(s.ClaimSubscription(t.Context(), "", time.Hour))(t) != nil)
	}

	o := outboxOf(t, sender)
	wantError(t, "claiming events", errOf(o.Claim(t.Context(), all)), audit.ErrKeyElsewhere)
	exec(t, session(t, at), "UPDATE webhook_events SET leased_until = now(), next_attempt_at = now()")
	claimNone(t, o, "once it knows of the generation")
	apply := func() error { return errOf2(applier.applyContributions(t.Context(), func(int, time.Duration) {})) }
	wantError(t, "applying contributions", apply(), audit.ErrKeyElsewhere)
	noError(t, apply())
	expect(t, "a request and a list are claimed", claimBoth(sender), "false false")
	wantFailure(t, errOf(sender.ConfirmAddress(t.Context(), caller.Account, token)), "an unread address was confirmed")
	expect(t, "events for the host with the keys", len(claim(t, outboxOf(t, s), all)), 2)
	noError(t, s.CatchUp(t.Context()))
	expect(t, "checks in the graph", one[int](t, s, "SELECT sum(checks) FROM graph_sightings WHERE kind = 'domain'"), 2)
	expect(t, "a request and a list are claimed", claimBoth(s), "true true")
	must(s.ConfirmAddress(t.Context(), caller.Account, token))(t)
}

// When a host dies during an attempt, another continues, and the interrupted attempt does not count.
func TestAnotherHostContinues(t *testing.T) {
	t.Parallel()
	s, clock, dies, l, caller := withEndpoint(t)
	lives := outboxOf(t, s)
	ref := blocked(t, l, caller, 1)[0]
	number := 0
	for tries := range 4 {
		for range 2 {
			number++
			expect(t, "the claimed attempt", claimOne(t, dies).Attempt, number)
			clock.advance(t, webhook.AttemptLease-time.Microsecond)
			claimNone(t, lives, "within the lease")
			clock.advance(t, time.Microsecond)
		}
		number++
		d := claimOne(t, lives)
		expect(t, "the claimed attempt", d.Attempt, number)
		delay, retry := finish(t, lives, ended(d, 503))
		expect(t, fmt.Sprint("retry after ", tries+1), retry, tries < 3)
		clock.advance(t, delay)
	}
	expect(t, "the event", state(t, s, ref), "failed 12 begun 4 ended held")
	log := column(must(s.Attempts(t.Context(), caller.Account, ref))(t), func(a webhook.Attempt) string {
		return fmt.Sprint(a.Number, a.Status, a.TookMS != nil, a.ResponseBody)
	})
	noDiff(t, "log", listOf(12, func(i int) string {
		if i%3 == 2 {
			return fmt.Sprint(i+1, 503, true, "answer")
		}
		return fmt.Sprint(i+1, 0, false, "")
	}), log)
}

// A slow host reports its outcome after another host has claimed the event: a failure is ignored, and a success counts.
func TestLateOutcome(t *testing.T) {
	t.Parallel()
	s, clock, slow, l, caller := withEndpoint(t)
	other := outboxOf(t, s)
	for status, want := range map[int]string{
		500: "pending 2 begun 0 ended leased held due in 15.000", 200: "delivered 2 begun 1 ended",
	} {
		ref := blocked(t, l, caller, 1)[0]
		first := claimOne(t, slow)
		clock.advance(t, webhook.AttemptLease)
		second := claimOne(t, other)
		_, retry := finish(t, slow, ended(first, status))
		expect(t, "the slow host may retry", retry, false)
		expect(t, "the event", state(t, s, ref), want)
		// Both attempts are logged, even if one does not count.
		finish(t, other, ended(second, 200))
		attempts := must(s.Attempts(t.Context(), caller.Account, ref))(t)
		holds(t, len(attempts) == 2 && attempts[0].Status == status && attempts[1].Status == 200, "log: %+v", attempts)
		expect(t, "final state of the event", strings.Fields(state(t, s, ref))[0], "delivered")
	}

	// A success counts even if it is reported after the event has failed.
	ref := blocked(t, l, caller, 1)[0]
	first := claimOne(t, slow)
	clock.advance(t, webhook.AttemptLease)
	for range 4 {
		delay, _ := finish(t, other, ended(claimOne(t, other), 500))
		clock.advance(t, delay)
	}
	expect(t, "the event", state(t, s, ref), "failed 5 begun 4 ended held")
	finish(t, slow, ended(first, 200))
	expect(t, "the event", state(t, s, ref), "delivered 5 begun 5 ended")

	// An outcome is recorded again when the database's reply was lost, but it counts once.
	for status, want := range map[int]string{
		500: "pending 1 begun 1 ended held due in 1.000", 200: "delivered 1 begun 1 ended",
	} {
		ref := blocked(t, l, caller, 1)[0]
		d := claimOne(t, slow)
		for range 2 {
			finish(t, slow, ended(d, status))
		}
		expect(t, "the event", state(t, s, ref), want)
	}
}

func TestHostsNeverShareAnAttempt(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	const events, hosts = 200, 4
	records := decidedMany(subscriber(t, s), parse(t, entity.Domain, "example.org"), check.Review, events)
	noError(t, l.Append(t.Context(), records...))
	var mu sync.Mutex
	claimed := map[string]int{}
	var wg sync.WaitGroup
	for range hosts {
		o := outboxOf(t, s)
		wg.Go(func() {
			for done := false; !done && !t.Failed(); {
				got, err := o.Claim(context.Background(), webhook.ClaimOptions{MaxEvents: 7, MaxPerAccount: 7})
				wantError(t, "claiming", err, nil)
				mu.Lock()
				for _, d := range got {
					claimed[d.Ref]++
				}
				done = len(claimed) == events
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for ref, n := range claimed {
		expect(t, "claims of "+ref, n, 1)
	}
}

// An account with a long queue leaves room for others. Claims can exclude accounts or be restricted to some.
func TestClaimsAreFair(t *testing.T) {
	t.Parallel()
	s, clock, o, l, busy := withEndpoint(t)
	other, last := subscriber(t, s), subscriber(t, s)
	for _, c := range []struct {
		caller check.Caller
		events int
	}{{busy, 30}, {other, 2}, {last, 1}} {
		blocked(t, l, c.caller, c.events)
		clock.advance(t, time.Millisecond)
	}
	names := map[string]string{busy.Account: "busy", other.Account: "other", last.Account: "last"}
	counts := func(opts webhook.ClaimOptions) string {
		accounts := column(claim(t, o, opts), func(d webhook.Delivery) string { return names[d.AccountID] })
		slices.Sort(accounts)
		clock.advance(t, webhook.AttemptLease) // makes all due again
		return strings.Join(accounts, " ")
	}
	for name, test := range map[string]struct {
		opts webhook.ClaimOptions
		want string
	}{
		"one of each first":     {webhook.ClaimOptions{MaxEvents: 3, MaxPerAccount: 4}, "busy last other"},
		"then a second of each": {webhook.ClaimOptions{MaxEvents: 5, MaxPerAccount: 4}, "busy busy last other other"},
		"at most MaxPerAccount": {webhook.ClaimOptions{MaxEvents: 9, MaxPerAccount: 4},
			"busy busy busy busy last other other"},
		"one account is excluded": {webhook.ClaimOptions{MaxEvents: 9, MaxPerAccount: 4,
			Except: []string{busy.Account}}, "last other other"},
		"all accounts are excluded": {webhook.ClaimOptions{MaxEvents: 9, MaxPerAccount: 2,
			Except: []string{busy.Account, other.Account, last.Account}}, ""},
		"only one account": {webhook.ClaimOptions{MaxEvents: 100, MaxPerAccount: 2, Only: []string{other.Account},
			Except: []string{other.Account}}, "other other"},
	} {
		expect(t, name, counts(test.opts), test.want)
	}
}

func TestDeliveryMatchesTheEvent(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	o := outboxOf(t, s)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "starter", 100))
	secret := must(s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook?a=1"))(t)
	r := decided(caller, parse(t, entity.Domain, "example.org"), check.Review)
	noError(t, l.Append(t.Context(), r))
	_, body, err := r.Decision.Event()
	noError(t, err)
	d := claimOne(t, o)
	d.Late = 0
	want := webhook.Delivery{Ref: r.Decision.Ref, AccountID: caller.Account, Event: "check.review", Attempt: 1,
		Sequence: 1, Body: body, URL: "https://receiver.example/hook?a=1", Secrets: []string{secret}}
	noDiff(t, "delivery", want, d)
	finish(t, o, ended(d, 200))
	expect(t, "the event", state(t, s, d.Ref), "delivered 1 begun 1 ended")
	// The response may echo the entity.
	sealed := one[[]byte](t, s, "SELECT sealed_answer FROM webhook_attempts")
	holds(t, !strings.Contains(string(sealed), "answer"), "the response is stored in plain text")
}
