// Package store keeps everything that must outlive the host, through bun on Postgres: accounts and keys, quota, the
// audit chain, the reputation graph, webhook events, plugins and lineups. What a check leaves behind goes through the
// Ledger, which commits many checks in one transaction.
package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/keyring"
)

// Store is the database. It is safe for concurrent use.
type Store struct {
	db   *bun.DB
	url  string
	keys *keyring.Ring
	log  *slog.Logger
	now  func() time.Time

	callers callerCache
}

// Config says which database to use and how.
type Config struct {
	URL    string // postgres://...
	Keys   *keyring.Ring
	Logger *slog.Logger
	Now    func() time.Time // nil: the system's clock
}

// Deadlines of single statements. A request's own deadline is set where it comes in; these bound what one statement can
// hold up when nobody waits for it any more.
const (
	statementTimeout = 10 * time.Second
	lockTimeout      = 3 * time.Second
	idleTimeout      = 10 * time.Second
)

// Open connects to the database, brings its schema up to date and makes sure that this host has the secret that the
// database's pseudonyms were made with.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	db, err := connect(cfg.URL, 2*runtime.GOMAXPROCS(0)+4)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	s := &Store{db: db, url: cfg.URL, keys: cfg.Keys, log: cfg.Logger, now: cfg.Now}
	if err := s.migrate(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("migrating database: %w", err)
	}
	if err := s.initialize(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("opening database: %w", err)
	}
	return s, nil
}

// connect opens a pool. bun writes arguments into the statement's text, so every text is new: the simple protocol
// spares the server from preparing each, and lets several statements share one round trip.
func connect(url string, connections int) (*bun.DB, error) {
	cfg, err := connConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	for name, value := range map[string]string{
		"statement_timeout":                   milliseconds(statementTimeout),
		"lock_timeout":                        milliseconds(lockTimeout),
		"idle_in_transaction_session_timeout": milliseconds(idleTimeout),
		"jit":                                 "off", // it would compile for longer than any query here runs
	} {
		cfg.RuntimeParams[name] = value
	}
	pool := stdlib.OpenDB(*cfg)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return bun.NewDB(pool, pgdialect.New()), nil
}

// connConfig is how every connection is opened. What a value means, how transactions see each other and when a commit is
// durable must not hang on how the server, the database or the role is set up.
func connConfig(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// The error holds the URL; the password in it must not reach a log.
		return nil, errors.New("the database URL is not of the form postgres://user:password@host:port/name")
	}
	for name, value := range map[string]string{
		"application_name":                    "assay",
		"client_encoding":                     "UTF8",
		"timezone":                            "UTC",
		"datestyle":                           "ISO",
		"bytea_output":                        "hex",
		"standard_conforming_strings":         "on",
		"default_transaction_isolation":       "read committed", // behind a lock, what others have committed must be seen
		"synchronous_commit":                  "on",
		"statement_timeout":                   "0",
		"lock_timeout":                        "0",
		"idle_in_transaction_session_timeout": "0",
	} {
		cfg.RuntimeParams[name] = value
	}
	return cfg, nil
}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// Close closes the pool.
func (s *Store) Close() error { return s.db.Close() }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, "SELECT 1"); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return nil
}

// ErrOtherSecret means that the database was set up with another secret file.
var ErrOtherSecret = errors.New("the secret file is not the one that this database was set up with: with another, no pseudonym or sealed value in it could be read again; copy the secret file of its first host here, or set ASSAY_SECRET_FILE")

// initialize puts in what every database needs before its first check.
func (s *Store) initialize(ctx context.Context) error {
	var fingerprint []byte
	err := s.db.NewRaw(`INSERT INTO installation (secret_fingerprint) VALUES (?)
		ON CONFLICT (only_row) DO UPDATE SET only_row = true RETURNING secret_fingerprint`, s.keys.Fingerprint).Scan(ctx, &fingerprint)
	if err != nil {
		return fmt.Errorf("comparing secrets: %w", err)
	}
	if !bytes.Equal(fingerprint, s.keys.Fingerprint) {
		return ErrOtherSecret
	}
	if err := s.createHeads(ctx); err != nil {
		return err
	}
	if err := s.settlePublicAccount(ctx); err != nil {
		return err
	}
	return s.EnsurePartitions(ctx)
}

// inTx runs fn in a read-committed transaction, again up to three times when Postgres asks for it (40001, 40P01).
func (s *Store) inTx(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := s.db.RunInTx(ctx, &sql.TxOptions{}, fn)
		if err == nil || attempt == 3 || !retryable(err) {
			return err
		}
	}
}

// retryable says whether Postgres rolled the transaction back only because of others.
func retryable(err error) bool {
	state := sqlState(err)
	return state == "40001" || state == "40P01"
}

// sqlState is the error's SQLSTATE, or "" when it did not come from Postgres itself.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// isDataError says whether a statement failed for what it held, not for the state of the server or the connection
// (SQLSTATE classes 21 to 23: cardinality, data, integrity).
func isDataError(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "21") || strings.HasPrefix(state, "22") || strings.HasPrefix(state, "23")
}
