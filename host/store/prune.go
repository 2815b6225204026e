package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/customer/billing"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
)

// How long data is kept that has no other limit on its age.
const (
	answerRetention = 24 * time.Hour
	// strayRetention is for subscriptions without an account. Stripe resends an event for three days.
	strayRetention         = 30 * 24 * time.Hour
	keyRetention           = 30 * 24 * time.Hour              // of the hash of an ended key (contract section 8)
	refundRetention        = 30 * 24 * time.Hour              // refunds are shown for this long
	overrideRetention      = 24 * time.Hour                   // expired overrides are listed for this long
	registrationMaxAge     = 60 * 24 * time.Hour              // those still checked are refreshed weekly
	failedPayloadRetention = privacy.PayloadHours * time.Hour // also of response bodies, which may echo the payload
	webhookRetention       = privacy.EventDays * 24 * time.Hour
)

// expiry is a rule of retention: which rows of a table are deleted, or emptied, at which age.
type expiry struct {
	table string
	// What identifies a row within its chain, or "ctid" in tables of the reputation graph, which are large. Rows are
	// then deleted in small batches, without those that are locked. "": one statement deletes all of them.
	key  string
	set  string // the assignment made instead of deleting the row; "": it is deleted
	when string // the rows' condition; ?before is the time of the given age
	age  time.Duration
}

// retention lists everything that Prune and PruneSightings delete. The audit log has its own rules, see AuditDue and
// ThinCheckpoints.
var retention = []expiry{
	{"rate_uses", "", "", "used_at <= ?before", time.Minute},
	{"public_uses", "", "", "expires_at <= ?before", 0},
	{"sessions", "", "", "expires_at <= ?before", 0},
	{"sign_in_links", "", "", "expires_at <= ?before", 0},
	{"hosts", "", "", "seen_at < ?before", time.Hour}, // their process was killed
	{"candidates", "", "", "expires < ?before", 0},
	{"overrides", "", "", "expires_at < ?before", overrideRetention}, // the audit log records when they expired
	{"registrations", "", "", "fetched_at < ?before", registrationMaxAge},
	{"api_keys", "", "", "state <> 'valid' AND ended_at < ?before OR expires_at < ?before", keyRetention},
	{"key_uses", "key_id", "", "NOT EXISTS (SELECT FROM api_keys AS k WHERE k.id = key_uses.key_id)", 0},
	{"billing_checkouts", "", "", "created_at < ?before", billing.ClaimLife},
	{"billing_tabs", "", "", "created_at < ?before", billing.ClaimLife},
	{"billing_declines", "", "", "declined_at < ?before", billing.DeclineWindow},
	{"billing_refunds", "", "", "refunded_at < ?before", refundRetention},
	{"billing_subscriptions", "", "", "account_id IS NULL AND changed_at < ?before " +
		"AND id NOT IN (SELECT subscription_id FROM billing_refunds)", strayRetention},
	{"webhook_old_secrets", "", "", "ends_at <= ?before", 0},
	{"ledger_settlements", "batch", "", "settled_at < ?before", 24 * time.Hour}, // a batch arrives in seconds or never
	{"answers", "account_id, key_hash", "", "kept_at <= ?before", answerRetention},
	// Also delete parts that no request needs. The next rule is applied later, so an export may end in between.
	{"export_parts", "id, after", "", "NOT EXISTS (SELECT FROM subject_requests AS q " +
		"WHERE q.chain = export_parts.chain AND q.id = export_parts.id " +
		"AND (q.state = 'running' OR q.state = 'done' AND q.settled_at > ?before))", privacy.KeepExport},
	{"subject_requests", "id", "state = 'deleted'", "kind = 'export' AND state = 'done' AND settled_at <= ?before",
		privacy.KeepExport},
	{"subject_requests", "id", "", "settled_at <= ?before", privacy.KeepRequest},
	// Resending an event does not keep its payload longer.
	{"webhook_events", "ref", "sealed_payload = NULL", "state = 'failed' AND sealed_payload IS NOT NULL " +
		"AND created_at <= ?before", failedPayloadRetention},
	{"webhook_events", "ref", "", "settled_at <= ?before", webhookRetention},
	{"webhook_attempts", "ref, number", "sealed_answer = NULL", "sealed_answer IS NOT NULL AND started_at <= ?before",
		failedPayloadRetention},
	{"webhook_attempts", "ref, number", "sealed_exchange = NULL",
		"sealed_exchange IS NOT NULL AND started_at <= ?before", webhook.ExchangeRetention},
	// Stored requests and responses are deleted with the endpoint.
	{"webhook_attempts", "ref, number", "sealed_exchange = NULL", "sealed_exchange IS NOT NULL AND EXISTS (" +
		"SELECT FROM webhook_events AS e WHERE e.chain = webhook_attempts.chain AND e.ref = webhook_attempts.ref " +
		"AND NOT EXISTS (SELECT FROM webhook_endpoints AS w WHERE w.account_id = e.account_id))", 0},
	{"graph_edges", "ctid", "", "last_seen <= ?before", sightingMaxAge},
	{"graph_sightings", "ctid", "", "last_seen <= ?before", sightingMaxAge},
	{"graph_unreadable", "ctid", "", "found_at <= ?before", sightingMaxAge},
}

