// Package store keeps all persistent state in Postgres, through bun: accounts and keys, quotas, audit chains, the
// reputation graph, webhook events, plugins and lineups. Checks are recorded through [Ledger], which commits many in
// one transaction. The algorithms on this data, such as hash chains and webhook delivery, are in other packages.
//
// The package is flat, and its files are named for what they keep: most statements change an account, its audit chain
// and something else in one transaction, so a folder for each kind of data would export what only they share.
package store

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"assay/host/access/admission"
	"assay/host/access/apikey"
	"assay/host/access/keyring"
	"assay/host/access/signin"
	"assay/host/audit"
	"assay/host/check"
	"assay/host/internal/lru"
	"assay/host/internal/maintenance"
)

// Store is a database with a current schema. It is safe for concurrent use.
type Store struct {
	AuditLog  // outside a snapshot
	db        *bun.DB
	url       string
	direct    string        // as url, but not through a pooler
	long      chan struct{} // held by the long transaction in progress
	keys      *keyring.Ring
	signer    *audit.Signer // of the audit log
	log       *slog.Logger
	now       func() time.Time // see time
	hostNow   func() time.Time
	schema    string // the last migration that this host knows
	newChains int    // new accounts are spread over the chains below this number

	watched   watched
	activated atomic.Pointer[activated] // the last one that was read
	lists     atomic.Pointer[readLists]
	callers   *lru.Cache[apikey.Hash, cachedCaller]
	strangers *lru.Cache[signin.Hash, time.Time] // see Session
	spent     *lru.Cache[string, time.Time]      // see Take
	counted   *lru.Cache[span, pastDays]         // see CountDays
	counting  *admission.Shares                  // of counts that run at once, by account
	uses      keyUses
}

// Config configures a Store.
type Config struct {
	URL       string // postgres://...
	DirectURL string // of the same database, for migrations and notifications if URL is a pooler's; "": URL
	// Connections bounds the host's connections to the database; 0: DefaultConnections. The ledger, the outbox,
	// notifications and long transactions have otherConnections of them.
	Connections int
	Keys        *keyring.Ring
	Logger      *slog.Logger
	Now         func() time.Time // the host's clock; nil: time.Now
	Chains      int              // new accounts are spread over this many audit chains; 0: 1
	Schema      Schema
	Wait        time.Duration // how long Open waits for a database that is down
}

// MaxChains bounds the number of audit chains. A host has a queue for each, and signs a checkpoint of each that moved.
const MaxChains = 1024

