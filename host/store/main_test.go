package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"assay/host/apikey"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/keyring"
	"assay/host/postgres/postgrestest"
)

// testRing holds the secret that the template database was created with.
var testRing *keyring.Ring

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "assay-store-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if testRing, err = newRing(dir, 'a'); err != nil {
			panic(err)
		}
		postgrestest.Prepare(func(ctx context.Context, url string) error {
			s, err := Open(ctx, Config{URL: url, Keys: testRing, Logger: discard()})
			if err != nil {
				return err
			}
			return s.Close()
		})
		code := postgrestest.Main(m)
		if code == 0 {
			// Every test closes its stores, ledgers and listeners, so none of their goroutines may be left.
			if err := goleak.Find(); err != nil {
				fmt.Fprintln(os.Stderr, "goroutines outlive their tests:", err)
				code = 1
			}
		}
		return code
	}())
}

// newRing returns the keys derived from a master secret of 32 times the same letter.
func newRing(dir string, letter byte) (*keyring.Ring, error) {
	path := filepath.Join(dir, "secret-"+string(letter))
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{letter}, 32))
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		return nil, err
	}
	return keyring.Load(path)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// open opens a store on the database at url until the test ends. now may be nil.
func open(t *testing.T, url string, now func() time.Time) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: url, Keys: testRing, Logger: discard(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing store: %v", err)
		}
	})
	return s
}

// ledgerOn starts a ledger and stops it before its store is closed.
func ledgerOn(t *testing.T, s *Store, cfg LedgerConfig) *Ledger {
	t.Helper()
	l, err := s.NewLedger(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("closing ledger: %v", err)
		}
	})
	return l
}

// plan returns a plan of the price list with another quota.
func plan(t *testing.T, name string, quota int) check.Plan {
	t.Helper()
	p, ok := check.PlanNamed(name)
	if !ok {
		t.Fatalf("there is no plan %s", name)
	}
	p.Quota = quota
	return p
}

// newCaller creates an account with a key and returns the caller that presents it.
func newCaller(t *testing.T, s *Store, plan check.Plan) check.Caller {
	t.Helper()
	account, err := s.CreateAccount(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	caller, _ := newKey(t, s, account)
	return caller
}

// newKey issues a key to an account.
func newKey(t *testing.T, s *Store, account string) (check.Caller, apikey.Issued) {
	t.Helper()
	key, err := s.CreateKey(t.Context(), account, "test")
	if err != nil {
		t.Fatal(err)
	}
	caller, err := s.Authenticate(t.Context(), key.Secret)
	if err != nil {
		t.Fatal(err)
	}
	return caller, key
}

func parse(t *testing.T, typ entity.Type, value string) entity.Entity {
	t.Helper()
	e, err := entity.Parse(typ, value, "DE")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// noon is the default time of the tests' checks.
var noon = time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC)

// allowed returns an allowed check of a domain.
func allowed(t *testing.T, caller check.Caller) check.Record {
	t.Helper()
	return decided(caller, parse(t, entity.Domain, "example.org"), check.Allow)
}

// decided returns a check of e with the given verdict.
func decided(caller check.Caller, e entity.Entity, verdict check.Verdict) check.Record {
	score := map[check.Verdict]int{check.Allow: 7, check.Review: 55, check.Block: 91}[verdict]
	return check.Record{Caller: caller, Entity: e, Decision: &check.Decision{
		Fused: check.Fused{Score: score, Lowest: score, Highest: score, Verdict: verdict},
		Ref:   check.NewRef(), Type: e.Type, Query: e.Value, At: noon, Revision: 3,
	}}
}

// at returns r with another time.
func at(r check.Record, when time.Time) check.Record {
	d := *r.Decision
	d.At = when
	r.Decision = &d
	return r
}

// session opens a connection outside all pools.
func session(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// exec runs statements on a connection.
func exec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// value reads one value.
func value[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// one reads one value through a store's pool.
func one[T any](t *testing.T, s *Store, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := s.db.NewRaw(sql, args...).Scan(t.Context(), &v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// waitTimeout bounds every wait for a condition. Reaching it fails the test.
const waitTimeout = 30 * time.Second

// until waits for a condition to hold.
func until(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTimeout)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting for %s", condition)
		}
	}
}

// receive receives a value from a channel.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(waitTimeout):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

// headLock locks all audit heads, which makes ledgers wait.
type headLock struct {
	conn    *pgx.Conn // holds the locks
	monitor *pgx.Conn // counts waiting connections
}

func lockTheHeads(t *testing.T, url string) *headLock {
	t.Helper()
	h := &headLock{conn: session(t, url), monitor: session(t, url)}
	exec(t, h.conn, "BEGIN", "SELECT * FROM audit_heads FOR UPDATE")
	return h
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
	return value[int](t, conn, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

func allowedMany(t *testing.T, caller check.Caller, n int) []check.Record {
	t.Helper()
	records := make([]check.Record, n)
	for i := range records {
		records[i] = allowed(t, caller)
	}
	return records
}
