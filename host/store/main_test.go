package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	is "assay/registry/expect"
)

// Short names for the fixtures of storetest.
var (
	testRing      = storetest.Ring
	discard       = storetest.Discard
	noError       = is.NoError
	wantError     = is.Error
	wantErrorText = is.ErrorText
	wantFailure   = is.Failure
	noDiff        = is.NoDiff
	holds         = is.That
	mustHold      = is.Must
	until         = is.Until
	endedContext  = is.Ended
	plan          = storetest.Plan
	newCaller     = storetest.NewCaller
	newKey        = storetest.NewKey
	parse         = storetest.Parse
	noon          = storetest.Noon
	decided       = storetest.Decided
	lasting       = int64(storetest.Revision)
	at            = storetest.At
	exec          = storetest.Exec
)

func TestMain(m *testing.M) {
	if arguments := os.Getenv(busyHostEnv); arguments != "" {
		fmt.Fprintln(os.Stderr, busyHost(context.Background(), arguments))
		os.Exit(1)
	}
	os.Exit(storetest.Main(m, func(ctx context.Context, url string) (*Store, error) {
		s, err := tryOpen(ctx, url)
		if err == nil && onCitus() {
			_, err = s.Distribute(ctx, false, func(int, int, string) {})
		}
		return s, err
	}))
}

// needsPlainPostgres skips a test of something that a distributed database does not have, or refuses.
func needsPlainPostgres(t testing.TB, why string) {
	t.Helper()
	if onCitus() {
		t.Skipf("this test needs a database without Citus: %s", why)
	}
}

// onCitus reports whether the tests' databases are distributed.
func onCitus() bool { return os.Getenv("ASSAY_TEST_CITUS_URL") != "" }

// async calls f in a goroutine. The channel receives its error.
func async(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	return ended
}

func must[T any](v T, err error) func(testing.TB) T { return is.Value(v, err) }

func errOf[T any](v T, err error) error { return is.ErrorOf(v, err) }

func errOf2[A, B any](_ A, _ B, err error) error { return err }

func expect[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	is.Equal(t, what, got, want)
}

func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	return storetest.Receive(t, what, from)
}

func value[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	return storetest.Value[T](t, conn, sql, args...)
}

// open opens a store on the database at url until the test ends. now may be nil.
func open(t testing.TB, url string, now func() time.Time) *Store {
	t.Helper()
	s, err := Open(t.Context(), configOf(url, now))
	return storetest.Close(t, must(s, err)(t))
}

func tryOpen(ctx context.Context, url string) (*Store, error) { return Open(ctx, configOf(url, nil)) }

// poolerEnv names the address of a pooler through which stores reach their databases. See TestThroughPooler.
const poolerEnv = "ASSAY_STORE_TEST_POOLER"

// proxied skips a test that breaks connections when a pooler is in between.
func proxied(t testing.TB, target string) *storetest.Proxy {
	t.Helper()
	if os.Getenv(poolerEnv) != "" {
		t.Skip("this test needs a store without a pooler")
	}
	return storetest.NewProxy(t, target)
}

// session opens a connection to the database at a URL, past the pooler.
func session(t testing.TB, at string) *pgx.Conn {
	t.Helper()
	if direct, u := os.Getenv("ASSAY_TEST_DATABASE_URL"), must(url.Parse(at))(t); os.Getenv(poolerEnv) == u.Host {
		u.Host = must(url.Parse(direct))(t).Host
		at = u.String()
	}
	return storetest.Session(t, at)
}

func configOf(at string, now func() time.Time) Config {
	cfg := Config{URL: at, DirectURL: at, Keys: testRing, Logger: discard(), Now: now}
	if u, err := url.Parse(at); err == nil && os.Getenv(poolerEnv) != "" {
		u.Host = os.Getenv(poolerEnv)
		cfg.URL = u.String()
	}
	return cfg
}

func openOnce(ctx context.Context, cfg Config) error {
	s, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	return s.Close()
}

// ledgerOn starts a ledger and stops it before its store. Callers wait as long as tests do, unless cfg says otherwise.
func ledgerOn(t testing.TB, s *Store, cfg LedgerConfig) *Ledger {
	t.Helper()
	cfg.Patience, cfg.Settling = cmp.Or(cfg.Patience, time.Minute), cmp.Or(cfg.Settling, time.Minute)
	cfg.Late = cmp.Or(cfg.Late, 20*time.Second)
	return storetest.Close(t, must(s.NewLedger(cfg))(t))
}

// newStore opens a store on a new database, whose server may take as long to answer as tests wait. now may be nil.
func newStore(t testing.TB, now func() time.Time) *Store {
	t.Helper()
	at := must(url.Parse(postgrestest.Database(t)))(t)
	query := at.Query()
	query.Set("connect_timeout", "60")
	at.RawQuery = query.Encode()
	return open(t, at.String(), now)
}

// newLedger opens a store on a new database, with a ledger and a caller on the Pro plan. now may be nil.
func newLedger(t testing.TB, now func() time.Time, cfg LedgerConfig) (*Store, *Ledger, check.Caller) {
	t.Helper()
	s := newStore(t, now)
	return s, ledgerOn(t, s, cfg), newCaller(t, s, plan(t, "pro", 1_000_000))
}

// newVerified is newLedger, and checks the invariants of the database after the test.
func newVerified(t testing.TB, now func() time.Time, cfg LedgerConfig) (*Store, *Ledger, check.Caller) {
	t.Helper()
	s := newStore(t, now)
	t.Cleanup(func() { verifyLedger(lasts{t}, s) })
	return s, ledgerOn(t, s, cfg), newCaller(t, s, plan(t, "pro", 1_000_000))
}

