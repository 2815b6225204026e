package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/customer/webhook"
)

// Outbox is the durable queue of webhook events. Due times are kept in the database and compared with its clock, so any
// host can continue what another host began. It is safe for concurrent use.
type Outbox struct {
	store    *Store
	claims   *bun.DB
	outcomes *bun.DB
}

var _ webhook.Outbox = (*Outbox)(nil)

// interrupted is the logged error of an attempt whose host stopped during it.
const interrupted = "the host stopped before the attempt's outcome was known"

// NewOutbox opens the queue. It has its own database connections, so that many receivers that respond at once do not
// delay checks.
func (s *Store) NewOutbox() (*Outbox, error) {
	claims, err := connect(s.url, claimConnections)
	if err != nil {
		return nil, fmt.Errorf("opening outbox: %w", err)
	}
	outcomes, err := connect(s.url, outcomeConnections)
	if err != nil {
		return nil, fmt.Errorf("opening outbox: %w", errors.Join(err, claims.Close()))
	}
	return &Outbox{store: s, claims: claims, outcomes: outcomes}, nil
}

// Close closes the outbox's connections.
func (o *Outbox) Close() error { return errors.Join(closePool(o.claims), closePool(o.outcomes)) }

// Claim implements webhook.Outbox. It claims one event of each account before a second one of any.
func (o *Outbox) Claim(ctx context.Context, opts webhook.ClaimOptions) ([]webhook.Delivery, error) {
	if !o.store.holdsKeys() {
		return nil, nil
	}
	var chains []int
	err := query(o.claims, "due_chains").Scan(ctx, &chains)
	var due []dueEvent
	for _, chain := range chains {
		events, err2 := o.dueEvents(ctx, chain, opts)
		due, err = append(due, events...), errors.Join(err, err2) // a chain that fails must not keep others waiting
	}
	slices.SortFunc(due, func(a, b dueEvent) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), a.NextAttemptAt.Compare(b.NextAttemptAt))
	})
	byChain := map[int][]dueEvent{}
	for _, e := range due[:min(len(due), opts.MaxEvents)] {
		byChain[e.Chain] = append(byChain[e.Chain], e)
	}
	var claimed []webhook.Delivery
	for chain, events := range byChain {
		deliveries, err2 := o.claim(ctx, chain, events)
		claimed, err = append(claimed, deliveries...), errors.Join(err, err2)
	}
	return claimed, wrap(err, "claiming webhook events")
}

// dueEvent is an event that can be claimed.
type dueEvent struct {
	Chain         int `bun:"-"`
	Ref           string
	NextAttemptAt time.Time
	Interrupted   bool // an attempt was begun and not recorded within its lease
	Rank          int  // among those of the account, from 1
}

func (o *Outbox) dueEvents(ctx context.Context, chain int, opts webhook.ClaimOptions) (due []dueEvent, err error) {
	except := append([]string{""}, opts.Except...) // never empty: NOT IN (NULL) is never true
	err = query(o.claims, "due_events", named{
		"chain": chain, "restricted": len(opts.Only) > 0, "only": bun.List(opts.Only), "except": bun.List(except),
		"max_events": opts.MaxEvents, "max_per_account": opts.MaxPerAccount, "test_prefix": testPrefix,
	}).Scan(ctx, &due)
	for i := range due {
		due[i].Chain = chain
	}
	return due, err
}

// claim claims events of a chain that no other host has claimed meanwhile.
func (o *Outbox) claim(ctx context.Context, chain int, due []dueEvent) (claimed []webhook.Delivery, err error) {
	var refs, interruptedRefs []string
	for _, e := range due {
		refs = append(refs, e.Ref)
		if e.Interrupted {
			interruptedRefs = append(interruptedRefs, e.Ref)
		}
	}
	if err := logInterruptedAttempts(ctx, o.claims, chain, interruptedRefs); err != nil {
		return nil, err
	}
	var rows []struct {
		Ref, AccountID, Event, URL  string
		Attempts                    int
		Sequence                    int64
		SealedPayload, SealedSecret []byte
		OldSecrets                  string // sealed, in hexadecimal, separated by spaces
		LateMicros                  int64
	}
	err = query(o.claims, "claim_events", named{"chain": chain, "refs": bun.List(refs),
		"lease": webhook.AttemptLease.Microseconds()}).Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		d := webhook.Delivery{Chain: chain, Ref: r.Ref, AccountID: r.AccountID, Event: r.Event, Attempt: r.Attempts,
			Sequence: r.Sequence, URL: r.URL, Late: time.Duration(r.LateMicros) * time.Microsecond}
		d.Body, d.Secrets, err = o.open(r.Ref, r.AccountID, r.SealedPayload, r.SealedSecret, r.OldSecrets)
		if err != nil {
			if err := o.store.lacksKeys(ctx); err != nil {
				return claimed, err // when their leases expire, another host sends the rest
			}
			// The stored payload or secret was altered. If that can be undone, the event can be sent again.
			o.store.log.Error("webhook event cannot be opened", "ref", r.Ref, "error", err)
			_, err := o.claims.NewRaw(`UPDATE webhook_events
				SET state = 'failed', next_attempt_at = NULL, leased_until = NULL, settled_at = now()
				WHERE chain = ? AND ref = ? AND state = 'pending'`, chain, r.Ref).Exec(ctx)
			if err != nil {
				return claimed, err
			}
			continue
		}
		claimed = append(claimed, d)
	}
	return claimed, nil
}

