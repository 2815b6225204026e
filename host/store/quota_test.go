package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/access/apikey"
	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
)

// appendAll appends the records concurrently, spread over the ledgers, and returns their errors.
func appendAll(t *testing.T, records []check.Record, ledgers ...*Ledger) []error {
	t.Helper()
	return concurrently(len(records), func(i int) error {
		return ledgers[i%len(ledgers)].Append(t.Context(), records[i])
	})
}

func TestQuotaIsExactAcrossHosts(t *testing.T) {
	t.Parallel()
	const quota = 50
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	// Small batches make the two ledgers alternate.
	one, two := ledgerOn(t, a, LedgerConfig{Batch: 16}), ledgerOn(t, b, LedgerConfig{Batch: 16})
	first := newCaller(t, a, plan(t, "starter", quota))
	second, _ := newKey(t, b, first.Account) // the account's keys share the quota
	other := newCaller(t, a, plan(t, "starter", 1000))
	var records, others []check.Record
	for i := range 200 {
		records = append(records, allowed(t, []check.Caller{first, second, second, first}[i%4]))
		if i%10 == 0 {
			others = append(others, allowed(t, other))
		}
	}
	errs := appendAll(t, append(records, others...), one, two)
	passed := 0
	for i, err := range errs[:len(records)] {
		var over *check.QuotaError
		if err == nil {
			passed++
			continue
		}
		holds(t, errors.As(err, &over) && over.Quota == quota && over.ResetAt == period(time.Now()).AddDate(0, 1, 0),
			"append: %v", err)
		expect(t, "records of a rejected check", recorded(t, a, records[i].Decision.Ref), 0)
	}
	expect(t, "checks that passed", passed, quota)
	noError(t, errors.Join(errs[len(records):]...))
	verifyLedger(t, a)
}

// Quotas are counted by the database's clock and calendar months, UTC, whatever the host's clock says.
func TestQuotaCountsCalendarMonths(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "free", 1))
	for _, step := range []struct{ name, at, reset string }{ // without a reset, the check passes
		{"last microsecond of the year", "2031-12-31T23:59:59.999999Z", ""},
		{"first instant of the next", "2032-01-01T00:00:00Z", ""},
		{"December is used up", "2031-12-31T23:59:59.998Z", "2032-01-01T00:00:00Z"},
		{"January is used up", "2032-01-31T23:59:59.999Z", "2032-02-01T00:00:00Z"},
		{"leap day", "2032-02-29T12:00:00Z", ""},
		{"February is used up", "2032-02-01T00:00:00Z", "2032-03-01T00:00:00Z"},
		{"still February in UTC", "2032-03-01T01:00:00+02:00", "2032-03-01T00:00:00Z"},
		{"March", "2032-03-01T02:00:00+02:00", ""},
	} {
		clock.set(t, must(time.Parse(time.RFC3339Nano, step.at))(t))
		err := l.Append(t.Context(), allowed(t, caller))
		var over *check.QuotaError
		if errors.As(err, &over) {
			expect(t, step.name, over.ResetAt.Format(time.RFC3339Nano), step.reset)
		} else {
			holds(t, err == nil && step.reset == "", "%s: %v, want a quota error", step.name, err)
		}
	}
	expect(t, "used", one[string](t, s,
		"SELECT string_agg(concat(period, ' ', used), ', ' ORDER BY period) FROM quota_usage"),
		"2031-12-01 1, 2032-01-01 1, 2032-02-01 1, 2032-03-01 1")
	verifyLedger(t, s)
}

