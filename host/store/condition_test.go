package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/facts/feed"
	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
)

// A host whose clock is wrong records no checks, and says by how much it is off. Keys expire by the database's clock.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	for name, test := range map[string]struct {
		off       time.Duration
		direction string // "": the clock is accepted
	}{
		"a second behind": {-time.Second, ""},
		"an hour ahead":   {time.Hour, "ahead"},
		"a minute behind": {-time.Minute, "behind"},
	} {
		t.Run(name, func(t *testing.T) {
			var set atomic.Int64
			s := open(t, url, func() time.Time { return time.Now().Add(test.off + time.Duration(set.Load())) })
			l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 100))
			got := s.Problems()
			holds(t, len(got) == 1 && got[0].Reason == "was not probed yet", "before the first probe: %v", got)
			got = probed(t, s)
			err := l.Append(t.Context(), storetest.At(allowed(t, caller), time.Now()))
			if test.direction == "" {
				noError(t, err)
				expect(t, "problems", len(got), 0)
				set.Store(int64(time.Hour))
				wantRefusal(t, "recording a check before the next probe", l.Append(t.Context(), allowed(t, caller)))
			} else {
				wantRefusal(t, "recording a check", err)
				mustHold(t, len(got) == 1 && got[0].Part == "clock", "problems: %v, want the clock", got)
				var off float64
				var direction string
				noError(t, errOf(fmt.Sscanf(got[0].Reason, "is %f s %s", &off, &direction)))
				holds(t, math.Abs(off-test.off.Abs().Seconds()) <= probeTimeout.Seconds() &&
					direction == test.direction, "%s, want %v %s", got[0].Reason, test.off.Abs(), test.direction)
			}
			for left, want := range map[time.Duration]error{time.Minute: nil, -time.Minute: check.ErrUnauthorized} {
				_, key := newKey(t, s, caller.Account)
				s.ForgetCallers()
				exec(t, session(t, s.url), "UPDATE api_keys SET expires_at = now() + interval '"+left.String()+
					"' WHERE id = '"+key.ID+"'")
				wantError(t, "using a key that expires in "+left.String(), errOf(s.Authenticate(t.Context(),
					key.Secret)), want)
			}
		})
	}
}

// probed probes a database that responds, however slow the machine is, and returns the problems.
func probed(t *testing.T, s *Store) []Problem {
	t.Helper()
	until(t, "a response in time", func() bool {
		s.Probe(t.Context())
		return !slices.ContainsFunc(s.Problems(), func(p Problem) bool { return p.Reason == "does not respond" })
	})
	return s.Problems()
}

// The time between two probes is the host's monotonic clock.
func TestTimeGoesOnBetweenProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{hostNow: func() time.Time { return noon }}
		expect(t, "time before the first probe", s.time(), noon)
		s.watched.clock.Store(&clockReading{database: noon.Add(time.Hour), host: time.Now()})
		<-time.After(time.Minute)
		expect(t, "time a minute after a probe", s.time(), noon.Add(time.Hour+time.Minute))
	})
}

// One reading during which the process was stopped does not count.
func TestClockIsTheMedian(t *testing.T) {
	t.Parallel()
	exact := newClockOffset(noon, noon.Add(time.Millisecond), noon.Add(2*time.Millisecond))
	stopped := newClockOffset(noon, noon, noon.Add(time.Minute))
	distant := newClockOffset(noon, noon.Add(6*time.Second), noon.Add(6*time.Second)) // may be right
	ahead := newClockOffset(noon, noon.Add(-3*time.Second), noon)
	for name, test := range map[string]struct {
		readings []clockOffset
		wrong    bool
	}{
		"stopped during one reading":  {[]clockOffset{exact, stopped, exact}, false},
		"a database that takes long":  {[]clockOffset{distant, distant, distant}, false},
		"two readings say it is fast": {[]clockOffset{ahead, exact, ahead}, true},
	} {
		expect(t, name+": the clock is wrong", clockProblem(test.readings) != nil, test.wrong)
	}
}

