package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"assay/host/check"
	"assay/host/store/storetest"
	is "assay/registry/expect"
)

// Whatever the database does to a ledger's batches, each caller learns the truth: an answered check is recorded, a
// refused one is not, and only a check that was sent can have an unknown outcome. The ledger finds that out by itself.
func TestOutcomesAgreeWithTheRecords(t *testing.T) {
	t.Parallel()
	const calls = 40
	anything := func([]byte) bool { return true }
	batches := func(m string) bool { return isAppend(m) || isSettle(m) }
	held := func(statement func(string) bool, reply func([]byte) bool) func(*storetest.Proxy) <-chan struct{} {
		return func(p *storetest.Proxy) <-chan struct{} { return p.HoldBack(statement, reply) }
	}
	cut := func(fate storetest.Fate) func(*storetest.Proxy) <-chan struct{} {
		return func(p *storetest.Proxy) <-chan struct{} { return p.Once(fate, false, isAppend) }
	}
	type testCase struct {
		fault    func(p *storetest.Proxy) (happened <-chan struct{})
		answered bool // checks of later batches are answered before the fault ends
		late     bool // batches are settled because their replies are late
		unknown  bool // the outcome of some checks is unknown
		recorded bool // some of these checks are recorded
	}
	is.Each(t, map[string]testCase{
		"frozen before the batch":            {unknown: true, fault: held(batches, nil)},
		"frozen after the batch":             {unknown: true, recorded: true, fault: held(batches, anything)},
		"batches do not arrive":              {late: true, fault: held(isAppend, nil)},
		"batches get no reply":               {late: true, answered: true, fault: held(isAppend, anything)},
		"one batch is cut before it arrives": {answered: true, fault: cut(storetest.Lost)},
		"one batch is cut after it arrived":  {answered: true, fault: cut(storetest.Muted)},
	}, func(t *testing.T, test testCase) {
		cfg := LedgerConfig{Batch: 8}
		if test.late {
			cfg.Late = 50 * time.Millisecond
		}
		if test.unknown {
			cfg.Settling = time.Second
		}
		direct, p, l, caller := ledgerThroughProxy(t, cfg)
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		happened := test.fault(p)
		go func() {
			<-happened
			if !test.answered {
				giveUp()
			}
		}()
		batches := listOf(calls, func(i int) []check.Record { return allowedMany(t, caller, 1+i%3) })
		errs := concurrently(calls, func(i int) error { return l.Append(ctx, batches[i]...) })
		receive(t, "the fault", happened)
		p.Disconnect()
		var probes []check.Record
		until(t, "the ledger to recover", func() bool {
			probes = append(probes, allowed(t, caller))
			return l.Append(t.Context(), probes[len(probes)-1]) == nil
		})
		total := 0
		for _, probe := range probes { // the outcome of a slow one may be unknown
			total += recorded(t, direct, probe.Decision.Ref)
		}
		var answered, refused, unknown, doubtful int
		for i, err := range errs {
			want := len(batches[i])
			switch {
			case err == nil:
				answered++
			case isRefusal(err):
				refused++
				want = 0
			default:
				unknown++
				// Postgres may not have begun the second batch in flight when the connections are cut.
				if n := recorded(t, direct, batches[i][0].Decision.Ref); n == 0 {
					want = 0
				} else {
					doubtful++
				}
			}
			expect(t, "records of a check", recorded(t, direct, batches[i][0].Decision.Ref), min(want, 1))
			total += want
		}
		t.Logf("%d answered, %d refused, %d unknown, %d probes", answered, refused, unknown, len(probes))
		holds(t, (answered > 0) == test.answered && (unknown > 0) == test.unknown &&
			answered+refused+unknown == calls, "%d answered, %d refused, %d unknown", answered, refused, unknown)
		expect(t, "checks of unknown outcome are recorded", doubtful > 0, test.recorded)
		expect(t, "records", rowsOf(t, direct, "audit_records WHERE kind = 'check'"), total)
		expect(t, "checks counted", one[int](t, direct, "SELECT sum(used) FROM quota_usage"), total)
	})
}

// A check that is withdrawn after its batch has begun, but before it is sent, is not recorded with the batch.
func TestWithdrawalFromABatchInProgress(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	busy := listOf(batchConnections, func(int) *connection { return must(acquire(t.Context(), l.db))(t) })
	ctx, cancel := context.WithCancel(t.Context())
	r := allowed(t, caller)
	answer := async(func() error { return l.Append(ctx, r) })
	until(t, "the batch to begin", func() bool { return l.db.Stats().WaitCount > 0 })
	cancel()
	err := receive(t, "the answer", answer)
	wantRefusal(t, "a withdrawn check", err)
	wantError(t, "a withdrawn check", err, context.Canceled)
	for _, conn := range busy {
		noError(t, conn.release())
	}
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	expect(t, "records of a withdrawn check", recorded(t, s, r.Decision.Ref), 0)
}