// A refused call adds no event, use of its key or contribution, although others of its batch are recorded.
func TestRefusedCallLeavesNothing(t *testing.T) {
	t.Parallel()
	s, l, other := newVerified(t, nil, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1))
	must(s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"))(t)
	blocked := decidedMany(caller, parse(t, entity.Domain, "example.org"), check.Block, 2)
	errs := must(send(t, l, []byte("batch"), prepared(t, l, allowedMany(t, other, 1), blocked)))(t)
	holds(t, errs[0] == nil && errs[1] != nil, "errors %v, want one of the second call", errs)
	expect(t, "events", rowsOf(t, s, "webhook_events"), 0)
	expect(t, "contributions to the graph", waits(t, s), 1)
	expect(t, "used keys", one[string](t, s, "SELECT string_agg(key_id, ' ') FROM key_uses"), other.Key)

	// Nor does a call whose account removed its endpoint after the payload was prepared add an event.
	late := prepared(t, l, blocked[:1])
	noError(t, s.RemoveEndpoint(t.Context(), caller.Account))
	noError(t, must(send(t, l, []byte("late"), late))(t)[0])
	expect(t, "events", rowsOf(t, s, "webhook_events"), 0)
	verifyLedger(t, s)

	// A call that does not fit is refused whole, and smaller ones after it are recorded.
	caller, other = newCaller(t, s, plan(t, "pro", 10)), newCaller(t, s, plan(t, "pro", 10))
	calls := append(column([]int{11, 4, 7, 5, 2, 1, 1}, func(n int) []check.Record {
		return allowedMany(t, caller, n)
	}), allowedMany(t, other, 10))
	errs = must(send(t, l, []byte("smaller"), prepared(t, l, calls...)))(t)
	for i, want := range []int{10, -1, 6, -1, 1, -1, 0, -1} { // what is left of the quota; -1: recorded
		var over *check.QuotaError
		left := -1
		if errors.As(errs[i], &over) {
			left = over.Left
		}
		expect(t, "what is left", left, want)
		if i == 2 {
			wantErrorText(t, "a call that does not fit", over, "the batch needs 7 checks, but the monthly quota of "+
				"10 has only 6 left; it resets on "+period(time.Now()).AddDate(0, 1, 0).Format(time.DateOnly))
		}
		expect(t, "records of a call's last check", recorded(t, s, calls[i][len(calls[i])-1].Decision.Ref),
			map[bool]int{true: 1}[want < 0])
	}
	exec(t, session(t, s.url), "UPDATE accounts SET quota = 5 WHERE plan = 'pro'")
	var over *check.QuotaError
	if err := l.Append(t.Context(), allowed(t, other)); !errors.As(err, &over) || over.Left != 0 {
		t.Errorf("after the quota was lowered below what is used: %v, want a quota error with nothing left", err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 23, 0, 0, 0, time.UTC)
	s, _ := openWithClock(t)
	s.now = func() time.Time { return now }
	l := ledgerOn(t, s, LedgerConfig{})
	caller, other := newCaller(t, s, plan(t, "starter", 150)), newCaller(t, s, plan(t, "pro", 1500))
	e := parse(t, entity.Domain, "example.com")
	for _, c := range []struct {
		caller  check.Caller
		verdict check.Verdict
		age     time.Duration
	}{
		{caller, check.Block, 49 * time.Hour}, {caller, check.Allow, 24 * time.Hour},
		{caller, check.Review, 24 * time.Hour},
		{other, check.Block, time.Hour}, {caller, check.Block, 22 * time.Hour}, {caller, check.Allow, 0},
		{caller, check.Allow, 0},
	} {
		noError(t, l.Append(t.Context(), at(decided(c.caller, e, c.verdict), now.Add(-c.age))))
	}
	day := func(d int) time.Time { return time.Date(2031, 5, d, 0, 0, 0, 0, time.UTC) }
	count := func(d, verdict string, checks int) decision.Count {
		return decision.Count{Date: "2031-05-0" + d, Key: caller.Key, Type: "domain", Verdict: verdict, Checks: checks}
	}
	want := []decision.Count{count("5", "allow", 1), count("5", "review", 1), count("6", "allow", 2),
		count("6", "block", 1)}
	noDiff(t, "counts", want, must(s.CountChecks(t.Context(), caller, day(5), day(7)))(t))
	var err error
	for err == nil { // one account's share of the slots for counts
		_, err = s.counting.Take(other.Account)
	}
	_, err = s.countChecks(endedContext(t), requester{AccountID: other.Account}, day(5), day(7), byDay)
	wantError(t, "more counts at once", err, admission.ErrShare)
	noDiff(t, "without the last day", want[:2], must(s.CountChecks(t.Context(), caller, day(5), day(6)))(t))
	u, err := s.Usage(t.Context(), caller.Account)
	holds(t, err == nil && u.Used == 6 && u.Plan.Quota == 150 &&
		u.ResetAt.Equal(time.Date(2031, 6, 1, 0, 0, 0, 0, time.UTC)), "Usage = %+v, %v", u, err)
	month := func(m time.Month) time.Time { return time.Date(2031, m, 1, 0, 0, 0, 0, time.UTC) }
	forecast := 44 // 6, and 25 days and an hour more like the two before
	noDiff(t, "this month", &decision.Usage{Month: "2031-05", Quota: 150, Used: 6, Forecast: &forecast,
		Counts: append([]decision.Count{count("4", "block", 1)}, want...)},
		must(s.MonthlyUsage(t.Context(), caller, month(time.May)))(t))
	noDiff(t, "another month", &decision.Usage{Month: "2031-04", Quota: 150, Counts: []decision.Count{}},
		must(s.MonthlyUsage(t.Context(), check.Caller{Account: caller.Account}, month(time.April)))(t))
	noError(t, l.Append(t.Context(), at(decided(caller, e, check.Allow), now.Add(-24*time.Hour))))
	noError(t, l.Append(t.Context(), at(decided(caller, e, check.Allow), now)))
	late := func() (counts string) {
		for _, c := range must(s.MonthlyUsage(t.Context(), caller, month(time.May)))(t).Counts {
			if c.Verdict == "allow" {
				counts += fmt.Sprintf("%d on %s, ", c.Checks, c.Date)
			}
		}
		return counts
	}
	expect(t, "counted at once", late(), "1 on 2031-05-05, 3 on 2031-05-06, ")
	now = now.Add(pastAge)
	expect(t, "counted later", late(), "2 on 2031-05-05, 3 on 2031-05-06, ")
	now = now.AddDate(0, 0, 26) // on the first day of June, the forecast looks at May
	noDiff(t, "days before the month", []decision.Count{},
		must(s.MonthlyUsage(t.Context(), caller, month(time.June)))(t).Counts)
	wantError(t, "usage of an unknown account", errOf(s.Usage(t.Context(), "acct_none")), billing.ErrNoAccount)
}

func TestSettleUses(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	settle := func(s *Store, accepted, want map[string]int64) {
		t.Helper()
		noDiff(t, "uses", want, must(s.SettleUses(t.Context(), accepted))(t))
	}
	type uses = map[string]int64
	settle(a, uses{"key 1": 3, "key 2": 0}, uses{"key 1": 3})
	settle(b, uses{"key 1": 4, "network 192.0.2.0/24": 1}, uses{"key 1": 7, "network 192.0.2.0/24": 1})
	settle(a, uses{"key 1": 0, "network 192.0.2.0/24": 2}, uses{"key 1": 7, "network 192.0.2.0/24": 3})
	expect(t, "names that are hashes", rowsOf(t, a, "rate_uses WHERE name ~ '^[0-9a-f]{32}$'"), 2)
	expect(t, "rows", rowsOf(t, a, "rate_uses"), 2)
	noError(t, errOf(a.db.Exec("UPDATE rate_uses SET used_at = now() - interval '61 s'")))
	settle(b, uses{"key 1": 1}, uses{"key 1": 1})

	// Two hosts that write the same names in any order do not block each other.
	many := uses{}
	for i := range 500 {
		many["key "+strings.Repeat("x", i)] = 1
	}
	noError(t, errors.Join(concurrently(8, func(i int) error {
		return errOf([]*Store{a, b}[i%2].SettleUses(t.Context(), many))
	})...))
	expect(t, "uses", one[int](t, a, "SELECT max(used) FROM rate_uses"), 8)
}

func TestTakePublicIsExactAcrossHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	clock := func() time.Time { return noon }
	hosts := []*Store{open(t, url, clock), open(t, url, clock)}
	client := netip.MustParsePrefix("192.0.2.7/32")
	oks, resets := make([]bool, 30), make([]time.Time, 30)
	noError(t, errors.Join(concurrently(len(oks), func(i int) (err error) {
		resets[i], oks[i], err = hosts[i%2].TakePublic(t.Context(), client)
		return err
	})...))
	passed := 0
	for i, ok := range oks {
		if ok {
			passed++
		} else if !resets[i].Equal(noon.Add(time.Hour)) {
			t.Errorf("reset at %v, want an hour after the first use", resets[i])
		}
	}
	expect(t, "uses that passed", passed, publicUses)
}

