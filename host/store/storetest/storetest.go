// Package storetest provides the fixtures of tests that use a store: keys, migrated databases, callers, decisions, and
// a proxy that breaks connections. It does not import host/store, so that the store's own tests can use it.
package storetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"assay/host/access/apikey"
	"assay/host/access/keyring"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// Ring holds the keys that the stores of tests are opened with.
var Ring = NewRing('a')

// NewRing returns the keys derived from a master secret of 32 times the same letter, and of generations from later on.
func NewRing(letter byte, later ...time.Time) *keyring.Ring {
	dir, err := os.MkdirTemp("", "assay-storetest-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "secret")
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{letter}, 32))
	err = os.WriteFile(file, []byte(secret), 0o600)
	for _, from := range later {
		err = errors.Join(err, keyring.AddGeneration(file, from))
	}
	ring, err2 := keyring.Load(file)
	if err = errors.Join(err, err2); err != nil {
		panic(err)
	}
	return ring
}

// Discard returns a logger without output.
func Discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Prepare makes the databases of tests copies of one that open has migrated.
func Prepare[S io.Closer](open func(ctx context.Context, url string) (S, error)) {
	postgrestest.Prepare(func(ctx context.Context, url string) error {
		s, err := open(ctx, url)
		if err != nil {
			return err
		}
		return errors.Join(s.Close(), PutInForce(ctx, url))
	})
}

// Main runs a package's tests on databases that open has migrated, and returns the exit code. Goroutines that outlive
// the tests are a failure.
func Main[S io.Closer](m *testing.M, open func(ctx context.Context, url string) (S, error)) int {
	Prepare(open)
	code := postgrestest.Main(m)
	if code == 0 {
		// pgx closes a broken connection in the background, for up to 15 s.
		closing := goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn.(*PgConn).asyncClose.func1")
		if err := goleak.Find(closing); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines outlive their tests:", err)
			code = 1
		}
	}
	return code
}

// Close closes c after the test.
func Close[C io.Closer](t testing.TB, c C) C {
	t.Cleanup(func() {
		err := c.Close()
		expect.That(t, err == nil, "closing %T: %v", c, err)
	})
	return c
}

// Background runs f until the test ends.
func Background(t testing.TB, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f(ctx) }()
	t.Cleanup(func() {
		cancel()
		Receive(t, "a background task to end", ended)
	})
}

// waitTimeout bounds every wait for a condition. Exceeding it fails the test.
const waitTimeout = time.Minute

// Receive receives a value from a channel, or the zero value if it is closed.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(waitTimeout):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

// Plan returns a plan of the price list with another quota.
func Plan(t testing.TB, name string, quota int) check.Plan {
	t.Helper()
	p, ok := check.PlanNamed(name)
	expect.Must(t, ok, "there is no plan %s", name)
	p.Quota = quota
	return p
}

// Accounts is the part of a store that issues keys.
type Accounts interface {
	CreateAccount(ctx context.Context, plan check.Plan) (string, error)
	CreateKey(ctx context.Context, account, name string) (apikey.Issued, error)
	Authenticate(ctx context.Context, key string) (check.Caller, error)
}

// NewCaller creates an account with a key and returns the caller that presents it.
func NewCaller(t testing.TB, s Accounts, plan check.Plan) check.Caller {
	t.Helper()
	caller, _ := NewKey(t, s, expect.Value(s.CreateAccount(t.Context(), plan))(t))
	return caller
}

// NewKey issues a key to an account.
func NewKey(t testing.TB, s Accounts, account string) (check.Caller, apikey.Issued) {
	t.Helper()
	key := expect.Value(s.CreateKey(t.Context(), account, "test"))(t)
	return expect.Value(s.Authenticate(t.Context(), key.Secret))(t), key
}

// Parse parses a value that is valid.
func Parse(t testing.TB, typ entity.Type, value string) entity.Entity {
	t.Helper()
	return expect.Value(entity.Parse(typ, value, "DE"))(t)
}

// Noon is the default time of the tests' checks.
var Noon = time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC)

// Revision is the lineup of the tests' checks. It stays in force in the tests' databases after other activations.
const Revision = 1_000_003

// PutInForce lets checks of Revision be recorded. Main does so in the databases of a package's tests.
func PutInForce(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	added, err := conn.Exec(ctx, `INSERT INTO revisions_in_force (revision, until) VALUES ($1, '9999-01-01')
		ON CONFLICT DO NOTHING`, Revision)
	if err == nil && added.RowsAffected() > 0 {
		_, err = conn.Exec(ctx, "SELECT record_state('lineup', $1::bigint::text)", Revision)
	}
	return errors.Join(err, conn.Close(ctx))
}

// EndInForce undoes PutInForce, for tests of the revisions in force.
func EndInForce(t testing.TB, db *pgx.Conn) {
	t.Helper()
	Exec(t, db, fmt.Sprint("DELETE FROM revisions_in_force WHERE revision = ", Revision),
		fmt.Sprintf("SELECT append_state('lineup', '', '%d', 'removed', 0, 0, NULL)", Revision))
}

// Decided returns a check of e with the given verdict.
func Decided(caller check.Caller, e entity.Entity, verdict check.Verdict) check.Record {
	score := map[check.Verdict]int{check.Allow: 7, check.Review: 55, check.Block: 91}[verdict]
	return check.Record{Caller: caller, Entity: e, Decision: &check.Decision{
		Fused: check.Fused{Score: score, Lowest: score, Highest: score, Verdict: verdict},
		Ref:   check.NewRef(), Type: e.Type, Query: e.Value, At: Noon, Revision: Revision,
	}}
}

// At returns r with another time.
func At(r check.Record, when time.Time) check.Record {
	d := *r.Decision
	d.At = when
	r.Decision = &d
	return r
}

// Session opens a connection to the database at url, outside all pools.
func Session(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn := expect.Value(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs statements on a connection.
func Exec(t testing.TB, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		_, err := conn.Exec(t.Context(), sql)
		expect.Must(t, err == nil, "%s: %v", sql, err)
	}
}

// Value reads one value.
func Value[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	err := conn.QueryRow(t.Context(), sql, args...).Scan(&v)
	expect.Must(t, err == nil, "%s: %v", sql, err)
	return v
}

// WithinMonth waits for the next month (UTC) if less than margin is left of this one.
func WithinMonth(margin time.Duration) {
	now := time.Now().UTC()
	next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if left := next.Sub(now); left < margin {
		<-time.After(left)
	}
}
