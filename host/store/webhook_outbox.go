package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// AttemptLease is how long an attempt belongs to the host that began it. An attempt must be over before: behind the
// lease, its host is taken for dead and another carries on.
const AttemptLease = 15 * time.Second

// The schedule of attempts (spec sections 3 and 8) stands in Finish's statement: the first at once, then 1, 4 and 16
// seconds after the end of the one before, and no more.

// interrupted is the log's word on an attempt whose host did not live to tell.
const interrupted = "the host stopped before the attempt's outcome was known"

// logInterrupted logs such attempts.
const logInterrupted = `INSERT INTO webhook_attempts (ref, number, started_at, error)
	SELECT ref, attempts, leased_until - ?lease * interval '1 microsecond', ?interrupted`

// Outbox is the durable queue of webhook events. All that says when an attempt is due is in the database and measured
// by its clock, so any host can carry on what another has begun. It is safe for concurrent use.
type Outbox struct {
	store  *Store
	claims *bun.DB
	ends   *bun.DB
}

// What delivery takes of the database's connections, however many attempts end at once. A claim must not wait behind
// them.
const (
	claimConnections = 1
	endConnections   = 3
)

// NewOutbox opens the queue, with connections of its own: receivers that all answer at once must not hold up checks.
func (s *Store) NewOutbox() (*Outbox, error) {
	claims, err := connect(s.url, claimConnections)
	if err != nil {
		return nil, fmt.Errorf("opening outbox: %w", err)
	}
	ends, err := connect(s.url, endConnections)
	if err != nil {
		return nil, fmt.Errorf("opening outbox: %w", errors.Join(err, claims.Close()))
	}
	return &Outbox{store: s, claims: claims, ends: ends}, nil
}

// Close closes the outbox's connections.
func (o *Outbox) Close() error { return errors.Join(o.claims.Close(), o.ends.Close()) }

// Want says what to claim.
type Want struct {
	Events  int      // at most
	Account int      // of one account, at most
	Only    []string // when not empty, of these accounts alone
	Not     []string // of none of these accounts
}

// Delivery is an attempt that this host is to make.
type Delivery struct {
	Ref      string
	Account  string
	Event    string
	Number   int   // of the attempt, from 1, counting those that were interrupted
	Sequence int64 // of the event among its account's
	Body     []byte
	URL      string
	Secrets  []string      // the current one first, then those it replaced that still sign, newest first
	Late     time.Duration // how long ago the attempt was due
}

// everybody lists the accounts with pending events, by skipping from one to the next in the index: what a claim costs
// depends on how many accounts wait and not on how long their queues are.
const everybody = `(SELECT account_id FROM webhook_events WHERE state = 'pending' ORDER BY account_id LIMIT 1)
	UNION ALL
	SELECT (SELECT e.account_id FROM webhook_events AS e WHERE e.state = 'pending' AND e.account_id > who.account_id ORDER BY e.account_id LIMIT 1)
	FROM who WHERE who.account_id IS NOT NULL`