// TestSpentClientsCostNoQuery checks that a client who has reached the limit is refused without the database.
func TestSpentClientsCostNoQuery(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	client := netip.MustParsePrefix("192.0.2.7/32")
	take := func() (time.Time, bool, error) { return s.Take(t.Context(), "a ", client, 2, time.Minute) }
	for i := range 3 {
		_, ok, err := take()
		mustHold(t, err == nil && ok == (i < 2), "use %d: %v, %v", i+1, ok, err)
	}
	noError(t, s.Close())
	reset, ok, err := take()
	holds(t, err == nil && !ok && reset.Equal(noon.Add(time.Minute)), "without a database: %v, %v, %v", reset, ok, err)
	_, _, err = s.Take(t.Context(), "b ", client, 2, time.Minute)
	holds(t, err != nil, "another action did not ask the database")
	now = noon.Add(time.Minute)
	_, _, err = take()
	holds(t, err != nil, "after the reset, the database was not asked")
}

func TestTakeCountsClientsAndActionsSeparately(t *testing.T) {
	t.Parallel()
	s := newStore(t, func() time.Time { return noon })
	first := netip.MustParsePrefix("2001:db8:0:1::7/64")
	for range publicUses {
		_, ok, err := s.TakePublic(t.Context(), first)
		mustHold(t, err == nil && ok, "within the limit: %v, %v", ok, err)
	}
	for name, test := range map[string]struct {
		client string
		ok     bool
	}{
		"same":                         {"2001:db8:0:1::7/64", false},
		"another address of the /64":   {"2001:db8:0:1:ffff::1/64", false},
		"the neighbouring /64":         {"2001:db8:0:2::7/64", true},
		"an IPv4 client":               {"192.0.2.7/32", true},
		"the /64's first address /128": {"2001:db8:0:1::/128", true},
	} {
		_, ok, err := s.TakePublic(t.Context(), netip.MustParsePrefix(test.client))
		holds(t, err == nil && ok == test.ok, "%s: %v, %v, want %v", name, ok, err, test.ok)
	}
	for i, action := range []string{"a ", "a ", "b "} {
		_, ok, err := s.Take(t.Context(), action, first, 1, time.Hour)
		holds(t, err == nil && ok == (i != 1), "use %d, of action %q: %v, %v", i+1, action, ok, err)
	}
}