// lasts is a test with a context that does not end before its cleanup.
type lasts struct{ testing.TB }

func (lasts) Context() context.Context { return context.Background() }

// ledgerThroughProxy returns a ledger that reaches a new database by a proxy. Invariants are checked after the test.
func ledgerThroughProxy(t testing.TB, cfg LedgerConfig) (direct *Store, p *storetest.Proxy, l *Ledger, c check.Caller) {
	t.Helper()
	direct = newStore(t, nil)
	t.Cleanup(func() { verifyLedger(lasts{t}, direct) })
	p = proxied(t, direct.url)
	l = ledgerOn(t, open(t, p.URL, nil), cfg)
	return direct, p, l, newCaller(t, direct, plan(t, "pro", 1_000_000))
}

// except returns err, or nil if it is one of others.
func except(err error, others ...error) error {
	if slices.ContainsFunc(others, func(other error) bool { return errors.Is(err, other) }) {
		return nil
	}
	return err
}

// successes returns how many of the errors are nil. The others must be want.
func successes(t testing.TB, errs []error, want error) (n int) {
	t.Helper()
	for _, err := range errs {
		if err == nil {
			n++
		} else {
			wantError(t, "one of several at once", err, want)
		}
	}
	return n
}

// isRefusal reports whether err says that records are certain not to be stored.
func isRefusal(err error) bool { return errors.As(err, new(*check.UnavailableError)) }

func wantRefusal(t testing.TB, what string, err error) {
	t.Helper()
	holds(t, isRefusal(err), "%s: %v, want an *check.UnavailableError", what, err)
}

// allowed returns an allowed check of a domain.
func allowed(t testing.TB, caller check.Caller) check.Record {
	t.Helper()
	return decided(caller, parse(t, entity.Domain, "example.org"), check.Allow)
}

// one reads one value through a store's pool.
func one[T any](t testing.TB, s *Store, sql string, args ...any) T {
	t.Helper()
	var v T
	err := s.db.NewRaw(sql, args...).Scan(t.Context(), &v)
	mustHold(t, err == nil, "%s: %v", sql, err)
	return v
}

// rowsOf counts the rows of a table, or those that meet a condition.
func rowsOf(t testing.TB, s *Store, from string, args ...any) int {
	t.Helper()
	return one[int](t, s, "SELECT count(*) FROM "+from, args...)
}

// concurrently calls f with the numbers below n, each in its goroutine, and returns the errors.
func concurrently(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errs
}

// headLock locks all audit heads, which makes ledgers wait.
type headLock struct {
	conn    *pgx.Conn // holds the locks
	monitor *pgx.Conn // counts waiting connections
}

func lockTheHeads(t *testing.T, url string) *headLock {
	t.Helper()
	h := &headLock{conn: session(t, url), monitor: session(t, url)}
	exec(t, h.conn, "BEGIN")
	exec(t, h.conn, forEachHead(t, h.conn, "SELECT * FROM audit_heads WHERE chain = %d FOR UPDATE")...)
	return h
}

// forEachHead returns a statement for each chain, because Citus locks rows of one chain at a time.
func forEachHead(t *testing.T, conn *pgx.Conn, format string) []string {
	t.Helper()
	rows := must(conn.Query(t.Context(), "SELECT DISTINCT chain FROM audit_heads ORDER BY chain"))(t)
	return column(must(pgx.CollectRows(rows, pgx.RowTo[int]))(t), func(n int) string { return fmt.Sprintf(format, n) })
}

// waiting waits until n connections to this database are waiting for a lock.
func (h *headLock) waiting(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d connections to wait for a lock", n), func() bool { return lockWaiters(t, h.monitor) == n })
}

func (h *headLock) release(t *testing.T) {
	t.Helper()
	exec(t, h.conn, "COMMIT")
}

func lockWaiters(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	mustHold(t, os.Getenv(poolerEnv) == "", "a test that looks at locks runs without a pooler")
	const count = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`
	if onCitus() {
		return value[int](t, conn, "SELECT sum(result::int) FROM run_command_on_all_nodes($1)", count)
	}
	return value[int](t, conn, count)
}

// onEachNode runs statements on each node of a cluster, or on the only one, without passing them on to other nodes.
func onEachNode(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if !onCitus() {
			exec(t, conn, statement)
			continue
		}
		failed := value[*string](t, conn, `SELECT string_agg(result, '; ') FILTER (WHERE NOT success)
			FROM run_command_on_all_nodes($1)`, "SET citus.enable_ddl_propagation = off; "+statement)
		if failed != nil {
			t.Fatalf("%s: %s", statement, *failed)
		}
	}
}

// allowedMany returns n allowed checks of a domain.
func allowedMany(t testing.TB, caller check.Caller, n int) []check.Record {
	t.Helper()
	return decidedMany(caller, parse(t, entity.Domain, "example.org"), check.Allow, n)
}

func decidedMany(caller check.Caller, e entity.Entity, verdict check.Verdict, n int) []check.Record {
	return listOf(n, func(int) check.Record { return decided(caller, e, verdict) })
}

// listOf returns what f returns for the numbers below n.
func listOf[T any](n int, f func(i int) T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = f(i)
	}
	return list
}

func refOf(r check.Record) string { return r.Decision.Ref }

// Predicates for statements.
func isAppend(m string) bool { return strings.Contains(m, "ledger_append") }
func isSettle(m string) bool { return strings.Contains(m, "ledger_settle") }

func containing(text string) func(string) bool {
	return func(m string) bool { return strings.Contains(m, text) }
}
