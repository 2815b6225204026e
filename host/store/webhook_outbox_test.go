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

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/postgres/postgrestest"
)

// dbClock is what a store takes for the database's clock.
type dbClock struct{ conn *pgx.Conn }

// openWithClock opens a store whose statements find a now() that stands still until the test moves it.
func openWithClock(t *testing.T) (*Store, *dbClock) {
	t.Helper()
	at := postgrestest.Database(t)
	s := open(t, at, nil)
	c := &dbClock{session(t, at)}
	exec(t, c.conn, "CREATE SCHEMA fake", "CREATE TABLE fake.clock AS SELECT timestamptz '2031-05-20 12:00:00Z' AS at",
		"CREATE FUNCTION fake.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT at FROM fake.clock'")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", "fake,pg_catalog,public")
	u.RawQuery = q.Encode()
	db, err := connect(u.String(), 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	s.db, s.url = db, u.String()
	return s, c
}

func (c *dbClock) advance(t *testing.T, d time.Duration) {
	t.Helper()
	exec(t, c.conn, fmt.Sprintf("UPDATE fake.clock SET at = at + interval '%d microseconds'", d.Microseconds()))
}

func outboxOf(t *testing.T, s *Store) *Outbox {
	t.Helper()
	o, err := s.NewOutbox()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Errorf("closing outbox: %v", err)
		}
	})
	return o
}

// subscriber makes an account with an endpoint.
func subscriber(t *testing.T, s *Store) check.Caller {
	t.Helper()
	caller := newCaller(t, s, plan(t, "pro", 100_000))
	if _, err := s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"); err != nil {
		t.Fatal(err)
	}
	return caller
}

// blocked has a ledger record checks that make an event each, and returns their references in order.
func blocked(t *testing.T, l *Ledger, caller check.Caller, n int) (refs []string) {
	t.Helper()
	for range n {
		r := decided(caller, parse(t, entity.Domain, "example.org"), check.Block)
		if err := l.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, r.Decision.Ref)
	}
	return refs
}

var all = Want{Events: 100, Account: 100}

