package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/check"
)

// Connections of a host to the database. Each part has its own, so that no part waits for another's statements. The
// rest serves requests and periodic jobs.
const (
	DefaultConnections = 12
	MinConnections     = otherConnections + 2

	otherConnections   = ledgerConnections + claimConnections + outcomeConnections + listenConnections + longConnections
	ledgerConnections  = batchConnections + settleConnections
	batchConnections   = 2 // while a batch commits, the next one of its chain is on its way
	settleConnections  = 1 // for batches whose own connection is lost or late
	claimConnections   = 1 // of the outbox; claims do not wait for outcomes
	outcomeConnections = 1 // of the outbox
	listenConnections  = 1
	longConnections    = 1
)

// Server-side limits within transactions. Requests have their own deadlines. These bound how long a host that was
// stopped or cut off can hold locks.
const (
	lockTimeout     = 3 * time.Second
	idleTimeout     = 10 * time.Second
	longIdleTimeout = time.Minute // for changes of lists, which are large
)

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// pingAfter is how long a connection must be idle to be pinged before its next use. Polls every second need no ping.
const pingAfter = 3 * time.Second

// connect opens a connection pool. bun writes arguments into the statement's text, so prepared statements would never
// be reused. The simple protocol avoids preparing them and allows several statements in one round trip.
func connect(url string, connections int) (*bun.DB, error) {
	cfg, err := connConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	pool := stdlib.OpenDB(*cfg, stdlib.OptionShouldPing(func(_ context.Context, p stdlib.ShouldPingParams) bool {
		return p.IdleDuration > pingAfter
	}))
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return bun.NewDB(pool, pgdialect.New()), nil
}

// closePool closes a pool. A connection that was abandoned is closed already.
func closePool(pool *bun.DB) error {
	if err := pool.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// dropIdle closes the idle connections of a pool. When one was cut off silently, the others probably were too, and each
// would fail a request after that request's whole deadline.
func dropIdle(pool *bun.DB) {
	pool.SetMaxIdleConns(0)
	pool.SetMaxIdleConns(pool.Stats().MaxOpenConnections)
}

// PoolStats describes the pool of connections that requests and jobs share.
func (s *Store) PoolStats() sql.DBStats { return s.db.Stats() }

// connectTimeout bounds how long opening a connection takes, so that an attempt made while the database was unreachable
// does not occupy a slot of the pool for long. A URL can set another: connect_timeout=10.
const connectTimeout = time.Second

// A server without power sends nothing. A connection to it ends after maxSilence, whether it is idle or has
// unacknowledged data. Linux would wait for the acknowledgement for 15 minutes (tcp_retries2).
const (
	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3

	maxSilence = keepAliveIdle + keepAliveCount*keepAliveInterval
)

// CheckURL returns an error if a URL cannot be a database's. The error does not contain the password.
func CheckURL(url string) error {
	_, err := connConfig(url)
	return err
}

// connConfig returns the configuration of every connection. It sets only parameters that a pooler in transaction mode
// keeps for each client (pgbouncer refuses others). Other settings that affect hosts are set in each transaction, or
// checked by checkSettings.
func connConfig(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// The error quotes the URL, and its password must not reach a log.
		return nil, errors.New("the database URL is not of the form postgres://user:password@host:port/name, or a " +
			"parameter is invalid")
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, connectTimeout)
	for name, value := range map[string]string{
		"application_name":            "assay",
		"client_encoding":             "UTF8",
		"timezone":                    "UTC",
		"datestyle":                   "ISO",
		"standard_conforming_strings": "on",
	} {
		cfg.RuntimeParams[name] = value
	}
	// A statement outside a transaction is sent whole, in one message sequence: a pooler in transaction mode may pass
	// the next sequence to another server, which knows nothing of statements prepared before.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	dialer := &net.Dialer{Control: boundSilence, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}}
	cfg.DialFunc = dialer.DialContext
	cfg.OnNotice = keepWarning
	keep := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		// A server that refuses writes is no longer the primary. The next connection may reach the new one.
		return err.Code != readOnly && keep(conn, err)
	}
	return cfg, nil
}

// dial opens a connection that belongs to no pool.
func dial(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := connConfig(url)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// checkSettings returns an error if a default of the server, the database or the role would make a host fail or lose
// acknowledged writes. Statements outside transactions cannot set these themselves.
func checkSettings(ctx context.Context, db *bun.DB) error {
	var wrong []struct{ Name, Value, Wanted, Role, Database string }
	err := transact(ctx, db, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		return query(tx, "unsuitable_settings").Scan(ctx, &wrong)
	})
	if err != nil {
		return fmt.Errorf("reading settings: %w", err)
	}
	var errs []error
	for _, w := range wrong {
		errs = append(errs, fmt.Errorf("the setting %s is %q for role %s in database %s, and hosts need %q: run "+
			"ALTER ROLE %s IN DATABASE %s SET %s TO '%s'; then start the host again (with pgbouncer, RECONNECT first)",
			w.Name, w.Value, w.Role, w.Database, w.Wanted, w.Role, w.Database, w.Name, w.Wanted))
	}
	return errors.Join(errs...)
}

// transact runs fn in a read-committed transaction. The end of ctx cancels everything but the commit: a commit that is
// cancelled while it waits for a standby would be kept by the primary only, and a failover would undo it.
func transact(ctx context.Context, db *bun.DB, fn func(ctx context.Context, tx bun.Tx) error) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	follow := context.AfterFunc(ctx, cancel)
	committing := false
	defer func() {
		if !committing {
			cancel()
		}
	}()
	tx, err := db.BeginTx(own, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() {
		if !committing {
			_ = tx.Rollback()
		}
	}()
	if _, err := tx.ExecContext(ctx, transactionSettings); err != nil {
		return err
	}
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if !follow() {
		return ctx.Err()
	}
	committing = true
	done := make(chan error, 1) // buffered, because the caller may have stopped waiting
	go func() {
		defer cancel()
		done <- tx.Commit()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for a commit: %w", ctx.Err())
	}
}