// At most a number of uses fall into any hour.
func TestUsesWithinAnHour(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	client := netip.MustParsePrefix("192.0.2.7/32")
	take := func(name string, after time.Duration, wantOK bool, wantReset time.Duration) {
		t.Helper()
		now = noon.Add(after)
		reset, ok, err := s.TakePublic(t.Context(), client)
		holds(t, err == nil && ok == wantOK, "%s: %v, %v, want %v", name, ok, err, wantOK)
		holds(t, ok || reset.Equal(noon.Add(wantReset)), "%s: resets at %v, want %v", name, reset, noon.Add(wantReset))
	}
	for i := range publicUses {
		take("within the limit", time.Duration(i)*time.Minute, true, 0)
	}
	take("over the limit", 10*time.Minute, false, time.Hour)
	noError(t, s.GiveBack(t.Context(), client))
	take("in place of one given back", 9*time.Minute, true, 0)
	take("over the limit again", 10*time.Minute, false, time.Hour)
	take("just before the first is an hour old", time.Hour-time.Microsecond, false, time.Hour)
	take("when the first is an hour old", time.Hour, true, 0)
	take("with the second as the oldest", time.Hour, false, time.Hour+time.Minute)
	take("when the second is an hour old", time.Hour+time.Minute, true, 0)
	take("a rejected use does not count", time.Hour+time.Minute, false, time.Hour+2*time.Minute)
	take("hours later", 5*time.Hour, true, 0)
	expect(t, "stored uses", one[int](t, s, "SELECT cardinality(uses) FROM public_uses"), 1)
	for _, first := range []bool{true, false} { // a longer window outlasts pruning
		_, ok, err := s.Take(t.Context(), "a day ", client, 1, 24*time.Hour)
		holds(t, err == nil && ok == first, "a use a day: %v, %v, want %v", ok, err, first)
		now = now.Add(23 * time.Hour)
		noError(t, s.Prune(t.Context()))
	}
}

