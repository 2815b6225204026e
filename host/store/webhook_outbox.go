package store

import (
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/webhook"
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
func (o *Outbox) Close() error { return errors.Join(o.claims.Close(), o.outcomes.Close()) }

//go:embed sql/claim_events.sql
var claimEvents string

// Claim implements webhook.Outbox. It claims one event of each account before a second one of any.
func (o *Outbox) Claim(ctx context.Context, opts webhook.ClaimOptions) ([]webhook.Delivery, error) {
	var rows []struct {
		Ref, AccountID, Event, URL  string
		Attempts                    int
		Sequence                    int64
		SealedPayload, SealedSecret []byte
		OldSecrets                  string // sealed, in hexadecimal, separated by spaces
		LateMicros                  int64
	}
	except := append([]string{""}, opts.Except...) // never empty: NOT IN (NULL) is never true
	err := o.claims.NewRaw(claimEvents, named{
		"restricted": len(opts.Only) > 0, "only": bun.List(opts.Only), "except": bun.List(except),
		"max_events": opts.MaxEvents, "max_per_account": opts.MaxPerAccount,
		"lease": webhook.AttemptLease.Microseconds(), "interrupted": interrupted, "test_prefix": testPrefix,
	}).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("claiming webhook events: %w", err)
	}
	claimed := make([]webhook.Delivery, 0, len(rows))
	for _, r := range rows {
		d := webhook.Delivery{Ref: r.Ref, AccountID: r.AccountID, Event: r.Event, Attempt: r.Attempts,
			Sequence: r.Sequence, URL: r.URL, Late: time.Duration(r.LateMicros) * time.Microsecond}
		d.Body, d.Secrets, err = o.open(r.Ref, r.AccountID, r.SealedPayload, r.SealedSecret, r.OldSecrets)
		if err != nil {
			// The stored payload or secret was altered, so the event can never be sent.
			o.store.log.Error("webhook event cannot be opened", "ref", r.Ref, "error", err)
			if _, err := discardEvents(o.claims).Where("ref = ?", r.Ref).Exec(ctx); err != nil {
				return nil, fmt.Errorf("claiming webhook events: %w", err)
			}
			continue
		}
		claimed = append(claimed, d)
	}
	return claimed, nil
}

// open decrypts an event's payload and its account's secrets.
func (o *Outbox) open(ref, accountID string, payload, current []byte, old string) (body []byte, secrets []string,
	err error) {
	body, err = o.store.keys.Open(payload, eventContext(ref))
	if err != nil {
		return nil, nil, err
	}
	sealed := [][]byte{current}
	for text := range strings.FieldsSeq(old) {
		raw, err := hex.DecodeString(text)
		if err != nil {
			return nil, nil, err
		}
		sealed = append(sealed, raw)
	}
	for _, s := range sealed {
		secret, err := o.store.keys.Open(s, endpointContext(accountID))
		if err != nil {
			return nil, nil, err
		}
		secrets = append(secrets, string(secret))
	}
	return body, secrets, nil
}

//go:embed sql/finish_attempt.sql
var finishAttempt string

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
	var delays []int64
	for _, d := range webhook.RetryDelays {
		delays = append(delays, d.Microseconds())
	}
	var row struct {
		Disabled    *string
		DelayMicros *int64
	}
	err = conn.NewRaw(finishAttempt, named{
		"ref": out.Ref, "attempt": out.Attempt, "delivered": out.Delivered, "status": out.Status, "error": out.Error,
		"elapsed": elapsed.Microseconds(), "took": max(0, out.Took).Microseconds(),
		"sealed_response": o.sealResponse(out),
		"retries":         len(delays), "retry_delays": pgdialect.Array(delays),
		"max_failure_gap":  int(maxFailureGap.Seconds()),
		"failure_interval": int(failureInterval.Seconds()),
		"disable_after":    int(webhook.DisableAfter.Seconds()),
	}).Scan(ctx, &row)
	if isDataError(err) {
		o.store.log.Warn("webhook attempt was not logged: its event is gone", "ref", out.Ref, "error", err)
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("recording webhook attempt: %w", err)
	}
	if row.Disabled != nil {
		o.store.log.Warn("webhook endpoint was disabled: every attempt has failed for days", "account", *row.Disabled,
			"ref", out.Ref)
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
