package store

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"assay/host/store/postgres/postgrestest"
)

// A primary that became a standby keeps its connections. They are dropped, so that the next statement goes to the
// server that the address leads to now.
func TestReadOnlyConnectionsAreDropped(t *testing.T) {
	t.Parallel()
	needsDirect(t)
	at := postgrestest.Database(t)
	name := strings.TrimPrefix(must(url.Parse(at))(t).Path, "/")
	s, conn := open(t, at, nil), session(t, at)
	create := func() error { return errOf(s.CreateAccount(t.Context(), plan(t, "pro", 1))) }
	noError(t, create())
	exec(t, conn, "ALTER DATABASE "+name+" SET default_transaction_read_only = on",
		`SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	until(t, "new connections to be read-only", func() bool { return sqlState(create()) == readOnly })
	exec(t, conn, "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	noError(t, create())
}

func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]time.Duration{
		"postgres://localhost/assay":                    connectTimeout,
		"postgres://localhost/assay?connect_timeout=10": 10 * time.Second,
	} {
		cfg, err := connConfig(url)
		noError(t, err)
		expect(t, url, cfg.ConnectTimeout, want)
	}
}

// A caller that stops waiting does not cancel a commit: it may be waiting for a standby, and would be kept by the
// primary alone.
func TestCommitIsNotCancelled(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	exec(t, conn, "CREATE TABLE slow (n int)", `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END'`,
		`CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION wait()`, "SELECT pg_advisory_lock(77)")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO slow VALUES (1)")
			return err
		})
	}()
	until(t, "the commit to wait", func() bool { return lockWaiters(t, conn) == 1 })
	cancel()
	wantError(t, "committing", receive(t, "the caller to return", done), context.Canceled)
	exec(t, conn, "SELECT pg_advisory_unlock(77)")
	until(t, "the commit to end", func() bool { return value[int](t, conn, "SELECT count(*) FROM slow") == 1 })
}