// Claim takes due events, one of each account before a second of any. Each is this host's for AttemptLease.
func (o *Outbox) Claim(ctx context.Context, w Want) ([]Delivery, error) {
	who, not := everybody, append([]string{""}, w.Not...) // never empty: nothing is NOT IN (NULL)
	if len(w.Only) > 0 {
		who, not = "SELECT account_id FROM webhook_endpoints WHERE account_id IN (?only)", []string{""}
	}
	var rows []struct {
		Ref, AccountID, Event, URL  string
		Attempts                    int
		Sequence                    int64
		SealedPayload, SealedSecret []byte
		OldSecrets                  string // sealed, in hex
		LateMicros                  int64
	}
	err := o.claims.NewRaw(`
		WITH RECURSIVE who (account_id) AS (`+who+`),
		shares AS (
			SELECT due.ref, due.next_attempt_at, row_number() OVER (PARTITION BY who.account_id ORDER BY due.next_attempt_at, due.ref) AS nth
			FROM who JOIN webhook_endpoints AS p USING (account_id) CROSS JOIN LATERAL (
				SELECT e.ref, e.next_attempt_at FROM webhook_events AS e
				WHERE e.state = 'pending' AND e.account_id = who.account_id AND e.next_attempt_at <= now()
					AND (p.disabled_at IS NULL OR starts_with(e.ref, ?test))
				ORDER BY e.next_attempt_at, e.ref LIMIT ?each) AS due
			WHERE who.account_id NOT IN (?not)),
		picked AS (
			SELECT e.ref, e.next_attempt_at AS due_at, e.leased_until, e.attempts, p.url, p.sealed_secret
			FROM (SELECT ref FROM shares ORDER BY nth, next_attempt_at LIMIT ?events) AS s
			JOIN webhook_events AS e USING (ref) JOIN webhook_endpoints AS p USING (account_id)
			WHERE e.state = 'pending' AND e.next_attempt_at <= now()
			FOR UPDATE OF e SKIP LOCKED),
		dead AS (`+logInterrupted+` FROM picked WHERE leased_until IS NOT NULL ON CONFLICT DO NOTHING)
		UPDATE webhook_events AS e
		SET attempts = e.attempts + 1, leased_until = now() + ?lease * interval '1 microsecond', next_attempt_at = now() + ?lease * interval '1 microsecond'
		FROM picked WHERE picked.ref = e.ref
		RETURNING e.ref, e.account_id, e.event, e.attempts, e.sequence, e.sealed_payload, picked.url, picked.sealed_secret,
			(1e6 * extract(epoch FROM now() - picked.due_at))::bigint AS late_micros,
			(SELECT coalesce(string_agg(encode(o.sealed_secret, 'hex'), ' ' ORDER BY o.replaced_at DESC), '')
				FROM webhook_old_secrets AS o WHERE o.account_id = e.account_id AND o.ends_at > now()) AS old_secrets`,
		named{"only": bun.List(w.Only), "not": bun.List(not), "each": w.Account, "events": w.Events,
			"lease": AttemptLease.Microseconds(), "interrupted": interrupted, "test": testPrefix}).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("claiming webhook events: %w", err)
	}
	claimed := make([]Delivery, 0, len(rows))
	for _, r := range rows {
		d := Delivery{Ref: r.Ref, Account: r.AccountID, Event: r.Event, Number: r.Attempts, Sequence: r.Sequence,
			URL: r.URL, Late: time.Duration(r.LateMicros) * time.Microsecond}
		if d.Body, d.Secrets, err = o.open(r.Ref, r.AccountID, r.SealedPayload, r.SealedSecret,
			r.OldSecrets); err != nil {
			// It stands in the database altered, so it cannot be sent: not now, and not later.
			o.store.log.Error("webhook event cannot be opened", "ref", r.Ref, "error", err)
			if err := abandon(ctx, o.claims, "ref = ?", r.Ref); err != nil {
				return nil, fmt.Errorf("claiming webhook events: %w", err)
			}
			continue
		}
		claimed = append(claimed, d)
	}
	return claimed, nil
}

// open opens what is sealed of a delivery.
func (o *Outbox) open(ref, account string, payload, current []byte, old string) (body []byte, secrets []string,
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
		secret, err := o.store.keys.Open(s, endpointContext(account))
		if err != nil {
			return nil, nil, err
		}
		secrets = append(secrets, string(secret))
	}
	return body, secrets, nil
}

// Ended is how an attempt ended.
type Ended struct {
	Ref       string
	Number    int
	At        time.Time     // by this host's clock; what has passed since is made good in the schedule
	Took      time.Duration // until At
	Status    int           // 0: no answer
	Error     string        // why there was none, in words that the customer may read
	Answer    []byte        // the beginning of the answer's body
	Delivered bool
}