// pruneBatch bounds the rows that one statement deletes, because others may wait for them.
const pruneBatch = 1_000

// statement returns the statement of a rule. On a cluster it names the chain.
func (e expiry) statement(cluster bool) string {
	doing := "DELETE FROM " + e.table
	if e.set != "" {
		doing = "UPDATE " + e.table + " SET " + e.set
	}
	if e.key == "" {
		return doing + " WHERE " + e.when
	}
	of := ""
	if cluster {
		of = "chain = ?chain AND "
	}
	return fmt.Sprintf("%s WHERE %s(%[3]s) IN (SELECT %[3]s FROM %s WHERE %[2]s%[5]s "+
		"LIMIT ?limit FOR UPDATE SKIP LOCKED)", doing, of, "chain, "+e.key, e.table, e.when)
}

// Prune deletes data past its retention, except in the audit log and the reputation graph, and fails webhook events
// that can never be sent. An error in one table does not stop the pruning of the others.
func (s *Store) Prune(ctx context.Context) error {
	chains, err := s.chains(ctx)
	cluster := false
	if err == nil {
		cluster, err = s.distributed(ctx, "answers")
	}
	if err != nil {
		return fmt.Errorf("pruning: %w", err)
	}
	for _, chain := range chains {
		err = errors.Join(err, wrap(s.failUndeliverable(ctx, chain), "failing webhook events that cannot be sent"))
	}
	if !cluster {
		chains = chains[:min(len(chains), 1)] // one statement for all of them
	}
	for _, e := range retention {
		if e.key != "ctid" {
			err = errors.Join(err, wrap(s.expire(ctx, e, chains, cluster), "pruning %s", e.table))
		}
	}
	return err
}

// expire applies a rule.
func (s *Store) expire(ctx context.Context, e expiry, chains []int, cluster bool) error {
	args := named{"before": s.earliest().Add(-e.age), "limit": pruneBatch}
	for i := 0; i < len(chains) && (i == 0 || e.key != ""); {
		args["chain"] = chains[i]
		result, err := s.db.NewRaw(e.statement(cluster), args).Exec(ctx)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if n < pruneBatch || e.key == "" {
			i++
		}
	}
	return nil
}

// failUndeliverable fails the pending events of a chain whose endpoint is disabled, and discards those of accounts
// without an endpoint. No event waits for longer than a minute. For two leases after an endpoint was disabled, the
// success of an attempt in flight may still enable it. Its events then continue on schedule.
func (s *Store) failUndeliverable(ctx context.Context, chain int) error {
	var refs []string
	args := named{"chain": chain, "lease": webhook.AttemptLease.Microseconds(), "test_prefix": testPrefix,
		"now": s.now()}
	err := query(s.db, "interrupted_of_disabled", args).Scan(ctx, &refs)
	if err == nil {
		err = logInterruptedAttempts(ctx, s.db, chain, refs)
	}
	if err == nil {
		_, err = query(s.db, "fail_events_of_disabled", args).Exec(ctx)
	}
	if err == nil { // the database's clock was ahead
		_, err = s.db.NewRaw(`UPDATE webhook_events SET next_attempt_at = ?now, -- as Citus accepts it
			leased_until = CASE WHEN leased_until IS NOT NULL THEN ?now::timestamptz END WHERE chain = ?chain
			AND state = 'pending' AND next_attempt_at > now() + interval '1 minute'`, args).Exec(ctx)
	}
	if err == nil {
		_, err = discardEvents(s.db).Where("chain = ?", chain).Where(`NOT EXISTS (
			SELECT FROM webhook_endpoints AS w WHERE w.account_id = webhook_events.account_id)`).Exec(ctx)
	}
	return err
}