func claim(t *testing.T, o *Outbox, w Want) []Delivery {
	t.Helper()
	claimed, err := o.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

func claimOne(t *testing.T, o *Outbox) Delivery {
	t.Helper()
	claimed := claim(t, o, all)
	if len(claimed) != 1 {
		t.Fatalf("%d events were claimed, want 1", len(claimed))
	}
	return claimed[0]
}

func claimNone(t *testing.T, o *Outbox, when string) {
	t.Helper()
	if claimed := claim(t, o, all); len(claimed) != 0 {
		t.Fatalf("%s: attempt %d of %s was claimed", when, claimed[0].Number, claimed[0].Ref)
	}
}

// ended is the end of an attempt just now, by a clock that cannot have gone on since.
func ended(d Delivery, status int) Ended {
	return Ended{Ref: d.Ref, Number: d.Number, At: time.Now().Add(time.Hour), Took: 40 * time.Millisecond,
		Status:    status,
		Delivered: status == 200, Answer: []byte("answer")}
}

func finish(t *testing.T, o *Outbox, e Ended) (time.Duration, bool) {
	t.Helper()
	in, again, err := o.Finish(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return in, again
}

// state reads an event's columns that say where it stands.
func state(t *testing.T, s *Store, ref string) string {
	t.Helper()
	return one[string](t, s, `SELECT concat_ws(' ', state, attempts || ' begun', tries || ' ended', CASE WHEN leased_until IS NOT NULL THEN 'leased' END,
		CASE WHEN sealed_payload IS NOT NULL THEN 'held' END, 'due in ' || round(extract(epoch FROM next_attempt_at - now()), 3)) FROM webhook_events WHERE ref = ?`, ref)
}

// Wherever a host dies, another carries on: the attempt that it had begun counts as none.
func TestAnotherHostCarriesOn(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	dies, lives := outboxOf(t, s), outboxOf(t, s)
	caller := subscriber(t, s)
	ref := blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, 1)[0]
	number := 0
	for tries := range 4 {
		for range 2 {
			number++
			if d := claimOne(t, dies); d.Number != number {
				t.Fatalf("attempt %d is claimed as %d", number, d.Number)
			}
			clock.advance(t, AttemptLease-time.Microsecond)
			claimNone(t, lives, "within the lease")
			clock.advance(t, time.Microsecond)
		}
		number++
		d := claimOne(t, lives)
		if d.Number != number {
			t.Fatalf("attempt %d is claimed as %d", number, d.Number)
		}
		in, again := finish(t, lives, ended(d, 503))
		if again != (tries < 3) {
			t.Errorf("after %d ended attempts and %d interrupted ones, another is due: %v", tries+1, number-tries-1,
				again)
		}
		clock.advance(t, in)
	}
	if got, want := state(t, s, ref), "failed 12 begun 4 ended held"; got != want {
		t.Errorf("the event is %q, want %q", got, want)
	}
	attempts, err := s.Attempts(t.Context(), caller.Account, ref)
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	for _, a := range attempts {
		log = append(log, fmt.Sprint(a.Number, a.Status, a.TookMS != nil, a.Answer))
	}
	var want []string
	for i := 1; i <= 12; i++ {
		if i%3 == 0 {
			want = append(want, fmt.Sprint(i, 503, true, "answer"))
		} else {
			want = append(want, fmt.Sprint(i, 0, false, ""))
		}
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// A host that was only slow speaks up after another has taken its event over.
func TestLateOutcome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		want   string
	}{
		"a failure counts for nothing": {500, "pending 2 begun 0 ended leased held due in 15.000"},
		"a success counts":             {200, "delivered 2 begun 1 ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := openWithClock(t)
			slow, other := outboxOf(t, s), outboxOf(t, s)
			caller := subscriber(t, s)
			ref := blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, 1)[0]
			first := claimOne(t, slow)
			clock.advance(t, AttemptLease)
			second := claimOne(t, other)
			if _, again := finish(t, slow, ended(first, test.status)); again {
				t.Error("the slow host is told to go on")
			}
			if got := state(t, s, ref); got != test.want {
				t.Errorf("the event is %q, want %q", got, test.want)
			}
			// Both are logged, whatever they count for.
			finish(t, other, ended(second, 200))
			attempts, err := s.Attempts(t.Context(), caller.Account, ref)
			if err != nil || len(attempts) != 2 || attempts[0].Status != test.status || attempts[1].Status != 200 {
				t.Errorf("log: %+v, %v", attempts, err)
			}
			if got, want := strings.Fields(state(t, s, ref))[0], "delivered"; got != want {
				t.Errorf("in the end the event is %s", got)
			}
		})
	}
}

// A success that is told after the event has failed without it counts all the same.
func TestSuccessAfterFailure(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	slow, other := outboxOf(t, s), outboxOf(t, s)
	caller := subscriber(t, s)
	ref := blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, 1)[0]
	first := claimOne(t, slow)
	clock.advance(t, AttemptLease)
	for range 4 {
		in, _ := finish(t, other, ended(claimOne(t, other), 500))
		clock.advance(t, in)
	}
	if got, want := state(t, s, ref), "failed 5 begun 4 ended held"; got != want {
		t.Fatalf("the event is %q, want %q", got, want)
	}
	finish(t, slow, ended(first, 200))
	if got, want := state(t, s, ref), "delivered 5 begun 5 ended"; got != want {
		t.Errorf("the event is %q, want %q", got, want)
	}
}

// An outcome is recorded again when the answer to its statement was lost. It counts once.
func TestOutcomeCountsOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		want   string
	}{
		"a failure": {500, "pending 1 begun 1 ended held due in 1.000"},
		"a success": {200, "delivered 1 begun 1 ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := openWithClock(t)
			o := outboxOf(t, s)
			ref := blocked(t, ledgerOn(t, s, LedgerConfig{}), subscriber(t, s), 1)[0]
			d := claimOne(t, o)
			for range 2 {
				finish(t, o, ended(d, test.status))
			}
			if got := state(t, s, ref); got != test.want {
				t.Errorf("the event is %q, want %q", got, test.want)
			}
		})
	}
}