// A probe says why the database takes no checks.
func TestProbe(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	s.db.SetMaxIdleConns(0) // so that the probe's connection has the settings
	conn := session(t, s.url)
	database := value[string](t, conn, "SELECT current_database()")
	for _, step := range []struct{ name, change, reason string }{
		{"sound", "SELECT", ""},
		{"of a newer host", "INSERT INTO schema_steps (name, group_id) VALUES ('9001', 2)", ""},
		{"read-only", "ALTER ROLE CURRENT_USER IN DATABASE ? SET default_transaction_read_only TO on", "is read-only"},
		{"writable again", "ALTER ROLE CURRENT_USER IN DATABASE ? RESET default_transaction_read_only", ""},
		{"restored from before an upgrade", `DELETE FROM schema_steps WHERE name = '9001';
			UPDATE schema_steps SET name = '0000'`, "has an older schema, migration 0000"},
		{"not a host's", "DROP TABLE schema_steps CASCADE", "does not respond"},
	} {
		exec(t, conn, strings.ReplaceAll(step.change, "?", database))
		s.Probe(t.Context())
		if step.reason != "does not respond" {
			probed(t, s)
		}
		reasons := column(s.Problems(), func(p Problem) string { return p.Reason })
		noDiff(t, step.name, strings.Join(reasons[:min(1, len(reasons))], ""), step.reason)
	}
}

// A batch that failed because the disk was full makes the host not ready until a probe can write.
func TestFullDatabaseIsNotReady(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "distributed tables have no triggers")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	exec(t, conn, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`,
		"CREATE TRIGGER full_disk BEFORE INSERT ON audit_records FOR EACH STATEMENT EXECUTE FUNCTION full_disk()")
	expect(t, "problems before", len(probed(t, s)), 0)
	wantRefusal(t, "recording a check", l.Append(t.Context(), storetest.At(allowed(t, caller), time.Now())))
	got := s.Problems()
	holds(t, len(got) == 1 && got[0].Reason == "is out of space", "problems: %v", got)
	s.batchEnded(nil)
	expect(t, "problems after a batch was recorded", len(s.Problems()), 0)
	s.watched.full.Store(true)
	expect(t, "problems once a probe could write", len(probed(t, s)), 0)
}

// A failed probe is a problem, and drops idle connections: each would fail a request after its whole deadline.
func TestFailedProbeDropsIdleConnections(t *testing.T) {
	t.Parallel()
	p := proxied(t, postgrestest.Database(t))
	s := open(t, p.URL, nil)
	use := func(ctx context.Context, connections int) error {
		for range connections {
			conn, err := s.db.Conn(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			if err := conn.PingContext(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	connections := s.db.Stats().MaxOpenConnections
	noError(t, use(t.Context(), connections))
	expect(t, "problems before", len(probed(t, s)), 0)
	p.Silence(true)
	s.Probe(t.Context())
	got := s.Problems()
	holds(t, len(got) == 1 && got[0].Reason == "does not respond" && got[0].Err != nil, "problems: %v", got)
	p.Silence(false)
	for range connections {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a silent connection never ends
		noError(t, use(ctx, 1))
		cancel()
	}
}

// What a probe saw answers polls until the next one, or a notification, says that something has changed.
func TestProbeAnswersPolls(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	a.watched.watching.Store(true)
	noError(t, b.PublishPlugin(t.Context(), module(t, "probe", "Probes"), "1.0.0", "", nil))
	known := int64(0)
	poll := func() (seen string) {
		signed, _, err := a.LastActivation(t.Context())
		noError(t, err)
		changes := must(a.OverridesSince(t.Context(), known))(t)
		known = changes.Last
		return fmt.Sprint(strings.Count(signed, "the second"), len(changes.Accounts),
			len(must(a.Candidates(t.Context()))(t)), len(must(a.Feeds(t.Context()))(t)))
	}
	must(activate(t.Context(), b, lineupOf("probe@1.0.0"), registry.OriginOperator, "the first"))(t)
	probed(t, a)
	expect(t, "at first", poll(), "0 0 0 0")
	must(activate(t.Context(), b, lineupOf("probe@1.0.0"), registry.OriginOperator, "the second"))(t)
	blocked := wanted(t, check.Block, override.Domain, "example.com")
	blocked.ExpiresAt = time.Now().Add(time.Hour)
	_ = must(b.AddOverrideForAll(t.Context(), blocked))(t)
	noError(t, b.Propose(t.Context(), fleet.Candidate{ID: "cand_1", Signed: "assay candidate v1\n"}))
	importList(t, b, feed.List{Name: "Bad", Kind: feed.Bad}, entries(t, "a.example")...)
	a.watched.latest.Load().At = time.Now() // however slow the test is
	expect(t, "before the next probe", poll(), "0 0 0 0")
	a.watched.watching.Store(false) // as in a command
	signed, _, err := a.LastActivation(t.Context())
	holds(t, err == nil && strings.Contains(signed, "the second"), "without a watch: %q, %v", signed, err)
	a.watched.watching.Store(true)
	probed(t, a)
	expect(t, "after the next probe", poll(), "1 1 1 1")
	expect(t, "nothing new", poll(), "1 0 1 1")
}