// The ledger announces webhook events, also those of a commit that it had to look up, and nothing else.
func TestEventsOfAResolvedCommitAreAnnounced(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	caller := subscriber(t, direct)
	p := proxied(t, direct.url)
	announced := make(chan struct{}, 1)
	l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{OnEvents: func() { announced <- struct{}{} }})
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	expect(t, "announcements without an event", len(announced), 0)
	hit := p.Once(storetest.Muted, false, isAppend)
	r := allowed(t, caller)
	r.Decision.Verdict, r.Decision.Score = check.Block, 90
	noError(t, l.Append(t.Context(), r))
	receive(t, "the fault", hit)
	receive(t, "the announcement", announced)
	expect(t, "announcements left", len(announced), 0)
}

// The pace follows the batches, and a batch that takes longer than usual is late.
func TestPace(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	isLate := func() bool { _, _, late := l.Pace(); return late > 0 }
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	until(t, "the ledger to be idle", func() bool { return !isLate() })
	_, each, _ := l.Pace()
	holds(t, each > 0, "a record takes %v", each)
	held := lockTheHeads(t, s.url)
	answers := queued(t, held, l, allowed(t, caller), nil)
	until(t, "the batch to be late", isLate)
	held.release(t)
	noError(t, receive(t, "the answer", answers[0]))
	until(t, "the batch to end", func() bool { return !isLate() })
}

func TestAuthenticateDuringAnOutage(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	_, key := newKey(t, direct, must(direct.CreateAccount(t.Context(), plan(t, "pro", 10)))(t))
	p := proxied(t, direct.url)
	s := open(t, p.URL, nil)
	for name, fault := range map[string]func(){
		"frozen": func() { p.HoldBack(func(string) bool { return true }, nil) },
		"down":   func() { p.Set(nil, true) },
	} {
		fault()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		wantRefusal(t, "authenticating while the database is "+name, errOf(s.Authenticate(ctx, key.Secret)))
		wantRefusal(t, "counting a use while the database is "+name,
			errOf2(s.TakePublic(ctx, netip.MustParsePrefix("192.0.2.1/32"))))
		cancel()
	}
	p.Disconnect()
	p.Set(nil, false)
	wantError(t, "authenticating after the outage", errOf(s.Authenticate(t.Context(), key.Secret)), nil)
}

func TestOutages(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"no error": nil, "unknown": errors.New("the head is wrong"),
		"in doubt": &inDoubtError{context.DeadlineExceeded},
		"data":     &pgconn.PgError{Code: "23505"}, "syntax": &pgconn.PgError{Code: "42601"}, "no row": sql.ErrNoRows,
	} {
		holds(t, !isOutage(err), "%s counts as an outage", name)
	}
	for _, state := range []string{"08006", "25006", "40001", "53300", "55P03", "57014", "57P01", "58030"} {
		holds(t, isOutage(&pgconn.PgError{Code: state}), "%s does not count as an outage", state)
	}
}

// After a pause of the host, its time to learn an outcome begins anew: the reply only has to be read.
func TestOutcomeAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Ledger{settling: time.Second}
		sent := func() (p *pending, patience chan time.Time) {
			p = &pending{ctx: t.Context(), done: make(chan error, 1), sentAt: time.Now().Add(-time.Minute)}
			p.state.Store(callSent)
			patience = make(chan time.Time, 1)
			patience <- time.Now()
			return p, patience
		}
		p, patience := sent()
		time.AfterFunc(l.settling-1, func() { p.done <- check.ErrRevision })
		wantError(t, "a check whose outcome is read after the pause", l.wait(p, patience), check.ErrRevision)

		p, patience = sent()
		wantError(t, "a check without an outcome", l.wait(p, patience), errSlow)
		expect(t, "state", p.state.Load(), callUnknown)
	})
}