func TestHostsNeverShareAnAttempt(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	l := ledgerOn(t, s, LedgerConfig{})
	const events, hosts = 200, 4
	caller := subscriber(t, s)
	var records []check.Record
	for range events {
		records = append(records, decided(caller, parse(t, entity.Domain, "example.org"), check.Review))
	}
	if err := l.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	claimed := map[string]int{}
	var wg sync.WaitGroup
	for range hosts {
		o := outboxOf(t, s)
		wg.Go(func() {
			for {
				got, err := o.Claim(context.Background(), Want{Events: 7, Account: 7})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, d := range got {
					claimed[d.Ref]++
				}
				done := len(claimed) == events
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	for ref, n := range claimed {
		if n != 1 {
			t.Errorf("%s was claimed %d times", ref, n)
		}
	}
}

// An account with a long queue leaves room for those behind it, and accounts can be left out or singled out.
func TestClaimsAreFair(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	o := outboxOf(t, s)
	l := ledgerOn(t, s, LedgerConfig{})
	busy, other, last := subscriber(t, s), subscriber(t, s), subscriber(t, s)
	for _, c := range []struct {
		caller check.Caller
		events int
	}{{busy, 30}, {other, 2}, {last, 1}} {
		blocked(t, l, c.caller, c.events)
		clock.advance(t, time.Millisecond)
	}
	names := map[string]string{busy.Account: "busy", other.Account: "other", last.Account: "last"}
	counts := func(w Want) string {
		var who []string
		for _, d := range claim(t, o, w) {
			who = append(who, names[d.Account])
		}
		slices.Sort(who)
		clock.advance(t, AttemptLease) // all are due again
		return strings.Join(who, " ")
	}
	for name, test := range map[string]struct {
		want Want
		got  string
	}{
		"one of each first":       {Want{Events: 3, Account: 4}, "busy last other"},
		"then a second of each":   {Want{Events: 5, Account: 4}, "busy busy last other other"},
		"no more than its share":  {Want{Events: 100, Account: 4}, "busy busy busy busy last other other"},
		"one account is left out": {Want{Events: 100, Account: 4, Not: []string{busy.Account}}, "last other other"},
		"one account alone": {Want{Events: 100, Account: 2, Only: []string{other.Account},
			Not: []string{other.Account}}, "other other"},
		"none": {Want{Events: 100, Account: 2, Not: []string{busy.Account, other.Account,
			last.Account}}, ""},
	} {
		if got := counts(test.want); got != test.got {
			t.Errorf("%s: %q, want %q", name, got, test.got)
		}
	}
}

func TestDeliveryCarriesWhatTheEventWas(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	o := outboxOf(t, s)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "starter", 100))
	secret, err := s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook?a=1")
	if err != nil {
		t.Fatal(err)
	}
	r := decided(caller, parse(t, entity.Domain, "example.org"), check.Review)
	if err := l.Append(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	_, body, err := r.Decision.Event()
	if err != nil {
		t.Fatal(err)
	}
	d := claimOne(t, o)
	d.Late = 0
	want := Delivery{Ref: r.Decision.Ref, Account: caller.Account, Event: "check.review", Number: 1, Sequence: 1,
		Body: body,
		URL:  "https://receiver.example/hook?a=1", Secrets: []string{secret}}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
	finish(t, o, ended(d, 200))
	if got, want := state(t, s, d.Ref), "delivered 1 begun 1 ended"; got != want {
		t.Errorf("the event is %q, want %q: its payload must go with its delivery", got, want)
	}
	// The answer may echo the entity.
	if sealed := one[[]byte](t, s, "SELECT sealed_answer FROM webhook_attempts"); strings.Contains(string(sealed),
		"answer") {
		t.Error("the answer stands open in the database")
	}
}

// An event that was altered in the database holds up nothing.
func TestAlteredEventFails(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	o := outboxOf(t, s)
	refs := blocked(t, ledgerOn(t, s, LedgerConfig{}), subscriber(t, s), 2)
	if _, err := s.db.NewRaw(`UPDATE webhook_events SET sealed_payload = '\x00' WHERE ref = ?`,
		refs[0]).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := claimOne(t, o); d.Ref != refs[1] {
		t.Errorf("%s was claimed", d.Ref)
	}
	if got := state(t, s, refs[0]); !strings.HasPrefix(got, "failed") || strings.Contains(got, "held") {
		t.Errorf("the altered event is %q", got)
	}
}

// An attempt whose event was erased meanwhile has nothing to be recorded in.
func TestAttemptOfAnErasedEvent(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	o := outboxOf(t, s)
	blocked(t, ledgerOn(t, s, LedgerConfig{}), subscriber(t, s), 1)
	d := claimOne(t, o)
	if _, err := s.db.NewRaw("DELETE FROM webhook_events").Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, again := finish(t, o, ended(d, 500)); again {
		t.Error("the attempt is to be repeated")
	}
}