// logInterruptedAttempts logs the attempts of events whose lease has expired.
func logInterruptedAttempts(ctx context.Context, db bun.IDB, chain int, refs []string) error {
	if len(refs) == 0 {
		return nil
	}
	_, err := query(db, "log_interrupted", named{"chain": chain, "refs": bun.List(refs),
		"lease": webhook.AttemptLease.Microseconds(), "interrupted": interrupted}).Exec(ctx)
	return err
}

// open decrypts an event's payload and its account's secrets.
func (o *Outbox) open(ref, accountID string, payload, current []byte, old string) (body []byte, secrets []string,
	err error) {
	body, err = o.store.keys.Open(payload, eventContext(ref))
	if err != nil {
		return nil, nil, err
	}
	var sealed [][]byte
	for text := range strings.FieldsSeq(old) {
		raw, err := hex.DecodeString(text)
		if err != nil {
			return nil, nil, err
		}
		sealed = append(sealed, raw)
	}
	for _, s := range append(sealed, current) {
		secret, err := o.store.keys.Open(s, endpointContext(accountID))
		if err != nil {
			return nil, nil, err
		}
		secrets = append(secrets, string(secret))
	}
	return body, secrets, nil
}

// Finish implements webhook.Outbox. It logs the attempt, and either completes its event or schedules the next attempt.
// A success always counts. A failure is ignored if it was recorded before, as when the database's reply was lost, or if
// the lease has expired and another host has begun the next attempt.
//
// Finish also tracks failures of the endpoint, and disables an endpoint that has failed for webhook.DisableAfter. A
// success ends the series of failures. It also enables an endpoint that was disabled while the attempt was in flight,
// whichever of the two is recorded first.
func (o *Outbox) Finish(ctx context.Context, out webhook.Outcome) (delay time.Duration, retry bool, err error) {
	conn, err := o.outcomes.Conn(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("recording webhook attempt: %w", err)
	}
	defer conn.Close()
	elapsed := max(0, time.Since(out.EndedAt)) // includes the wait for a connection
	delays := column(webhook.RetryDelays[:], time.Duration.Microseconds)
	var row struct {
		DelayMicros *int64
		AccountID   *string
	}
	args := named{
		"chain": out.Chain, "ref": out.Ref, "attempt": out.Attempt, "delivered": out.Delivered, "status": out.Status,
		"error": out.Error, "elapsed": elapsed.Microseconds(), "took": max(0, out.Took).Microseconds(),
		"sealed_response": o.sealResponse(out), "sealed_exchange": o.sealExchange(out),
		"retries": len(delays), "retry_delays": pgdialect.Array(delays),
		"max_failure_gap":  int(maxFailureGap.Seconds()),
		"failure_interval": int(failureInterval.Seconds()),
		"disable_after":    int(webhook.DisableAfter.Seconds()),
	}
	err = query(conn, "finish_attempt", args).Scan(ctx, &row)
	if isDataError(err) {
		o.store.log.Warn("webhook attempt was not logged: its event is gone", "ref", out.Ref, "error", err)
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("recording webhook attempt: %w", err)
	}
	if row.AccountID != nil {
		args["account"] = *row.AccountID
		disabled, err := only[bool](ctx, query(conn, "endpoint_outcome", args))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, false, fmt.Errorf("recording webhook attempt: %w", err)
		}
		if disabled {
			o.store.log.Warn("webhook endpoint was disabled: every attempt has failed for days",
				"account", *row.AccountID, "ref", out.Ref)
		}
	}
	if row.DelayMicros == nil {
		return 0, false, nil
	}
	return time.Duration(*row.DelayMicros) * time.Microsecond, true, nil
}

func (o *Outbox) sealResponse(out webhook.Outcome) []byte {
	if len(out.ResponseBody) == 0 {
		return nil
	}
	return o.store.keys.Seal(out.ResponseBody, responseContext(out.Ref, out.Attempt))
}

func responseContext(ref string, attempt int) string {
	return fmt.Sprintf("answer %s %d", ref, attempt)
}

func (o *Outbox) sealExchange(out webhook.Outcome) []byte {
	text, err := json.Marshal(exchange{out.Request, out.ResponseHeader})
	if err != nil {
		panic(err) // texts only
	}
	return o.store.keys.Seal(text, exchangeContext(out.Ref, out.Attempt))
}

func exchangeContext(ref string, attempt int) string {
	return fmt.Sprintf("exchange %s %d", ref, attempt)
}