// Of many who present the same key or link at once, one signs in.
func TestSignInOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	link := must(s.NewLink(t.Context(), account))(t)
	expect(t, "sign-ins with one link", successes(t, concurrently(20, func(int) error {
		return errOf(s.UseLink(context.Background(), link, signin.Origin{}))
	}), signin.ErrUnknown), 1)

	// A new account's code can be issued again until it was used, and replaced by its owner at any time.
	account = must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	signsIn := func(code string, want error) {
		t.Helper()
		token, err := s.SignInByCode(t.Context(), code, signin.Origin{})
		wantError(t, "signing in by code", err, want)
		if err == nil {
			got, _, err := s.Session(t.Context(), token, "")
			holds(t, err == nil && got.Account == account, "signed in to %q, %v; want %q", got.Account, err, account)
		}
	}
	unseen := must(s.FirstCode(t.Context(), account))(t)
	first := must(s.FirstCode(t.Context(), account))(t)
	signsIn(unseen, signin.ErrUnknown)
	signsIn(first, nil)
	expect(t, "the code after it was used", must(s.FirstCode(t.Context(), account))(t), "")
	lost := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	kept := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	session, _, err := s.Session(t.Context(), kept, "")
	noError(t, err)
	link = must(s.NewLink(t.Context(), account))(t)
	second := must(s.ReplaceCode(t.Context(), account, session.ID))(t)
	wantError(t, "a link from before", errOf(s.UseLink(t.Context(), link, signin.Origin{})), signin.ErrUnknown)
	for token, want := range map[string]error{lost: signin.ErrNoSession, kept: nil} {
		wantError(t, "a session after the code was replaced", errOf2(s.Session(t.Context(), token, "")), want)
	}
	expect(t, "the code after it was replaced", must(s.FirstCode(t.Context(), account))(t), "")
	signsIn(first, signin.ErrUnknown)
	signsIn(second, nil)
	signsIn(second+"X", signin.ErrMistyped)
	holds(t, time.Since(must(s.CodeIssuedAt(t.Context(), account))(t)) <= time.Hour, "the code was issued long ago")
	// Neither the code nor a token is in the database.
	token := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	for _, table := range []string{"sign_in_codes", "sessions"} {
		rows := one[string](t, s, "SELECT string_agg(r::text, ' ') FROM "+table+" AS r")
		expect(t, table+" contains a secret", strings.Contains(rows, second) || strings.Contains(rows, token), false)
	}
	wantError(t, "a link to the public account", errOf(s.NewLink(t.Context(), publicAccount)), billing.ErrNoAccount)
}

// A sign-in in flight does not survive the end of all sessions.
func TestSignInInFlight(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "distributed tables have no triggers")
	s := newStore(t, nil)
	must(s.db.Exec(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql
		AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END';
		CREATE TRIGGER hold BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION hold()`))(t)
	conn, look := session(t, s.url), session(t, s.url)
	for i := range 2 {
		account := must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
		signIn, with := s.SignInByCode, must(s.FirstCode(t.Context(), account))(t)
		end := func() error { return s.CloseAccountSignIn(context.Background(), account) }
		if i == 1 {
			signIn, with = s.UseLink, must(s.NewLink(t.Context(), account))(t)
			end = func() error { return errOf(s.ReplaceCode(context.Background(), account, "")) }
		}
		exec(t, conn, "SELECT pg_advisory_lock(1)")
		var token string
		signedIn := async(func() (err error) {
			token, err = signIn(context.Background(), with, signin.Origin{})
			return err
		})
		until(t, "the sign-in waits", func() bool { return lockWaiters(t, look) == 1 })
		ended := async(end)
		until(t, "all sessions are ended, or wait", func() bool { return len(ended) == 1 || lockWaiters(t, look) == 2 })
		exec(t, conn, "SELECT pg_advisory_unlock(1)")
		noError(t, errors.Join(receive(t, "the sign-in", signedIn), receive(t, "the end of all sessions", ended)))
		wantError(t, "the session", errOf2(s.Session(t.Context(), token, "")), signin.ErrNoSession)
	}
}

// The dashboard acts with a key that is not limited and does not expire.
func TestKeyOfASession(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	token := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	used := func() string {
		_, caller, err := s.Session(t.Context(), token, "192.0.2.0/24")
		noError(t, err)
		return caller.Key
	}
	expect(t, "the key of an account without keys", used(), "")
	_, key := newKey(t, s, account)
	rotated := must(s.RotateKey(t.Context(), account, key.ID, time.Hour))(t)
	expect(t, "the key that does not expire", used(), rotated.ID)

	// A test key makes no checks, and the dashboard has no limits.
	for _, limits := range []apikey.Limits{{Test: true}, {Scopes: []apikey.Scope{apikey.Scope("check")}}} {
		must(s.IssueKey(t.Context(), account, apikey.Wanted{Name: "limited", Limits: limits}))(t)
		expect(t, "the key without limits", used(), rotated.ID)
	}
}