// Open connects to the database, compares the host's secret with the one that the database's pseudonyms were derived
// from, and brings the schema to this version as far as cfg.Schema permits. It fails with ErrOtherSecret if the secrets
// differ.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Chains = max(cfg.Chains, 1)
	cfg.Connections = cmp.Or(cfg.Connections, DefaultConnections)
	if cfg.Connections < MinConnections {
		return nil, fmt.Errorf("opening database: a host needs at least %d connections", MinConnections)
	}
	db, err := connect(cfg.URL, cfg.Connections-otherConnections)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	s := &Store{AuditLog: AuditLog{db: db}, db: db, url: cfg.URL, direct: cmp.Or(cfg.DirectURL, cfg.URL),
		long: make(chan struct{}, 1),
		keys: cfg.Keys, signer: audit.NewSigner(audit.KeyName, cfg.Keys.SignSeed), log: cfg.Logger,
		hostNow: cfg.Now, newChains: cfg.Chains,
		callers:   lru.New[apikey.Hash, cachedCaller](maxCached, 0),
		strangers: lru.New[signin.Hash, time.Time](maxCached, 0),
		spent:     lru.New[string, time.Time](maxSpent, maxSpent),
		counted:   lru.New[span, pastDays](maxCounts, maxCounts),
		counting:  admission.NewShares(max(1, cfg.Connections-otherConnections-2))}
	for _, g := range cfg.Keys.Generations()[1:] {
		s.signer.Hold(g.SignSeed)
	}
	s.now = s.time
	settings := func(ctx context.Context) error { return checkSettings(ctx, db) }
	err = whenStarted(ctx, settings)
	if cfg.Wait > 0 && isOutage(err) {
		s.log.Warn("the database is down: waiting for it", "for", cfg.Wait.String(), "error", err)
	}
	for end := time.Now().Add(cfg.Wait); isOutage(err) && ctx.Err() == nil && time.Now().Before(end); {
		<-time.After(retryInterval)
		err = whenStarted(ctx, settings)
	}
	err = wrap(err, "opening database")
	if err == nil {
		err = s.prepareSchema(ctx, cfg.Schema)
	}
	if err == nil {
		err = wrap(whenStarted(ctx, s.initialise), "opening database")
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// startTimeout is how long a starting host waits for a Postgres that is also starting, or recovering.
const startTimeout = 30 * time.Second

// whenStarted calls f until the database accepts connections. One that takes long to accept them is busy, so
// whenStarted tries again.
func whenStarted(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := f(ctx)
		starting := sqlState(err) == cannotConnectNow || pgconn.Timeout(err)
		if !starting || !maintenance.Pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// Close closes the pool.
func (s *Store) Close() error { return closePool(s.db) }

// ErrOtherSecret means that the database was created with another secret file.
var ErrOtherSecret = errors.New("the secret file differs from the one that this database was created with, " +
	"so this host cannot read the database's pseudonyms and sealed values; " +
	"copy the secret file of an existing host here, or set ASSAY_SECRET_FILE")

// initialise compares secrets and creates the rows and partitions that checks depend on.
func (s *Store) initialise(ctx context.Context) error {
	// The update changes nothing, but makes RETURNING include an existing row.
	fingerprint, err := only[[]byte](ctx, s.db.NewRaw(`INSERT INTO installation (secret_fingerprint) VALUES (?)
		ON CONFLICT (only_row) DO UPDATE SET only_row = true RETURNING secret_fingerprint`, s.keys.Fingerprint))
	if err != nil {
		return fmt.Errorf("comparing secrets: %w", err)
	}
	if !bytes.Equal(fingerprint, s.keys.Fingerprint) {
		return ErrOtherSecret
	}
	if err := s.LearnKeys(ctx); err != nil {
		return err
	}
	if err := s.createHeads(ctx); err != nil {
		return err
	}
	if err := s.createPublicAccount(ctx); err != nil {
		return err
	}
	return s.EnsurePartitions(ctx)
}

// SQLSTATE codes (PostgreSQL, appendix A).
const (
	invalidAuthorization      = "28000" // the function require_key
	noDataFound               = "P0002" // the function set_plan
	serializationFailure      = "40001"
	deadlockDetected          = "40P01"
	lockNotAvailable          = "55P03"
	readOnly                  = "25006" // a standby, during a failover
	diskFull                  = "53100"
	undefinedTable            = "42P01"
	invalidFunctionDefinition = "42P13"
	uniqueViolation           = "23505"
	cannotConnectNow          = "57P03" // Postgres is starting, recovering or stopping
)

// retryable reports whether Postgres rolled the transaction back because of a conflict with another transaction.
func retryable(err error) bool {
	state := sqlState(err)
	return state == serializationFailure || state == deadlockDetected
}

// sqlState returns the error's SQLSTATE, or "" if the error did not come from Postgres.
func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// isOutage reports whether a statement failed for a reason other than its text and values: the database did not
// respond, is stopping, short of resources or read-only, or other transactions interfered.
func isOutage(err error) bool {
	if state := sqlState(err); state != "" {
		return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "40") || strings.HasPrefix(state, "53") ||
			strings.HasPrefix(state, "57") || strings.HasPrefix(state, "58") || state == lockNotAvailable ||
			state == readOnly
	}
	return errors.As(err, new(net.Error)) || errors.As(err, new(*pgconn.ConnectError)) ||
		pgconn.SafeToRetry(err) || pgconn.Timeout(err) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone)
}

// IsOutage reports whether err is due to an outage of the database, so that trying again later may help.
func IsOutage(err error) bool { return isOutage(err) }

// withOutage returns err as an *check.UnavailableError if it is due to an outage of the database.
func withOutage(err error) error {
	if isOutage(err) {
		return &check.UnavailableError{Part: "database", Err: err}
	}
	return err
}

// concluding says what failed, and whether that is due to an outage of the database. It is deferred.
func concluding(doing string, err *error) { *err = withOutage(wrap(*err, "%s", doing)) }

// isDataError reports whether a statement failed because of its values, not because of the server or the connection
// (SQLSTATE classes 21 to 23: cardinality, data and integrity).
func isDataError(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "21") || strings.HasPrefix(state, "22") || strings.HasPrefix(state, "23")
}