// graphPruneBatch bounds the rows of the graph that one transaction locks, because others may have to wait for them.
const graphPruneBatch = 5_000

// PruneSightings deletes rows that are too old to count from the graph. It scans whole tables, because an index on
// last_seen would slow down every check. Rows that are locked are skipped until the next run, so that there are no
// deadlocks. Each statement commits by itself: the projection waits for its rows, and this host may stop.
func (s *Store) PruneSightings(ctx context.Context) error {
	for _, e := range retention {
		if e.key != "ctid" {
			continue
		}
		distributed, err := s.distributed(ctx, e.table)
		for deleted := graphPruneBatch; err == nil && deleted == graphPruneBatch; {
			err = s.onLongConn(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
				deleted, err = e.pruneGraph(ctx, conn, s.earliest().UTC().Add(-e.age), distributed)
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("pruning the reputation graph: %w", err)
		}
	}
	return nil
}

// pruneGraph deletes up to graphPruneBatch old rows that are not locked and returns how many. From a distributed table
// it deletes as many from each shard, each in a transaction of its own, and returns the largest number: Citus locks and
// limits rows of one shard at a time.
func (e expiry) pruneGraph(ctx context.Context, conn *pgx.Conn, before time.Time, distributed bool) (n int, err error) {
	statement := fmt.Sprintf(`DELETE FROM %%1$s WHERE ctid IN (
		SELECT ctid FROM %%1$s WHERE %s LIMIT %d FOR UPDATE SKIP LOCKED)`,
		strings.ReplaceAll(e.when, "?before", "'"+before.Format(time.RFC3339Nano)+"'"), graphPruneBatch)
	if !distributed {
		tag, err := conn.Exec(ctx, strings.ReplaceAll(statement, "%1$s", e.table))
		return int(tag.RowsAffected()), err
	}
	var failed *string
	err = conn.QueryRow(ctx, `SELECT string_agg(result, '; ') FILTER (WHERE NOT success),
			coalesce(max(substring(result FROM '^DELETE (\d+)$')::int), 0)
		FROM run_command_on_shards($1::text::regclass, $2)`, e.table, statement).Scan(&failed, &n)
	if err == nil && failed != nil {
		err = errors.New(*failed)
	}
	return n, err
}

// Once returns a job that runs once in each interval for the whole installation, whichever host comes first. After an
// error, any host tries again a minute later. elsewhere, unless it is nil, is called if another host has run the job.
func (s *Store) Once(name string, every time.Duration, run func(context.Context) error, elsewhere func()) (
	job func(context.Context) error) {
	return func(ctx context.Context) error {
		args := named{"name": name, "wait": (every * 9 / 10).Seconds(), "again": min(every, time.Minute).Seconds()}
		_, err := once[string](ctx, s, `INSERT INTO jobs AS j (name, due_at)
			VALUES (?name, now() + make_interval(secs => ?wait)) ON CONFLICT (name) DO UPDATE
			SET due_at = EXCLUDED.due_at WHERE EXCLUDED.due_at - j.due_at >= make_interval(secs => ?wait)
				OR j.due_at - EXCLUDED.due_at > make_interval(secs => ?wait) -- the database's clock was ahead
			RETURNING name`, args) // j.due_at <= now(), as Citus accepts it
		if errors.Is(err, sql.ErrNoRows) { // another host has run it
			if elsewhere != nil {
				elsewhere()
			}
			return nil
		}
		if err == nil {
			err = run(ctx)
		}
		if err != nil {
			_, failed := s.db.NewRaw(`UPDATE jobs SET due_at = now() + make_interval(secs => ?again)
				WHERE name = ?name`, args).Exec(context.WithoutCancel(ctx))
			err = errors.Join(err, failed)
		}
		return err
	}
}