// transactionSettings makes a transaction independent of the defaults of the server, the database and the role.
var transactionSettings = "SET LOCAL lock_timeout = " + milliseconds(lockTimeout) +
	"; SET LOCAL idle_in_transaction_session_timeout = " + milliseconds(idleTimeout) +
	"; SET LOCAL jit = off" // compiling takes longer than any query here

// again calls fn until it no longer fails because of a conflict with another host, up to a hundred times with short
// pauses. fn reads without locks and then calls a database function that verifies that the data read is unchanged. A
// conflict means that another host has made progress.
func again(fn func() error) error {
	for attempt := 1; ; attempt++ {
		err := fn()
		if err == nil || attempt == 100 || !retryable(err) {
			return err
		}
		most := min(attempt, 50)
		<-time.After(rand.N(time.Duration(most) * time.Millisecond)) // hosts in conflict try again one after another
	}
}

// once runs a statement that commits by itself, and returns its row. The end of ctx does not cancel it, as in transact.
// A statement whose reply is lost is not sent again. The pool would do so, because pgx considers every failure to
// receive safe to retry. The error is a *check.DoubtError if the statement may have committed.
func once[T any](ctx context.Context, s *Store, statement string, args named) (T, error) {
	type result struct {
		row T
		err error
	}
	done := make(chan result, 1) // buffered, because the caller may have stopped waiting
	var decided atomic.Bool      // whether the statement was sent, or the caller left first
	go func() {
		var r result
		defer func() { done <- r }()
		var conn *connection
		if conn, r.err = acquire(ctx, s.db); r.err != nil {
			return
		}
		defer func() { _ = conn.release() }()
		// A connection that is found closed now has not taken the statement.
		if r.err = conn.sql.PingContext(ctx); r.err != nil || !decided.CompareAndSwap(false, true) {
			return
		}
		conn.forgetWarning()
		// A cluster serialises changes to tables that every machine has a copy of, so deadlocks are possible whatever
		// the order of the locks within a function.
		for attempt := 1; attempt == 1 || attempt <= 10 && sqlState(r.err) == deadlockDetected; attempt++ {
			r.row, r.err = only[T](context.WithoutCancel(ctx), conn.sql.NewRaw(statement, args))
		}
		if r.err == nil {
			r.err = conn.warning()
		}
		if r.err != nil && (!errors.As(r.err, new(*pgconn.PgError)) || inDoubt(r.err)) &&
			!errors.Is(r.err, sql.ErrNoRows) {
			r.err = &check.DoubtError{Err: r.err}
		}
	}()
	select {
	case r := <-done:
		return r.row, r.err
	case <-ctx.Done():
		err := fmt.Errorf("waiting for a statement that commits: %w", ctx.Err())
		if !decided.CompareAndSwap(false, true) {
			err = &check.DoubtError{Err: err}
		}
		return *new(T), err
	}
}

// only returns the row of a statement that commits by itself. The commit can fail after the row has arrived, such as on
// a full disk. bun would stop before that error if it read a single value.
func only[T any](ctx context.Context, statement *bun.RawQuery) (row T, err error) {
	var rows []T
	if err = statement.Scan(ctx, &rows); err == nil && len(rows) == 0 {
		err = sql.ErrNoRows
	}
	if err == nil {
		row = rows[0]
	}
	return row, err
}

// require is once for a function that reports whether it found the row to change. It fails with missing if not.
func (s *Store) require(ctx context.Context, missing error, call string, args named) error {
	found, err := once[bool](ctx, s, call, args)
	if err == nil && !found {
		err = missing
	}
	return err
}

// inSnapshot runs fn in a read-only transaction with one snapshot of the database. It keeps partitions from being
// dropped meanwhile: a dropped partition disappears from older snapshots too, while the anchor for it would not appear
// in them.
func (s *Store) inSnapshot(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	return s.db.RunInTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, transactionSettings); err != nil {
				return fmt.Errorf("starting snapshot: %w", err)
			}
			// LOCK TABLE takes no snapshot. The first query does.
			if _, err := tx.ExecContext(ctx, "LOCK TABLE ONLY audit_records IN ACCESS SHARE MODE"); err != nil {
				return fmt.Errorf("starting snapshot: %w", err)
			}
			return fn(ctx, tx)
		})
}

// inLongTx runs fn in a read-committed transaction on the connection for long statements. Between two statements a host
// that is stopped keeps its locks for up to longIdleTimeout, so they must be locks that no check waits for.
func (s *Store) inLongTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	begin := "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0; " +
		"SET LOCAL idle_in_transaction_session_timeout = " + milliseconds(longIdleTimeout)
	return s.onLongConn(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
			return fn(ctx, tx)
		})
	})
}

// onLongConn runs fn on its own connection, without time limits. It is for statements that process whole tables. A
// store runs one at a time.
func (s *Store) onLongConn(ctx context.Context, fn func(ctx context.Context, conn *pgx.Conn) error) error {
	select {
	case s.long <- struct{}{}:
		defer func() { <-s.long }()
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, err := dial(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = fn(ctx, conn)
	if err != nil && ctx.Err() != nil { // the error may only say that the connection was closed
		return errors.Join(ctx.Err(), err)
	}
	return err
}