// A batch does not read the old versions of rows that an open snapshot keeps: after an hour there would be millions.
func TestOldVersionsAreNotRead(t *testing.T) {
	t.Parallel()
	if onCitus() {
		t.Skip("this test counts what its own session reads")
	}
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	exec(t, session(t, s.url), "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM audit_heads")
	exec(t, session(t, s.url), "SET enable_seqscan = off", fmt.Sprintf(`DO $$ BEGIN FOR i IN 1 .. 5000 LOOP
			UPDATE audit_heads SET seq = i + 1 WHERE chain = 0 AND seq = i;
			UPDATE quota_usage SET used = used + 1 WHERE ctid = (SELECT ctid FROM quota_usage
				WHERE chain = 0 AND account_id = '%s' AND period > '2000-01-01' ORDER BY period DESC LIMIT 1);
		END LOOP; END $$`, caller.Account))
	expect(t, "used", one[int](t, s, "SELECT used FROM quota_usage"), 5001)
	conn := must(acquire(t.Context(), l.db))(t)
	defer func() { noError(t, conn.release()) }()
	noError(t, errOf(conn.pg.PgConn().Exec(t.Context(), "BEGIN").ReadAll()))
	// A page has room for about a hundred versions. Of two batches, at least one finds room for its own: an update that
	// moves to a new page is compared with all versions, because their keys are equal.
	read := map[string][]int{}
	for i := range 3 {
		for _, table := range []string{"audit_heads", "quota_usage"} {
			r := must(conn.pg.PgConn().Exec(t.Context(), fmt.Sprintf(
				"SELECT pg_stat_get_xact_blocks_fetched('%s'::regclass)", table)).ReadAll())(t)
			read[table] = append(read[table], must(strconv.Atoi(string(r[0].Rows[0][0])))(t))
		}
		batch := prepared(t, l, allowedMany(t, caller, 1))
		noError(t, errOf2(conn.append(appendParams(0, []byte{byte(i)}, time.Minute, batch, answeredBatch{}), batch)))
	}
	for table, blocks := range read {
		least := min(blocks[1]-blocks[0], blocks[2]-blocks[1])
		holds(t, least <= 20, "a batch reads %d blocks of %s", least, table)
	}
	noError(t, errOf(conn.pg.PgConn().Exec(t.Context(), "COMMIT").ReadAll()))
}

// At low load, what delays a batch has little to do with its few records. It must not be taken for the time that a
// record costs, or a host with room to spare would refuse checks after a short stall.
func TestPaceAtLowLoad(t *testing.T) {
	t.Parallel()
	const marginal = 100 * time.Microsecond
	for name, batch := range map[string]func(*rand.Rand) (n int, took time.Duration){
		"few records, and other delays": func(r *rand.Rand) (int, time.Duration) {
			n := 1 + r.IntN(5)
			return n, time.Millisecond + time.Duration(n)*marginal + time.Duration(r.Int64N(int64(10*time.Millisecond)))
		},
		"a stall now and then": func(r *rand.Rand) (int, time.Duration) {
			n := 1 + r.IntN(5)
			if r.IntN(500) == 0 {
				return n, 100 * time.Millisecond
			}
			return n, time.Millisecond + time.Duration(n)*marginal
		},
	} {
		random, p := rand.New(rand.NewPCG(1, 2)), startedPace()
		for range 5000 {
			p.observe(batch(random))
			if _, each, _ := p.at(time.Now()); each > 5*marginal {
				t.Errorf("%s: a record costs %v, more than %v", name, each, 5*marginal)
				break
			}
		}
	}
}

// With many records per batch, the pace follows what they take, also after other ones.
func TestPaceOfFullBatches(t *testing.T) {
	t.Parallel()
	random, p := rand.New(rand.NewPCG(1, 2)), startedPace()
	for _, marginal := range []time.Duration{100 * time.Microsecond, time.Millisecond, 200 * time.Microsecond} {
		for range 500 {
			n := 100 + random.IntN(10)
			p.observe(n, time.Millisecond+time.Duration(n)*marginal)
		}
		_, each, _ := p.at(time.Now())
		holds(t, each >= marginal*8/10 && each <= marginal*12/10, "a record costs %v, want %v", each, marginal)
	}
}

// A ledger that has just started has no pace yet. Its first batches, which take longer than later ones, must not look
// late, or a host would refuse the first checks that arrive together.
func TestPaceAfterStart(t *testing.T) {
	t.Parallel()
	const (
		connections = 64
		target      = 160 * time.Millisecond // of a host's gate
		judged      = 500 * time.Microsecond // what the gate of two processors assumes that a check delays the next
	)
	p := startedPace()
	now := time.Now()
	for i, b := range []struct {
		n    int
		took time.Duration
	}{{1, 60 * time.Millisecond}, {connections - 1, 120 * time.Millisecond}, {connections, 120 * time.Millisecond}} {
		p.began(b.n, now)
		now = now.Add(b.took)
		least, each, late := p.at(now)
		wait := late + least + 2*connections*max(each, judged)
		holds(t, wait <= target, "batch %d: %d checks at once would wait for %v, longer than %v (%v late)", i+1,
			connections, wait, target, late)
		p.ended(b.n, now)
	}
}

func startedPace() *pace {
	p := &pace{}
	p.start(256)
	return p
}