// Finish logs an attempt and settles its event, or sets when the next is due: again is true then, and in says how long
// from now. A success always counts. A failure does not when the lease has passed and another host has begun the next
// attempt, nor when it was recorded before, as by a statement whose answer was lost.
//
// It also notes failures of the endpoint, and disables one that has failed for DisableAfter. A success ends the series,
// and enables an endpoint that was disabled while the attempt was under way, whichever of the two is recorded first.
func (o *Outbox) Finish(ctx context.Context, a Ended) (in time.Duration, again bool, err error) {
	conn, err := o.ends.Conn(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("recording webhook attempt: %w", err)
	}
	defer conn.Close()
	since := max(0, time.Since(a.At)) // also of the wait for a connection, when many attempts end at once
	var row struct {
		Disabled *string
		Micros   *int64
	}
	// The endpoint is read first, and so locked before its event, as RemoveEndpoint does.
	err = conn.NewRaw(`
		WITH endpoint AS (
			UPDATE webhook_endpoints AS p
			SET failed_at = CASE WHEN NOT ?ok THEN now() END,
				failing_since = CASE WHEN ?ok THEN NULL WHEN p.failed_at >= now() - ?series * interval '1 second' THEN p.failing_since ELSE now() END,
				disabled_at = CASE WHEN NOT ?ok AND `+hasFailed+` THEN now() END,
				disabled_reason = CASE WHEN NOT ?ok AND `+hasFailed+` THEN 'failing' END
			FROM webhook_events AS e
			WHERE e.ref = ?ref AND p.account_id = e.account_id AND CASE WHEN ?ok
				THEN p.failed_at IS NOT NULL AND (p.disabled_at IS NULL OR p.disabled_at >= now() - (?since + ?took) * interval '1 microsecond')
				ELSE p.disabled_at IS NULL AND (p.failed_at IS NULL OR p.failed_at <= now() - interval '1 minute') END
			RETURNING p.account_id, p.disabled_at),
		event AS (
			UPDATE webhook_events
			SET leased_until = NULL, tries = tries + 1,
				state = CASE WHEN ?ok THEN 'delivered' WHEN tries >= 3 THEN 'failed' ELSE 'pending' END,
				sealed_payload = CASE WHEN ?ok THEN NULL ELSE sealed_payload END,
				settled_at = CASE WHEN ?ok OR tries >= 3 THEN now() END,
				next_attempt_at = CASE WHEN NOT ?ok AND tries < 3
					THEN now() - ?since * interval '1 microsecond' + (ARRAY[1, 4, 16])[tries + 1] * interval '1 second' END
			WHERE ref = ?ref AND CASE WHEN ?ok THEN state <> 'delivered' ELSE state = 'pending' AND attempts = ?number AND leased_until IS NOT NULL END
			RETURNING next_attempt_at),
		log AS (
			INSERT INTO webhook_attempts (ref, number, started_at, took_ms, status, error, sealed_answer)
			SELECT ref, ?number, now() - (?since + ?took) * interval '1 microsecond', ?took / 1000, ?status, ?error, ?answer
			FROM webhook_events WHERE ref = ?ref
			ON CONFLICT (ref, number) DO UPDATE SET started_at = EXCLUDED.started_at, took_ms = EXCLUDED.took_ms,
				status = EXCLUDED.status, error = EXCLUDED.error, sealed_answer = EXCLUDED.sealed_answer)
		SELECT (SELECT account_id FROM endpoint WHERE disabled_at IS NOT NULL) AS disabled,
			(SELECT (1e6 * extract(epoch FROM next_attempt_at - now()))::bigint FROM event) AS micros`,
		named{"ok": a.Delivered, "ref": a.Ref, "number": a.Number, "since": since.Microseconds(),
			"took":   max(0, a.Took).Microseconds(),
			"status": a.Status, "error": a.Error, "answer": o.sealAnswer(a),
			"series": int(sameSeries.Seconds()), "days": int(DisableAfter.Seconds())}).Scan(ctx, &row)
	if isDataError(err) {
		o.store.log.Warn("webhook attempt was not logged: its event is gone", "ref", a.Ref, "error", err)
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("recording webhook attempt: %w", err)
	}
	if row.Disabled != nil {
		o.store.log.Warn("webhook endpoint was disabled: every attempt has failed for days", "account", *row.Disabled,
			"ref", a.Ref)
	}
	if row.Micros == nil {
		return 0, false, nil
	}
	return time.Duration(*row.Micros) * time.Microsecond, true, nil
}

// hasFailed says that an endpoint fails for the first time after DisableAfter, in one series.
const hasFailed = `(p.failed_at >= now() - ?series * interval '1 second' AND p.failing_since <= now() - ?days * interval '1 second')`

// failDisabled makes events fail that wait for an endpoint which has been disabled for longer than an attempt can be
// under way. Before, a success may still enable it, and then their schedule goes on.
func failDisabled(ctx context.Context, tx bun.IDB) error {
	_, err := tx.NewRaw(`
		WITH waiting AS (
			SELECT e.ref, e.attempts, e.leased_until FROM webhook_events AS e JOIN webhook_endpoints AS w USING (account_id)
			WHERE e.state = 'pending' AND NOT starts_with(e.ref, ?test) AND w.disabled_at <= now() - ?lease * interval '2 microseconds'
				AND (e.leased_until IS NULL OR e.leased_until <= now())
			FOR UPDATE OF e SKIP LOCKED),
		dead AS (`+logInterrupted+` FROM waiting WHERE leased_until IS NOT NULL ON CONFLICT DO NOTHING)
		UPDATE webhook_events AS e SET state = 'failed', next_attempt_at = NULL, leased_until = NULL, settled_at = now()
		FROM waiting WHERE waiting.ref = e.ref`,
		named{"lease": AttemptLease.Microseconds(), "interrupted": interrupted, "test": testPrefix}).Exec(ctx)
	return err
}

func (o *Outbox) sealAnswer(a Ended) []byte {
	if len(a.Answer) == 0 {
		return nil
	}
	return o.store.keys.Seal(a.Answer, answerContext(a.Ref, a.Number))
}

func answerContext(ref string, number int) string { return fmt.Sprintf("answer %s %d", ref, number) }

// named are a statement's arguments by name, for one that uses some of them several times.
type named map[string]any

// AppendNamedArg implements schema.NamedArgAppender.
func (n named) AppendNamedArg(gen schema.QueryGen, b []byte, name string) ([]byte, bool) {
	v, ok := n[name]
	if !ok {
		return b, false
	}
	return gen.AppendQuery(b, "?", v), true
}
