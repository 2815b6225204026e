package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
)

// Sequence numbers have no gaps and become visible in order, so a reader that follows them misses no event.
func TestSequenceBecomesVisibleInOrder(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	callers := []check.Caller{subscriber(t, s), subscriber(t, s)}
	const writers, each = 6, 15
	var wg sync.WaitGroup
	for w := range writers {
		l := ledgerOn(t, s, LedgerConfig{Batch: 4})
		wg.Go(func() {
			for i := range each {
				caller := callers[(w+i)%2]
				if w == 0 {
					err := errOf(s.SendTestEvent(context.Background(), caller.Account, check.Review))
					wantError(t, "sending", err, nil)
					continue
				}
				r := decided(caller, parse(t, entity.Domain, "example.org"), check.Block)
				wantError(t, "error", l.Append(context.Background(), r), nil)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := []int64{0, 0}
	for finished := false; !finished; {
		select {
		case <-done:
			finished = true // after one more read
		default:
		}
		for i, caller := range callers {
			for _, e := range must(s.EventsAfter(t.Context(), caller.Account, seen[i], 1000))(t) {
				seen[i]++
				mustHold(t, e.Sequence == seen[i], "account %d: %d follows %d", i, e.Sequence, seen[i]-1)
			}
		}
	}
	expect(t, "events that were seen", seen[0]+seen[1], writers*each)
	verifyLedger(t, s)
}

// Events of one account in one transaction are numbered in the order of their checks.
func TestSequenceFollowsBatchOrder(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := subscriber(t, s)
	records := decidedMany(caller, parse(t, entity.Domain, "example.org"), check.Block, 20)
	for _, half := range [][]check.Record{records[:10], records[10:]} {
		noError(t, l.Append(t.Context(), half...))
	}
	events, err := s.EventsAfter(t.Context(), caller.Account, 0, 100)
	mustHold(t, err == nil && len(events) == len(records), "%d events, %v", len(events), err)
	for i, e := range events {
		_, body, _ := records[i].Decision.Event()
		holds(t, e.Sequence == int64(i+1) && e.Ref == records[i].Decision.Ref && string(e.Body) == string(body) &&
			e.OccurredAt.Equal(noon) && e.Score == 91 && e.Type == "domain", "event %d: %+v", i, e)
	}
	page, err := s.EventsAfter(t.Context(), caller.Account, 5, 3)
	holds(t, err == nil && len(page) == 3 && page[0].Sequence == 6, "3 events after number 5: %+v, %v", page, err)
	recent, err := s.RecentEvents(t.Context(), caller.Account, "pending", 15, 2)
	holds(t, err == nil && len(recent) == 2 && recent[0].Sequence == 14 && recent[0].Body == nil,
		"2 events below number 15: %+v, %v", recent, err)
	for name, list := range map[string]func() ([]webhook.Event, error){
		"another account": func() ([]webhook.Event, error) {
			return s.EventsAfter(t.Context(), subscriber(t, s).Account, 0, 10)
		},
		"another state": func() ([]webhook.Event, error) {
			return s.RecentEvents(t.Context(), caller.Account, "failed", 0, 10)
		},
	} {
		events, err := list()
		holds(t, err == nil && len(events) == 0, "%s: %d events, %v", name, len(events), err)
	}
}

// failedEvents creates events whose attempts have all failed.
func failedEvents(t *testing.T, s *Store, clock *dbClock, o *Outbox, caller check.Caller, n int) []string {
	t.Helper()
	refs := blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, n)
	for range 4 {
		for _, d := range claim(t, o, all) {
			finish(t, o, ended(d, 500))
		}
		clock.advance(t, 16*time.Second)
	}
	return refs
}

func TestResend(t *testing.T) {
	t.Parallel()
	s, clock, o, _, caller := withEndpoint(t)
	stranger := subscriber(t, s)
	ref := failedEvents(t, s, clock, o, caller, 1)[0]
	wantError(t, "another account's", s.ResendEvent(t.Context(), stranger.Account, ref), webhook.ErrNoEvent)
	wantError(t, "unknown", s.ResendEvent(t.Context(), caller.Account, "chk_unknown"), webhook.ErrNoEvent)
	noError(t, s.ResendEvent(t.Context(), caller.Account, ref))
	wantError(t, "pending event", s.ResendEvent(t.Context(), "", ref), webhook.ErrEventPending)
	// The full schedule runs again, and attempt numbers continue.
	for i, wait := range []time.Duration{time.Second, 4 * time.Second, 16 * time.Second} {
		d := claimOne(t, o)
		delay, _ := finish(t, o, ended(d, 500))
		holds(t, delay == wait && d.Attempt == 5+i, "attempt %d: next in %v, want %v", d.Attempt, delay, wait)
		clock.advance(t, wait)
	}
	finish(t, o, ended(claimOne(t, o), 200))
	wantError(t, "delivered event", s.ResendEvent(t.Context(), caller.Account, ref), webhook.ErrPayloadGone)
	expect(t, "the event", state(t, s, ref), "delivered 8 begun 4 ended")
}

func TestResendFailed(t *testing.T) {
	t.Parallel()
	s, clock, o, _, caller := withEndpoint(t)
	stranger := subscriber(t, s)
	failedEvents(t, s, clock, o, caller, 2)
	clock.advance(t, 70*time.Hour)
	since := value[time.Time](t, clock.conn, "SELECT at FROM fake.clock")
	failedEvents(t, s, clock, o, caller, 3)
	failedEvents(t, s, clock, o, stranger, 1)
	resent, gone, err := s.ResendFailed(t.Context(), caller.Account, since)
	holds(t, resent == 3 && gone == 0 && err == nil, "resent %d, gone %d, %v, want 3 and 0", resent, gone, err)
	expect(t, "pending events", len(claim(t, o, all)), 3)
	clock.advance(t, 3*time.Hour)
	noError(t, s.Prune(t.Context()))
	resent, gone, err = s.ResendFailed(t.Context(), caller.Account, since.Add(-100*time.Hour))
	holds(t, resent == 0 && gone == 2 && err == nil, "resent %d, gone %d, %v, want 0 and 2", resent, gone, err)
	for _, account := range []string{"", "acct_unknown"} {
		_, _, err := s.ResendFailed(t.Context(), account, since)
		holds(t, errors.Is(err, webhook.ErrNoEndpoint), "account %q: %v", account, err)
	}
}

func TestPruneWebhooks(t *testing.T) {
	t.Parallel()
	s, clock, o, l, caller := withEndpoint(t)
	gone := subscriber(t, s)
	ref := failedEvents(t, s, clock, o, caller, 1)[0]
	waiting, orphan := blocked(t, l, caller, 1)[0], blocked(t, l, gone, 1)[0]
	// This happens when a check is recorded while its endpoint is being removed.
	must(s.db.NewRaw("DELETE FROM webhook_endpoints WHERE account_id = ?", gone.Account).Exec(t.Context()))(t)
	prune := func() string {
		t.Helper()
		noError(t, s.Prune(t.Context()))
		var held []string
		noError(t, s.db.NewRaw(`SELECT ref FROM webhook_events
			WHERE sealed_payload IS NOT NULL ORDER BY sequence, ref`).Scan(t.Context(), &held))
		return strings.Join(held, " ")
	}
	clock.advance(t, 72*time.Hour-65*time.Second)                            // the event was created 64 s ago
	s.now = func() time.Time { return s.hostNow().Add(31 * 24 * time.Hour) } // the database's clock was wrong
	got, want := prune(), ref+" "+waiting
	s.now = s.hostNow
	holds(t, got == want, "before 72 hours, payloads of %q are held, want %q", got, want)
	const kept = "SELECT count(sealed_answer) + count(sealed_exchange) FROM webhook_attempts"
	expect(t, "requests and responses of attempts within 72 hours", one[int](t, s, kept), 8)
	expect(t, "the event without an endpoint", strings.Fields(state(t, s, orphan))[0], "failed")
	noError(t, s.ResendEvent(t.Context(), caller.Account, ref)) // which does not keep it longer
	failPending(t, s)
	must(s.db.NewRaw(`UPDATE webhook_events SET state = 'pending', next_attempt_at = now() + interval '1 h',
		settled_at = NULL WHERE ref = ?`, waiting).Exec(t.Context()))(t)
	clock.advance(t, time.Second)
	expect(t, "payloads that are held after 72 hours", prune(), waiting)
	expect(t, "the attempt in an hour is due", one[bool](t, s, `SELECT next_attempt_at = now() FROM webhook_events
		WHERE ref = ?`, waiting), true)
	clock.advance(t, time.Minute)
	prune()
	expect(t, "requests and responses after 72 hours", one[int](t, s, kept), 0)
	clock.advance(t, 30*24*time.Hour)
	prune()
	holds(t, rowsOf(t, s, "webhook_events") == 1 && rowsOf(t, s,
		"webhook_attempts") == 0, "after 30 days, more than the pending event is listed")
	// The sequence continues after deleted events.
	must(s.SendTestEvent(t.Context(), caller.Account, check.Review))(t)
	expect(t, "number of the next event",
		one[int64](t, s, "SELECT max(sequence) FROM webhook_events WHERE account_id = ?", caller.Account), 3)
}

// Resending and pruning handle more events than one statement may change.
func TestManyFailedEvents(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	caller := subscriber(t, s)
	const many = rowsPerStatement + 1
	must(s.db.NewRaw(`INSERT INTO webhook_events
			(ref, account_id, event, occurred_at, sealed_payload, sequence, state, next_attempt_at, settled_at,
				created_at)
		SELECT 'chk_' || n, ?, 'check.review', now(), 'sealed', n, 'failed', NULL, now(), now()
		FROM generate_series(1, ?) AS n`, caller.Account, many).Exec(t.Context()))(t)
	since := value[time.Time](t, clock.conn, "SELECT at FROM fake.clock")
	resent, gone, err := s.ResendFailed(t.Context(), caller.Account, since)
	holds(t, resent == many && gone == 0 && err == nil, "resent %d, gone %d, %v, want %d and 0", resent, gone, err,
		many)
	expect(t, "due events", rowsOf(t, s, "webhook_events WHERE state = 'pending' AND next_attempt_at = now()"), many)
	must(s.db.NewRaw("UPDATE webhook_events SET state = 'failed', next_attempt_at = NULL, settled_at = now()").
		Exec(t.Context()))(t)
	for _, pass := range []struct {
		time  time.Duration
		where string
	}{{failedPayloadRetention, "sealed_payload IS NOT NULL"}, {webhookRetention, "true"}} {
		clock.advance(t, pass.time)
		noError(t, s.Prune(t.Context()))
		expect(t, fmt.Sprint("events after ", pass.time), rowsOf(t, s, "webhook_events WHERE "+pass.where), 0)
	}
}

func TestSendTestEvent(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	noError(t, must(Open(t.Context(), Config{URL: at, Keys: testRing, Logger: discard(), Chains: 2}))(t).Close())
	s := open(t, at, func() time.Time { return noon })
	caller := subscriber(t, s)
	exec(t, session(t, at), "UPDATE accounts SET chain = 1 WHERE id = '"+caller.Account+"'")
	ref := must(s.SendTestEvent(t.Context(), caller.Account, check.Review))(t)
	d := claimOne(t, outboxOf(t, s))
	want := fmt.Sprintf(`{"event":"check.review","timestamp":"2031-05-20T12:00:00.000Z",`+
		`"data":{"query":"test.example","type":"domain",`+
		`"verdict":"REVIEW","score":40,"signals":["host:test:event"],"ref":"%s"}}`, ref)
	holds(t, string(d.Body) == want && d.Event == "check.review" && strings.HasPrefix(ref, "test_"),
		"test event %s:\n%s\nwant\n%s", ref, d.Body, want)
	for verdict, want := range map[check.Verdict]string{check.Block: "check.blocked", check.Review: "check.review"} {
		must(s.SendTestEvent(t.Context(), caller.Account, verdict))(t)
		expect(t, "the event of a "+string(verdict), claimOne(t, outboxOf(t, s)).Event, want)
	}
	for _, verdict := range []check.Verdict{check.Allow, "", "BLOCK"} {
		wantError(t, "a test event of "+string(verdict), errOf(s.SendTestEvent(t.Context(), caller.Account, verdict)),
			webhook.ErrTestVerdict)
	}
	wantError(t, "without an endpoint", errOf(s.SendTestEvent(t.Context(), newCaller(t, s, plan(t, "pro", 1)).Account,
		check.Review)), webhook.ErrNoEndpoint)
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	s, _, o, l, caller := withEndpoint(t)
	ref := blocked(t, l, caller, 1)[0]
	e := ended(claimOne(t, o), 500)
	e.ResponseBody, e.Error = []byte("half a rune: \xc3"), "why"
	e.Request = webhook.Request{Header: "POST / HTTP/1.1\n", Body: `{"data":{"query":"example.org"}}`}
	e.ResponseHeader = "HTTP/1.1 500 \xff\n"
	finish(t, o, e)
	attempts, err := s.Attempts(t.Context(), caller.Account, ref)
	holds(t, err == nil && len(attempts) == 1 && attempts[0].ResponseBody == "half a rune: \uFFFD" &&
		attempts[0].Error == "why" && *attempts[0].TookMS == 40 && attempts[0].Request == e.Request &&
		attempts[0].ResponseHeader == "HTTP/1.1 500 \uFFFD\n", "attempts: %+v, %v", attempts, err)
	sealed := one[[]byte](t, s, "SELECT sealed_exchange FROM webhook_attempts")
	holds(t, len(sealed) != 0 && !bytes.Contains(sealed, []byte("example.org")),
		"the request is stored in plain text, or not at all")
	wantError(t, "as another account", errOf(s.Attempts(t.Context(), subscriber(t, s).Account, ref)),
		webhook.ErrNoEvent)

	// An altered event fails, and blocks neither others nor an export. Once its payload is restored, it can be sent.
	caller = subscriber(t, s)
	refs := blocked(t, l, caller, 2)
	const change = `UPDATE webhook_events
		SET sealed_payload = set_byte(sealed_payload, 0, get_byte(sealed_payload, 0) # 1) WHERE ref = ?`
	must(s.db.NewRaw(change, refs[0]).Exec(t.Context()))(t)
	got := export(t, s, caller, privacy.Selector{Ref: refs[0]})
	holds(t, got.Total == 2 && got.Checks[0].Webhook != nil && got.Checks[0].Webhook.Body == nil,
		"exported %+v, want 2 checks, the first with an event without a body", got)
	expect(t, "the event that was claimed", claimOne(t, o).Ref, refs[1])
	expect(t, "the altered event", state(t, s, refs[0]), "failed 1 begun 0 ended held")
	must(s.db.NewRaw(change, refs[0]).Exec(t.Context()))(t)
	noError(t, s.ResendEvent(t.Context(), caller.Account, refs[0]))
	expect(t, "the event that was claimed", claimOne(t, o).Ref, refs[0])
}

func TestReplacedSecretsOverlap(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	o := outboxOf(t, s)
	account := newCaller(t, s, plan(t, "pro", 1)).Account
	first := must(s.SetEndpoint(t.Context(), account, "https://one.example"))(t)
	rotate := func(overlap time.Duration) string {
		t.Helper()
		return must(s.RotateSecret(t.Context(), account, overlap))(t)
	}
	expect := func(when string, want ...string) { // the secrets that sign the account's events
		t.Helper()
		must(s.SendTestEvent(t.Context(), account, check.Review))(t)
		d := claimOne(t, o)
		finish(t, o, ended(d, 200))
		noDiff(t, when, want, d.Secrets)
	}
	expect("initially", first)
	rotate(webhook.SecretOverlap)
	clock.advance(t, 23*time.Hour)
	third := rotate(webhook.SecretOverlap) // the second was lost; it never signs
	expect("after a second rotation", first, third)
	clock.advance(t, 24*time.Hour-time.Microsecond)
	expect("just before the switch", first, third)
	endpoints, err := s.Endpoints(t.Context(), account)
	now := value[time.Time](t, clock.conn, "SELECT at FROM fake.clock")
	holds(t, err == nil && len(endpoints) == 1 && endpoints[0].OldSecretUntil != nil &&
		endpoints[0].OldSecretUntil.Equal(now.Add(time.Microsecond)) && endpoints[0].Delivered == 3,
		"endpoint: %+v, %v", endpoints, err)
	clock.advance(t, time.Microsecond)
	expect("after the switch", third)
	fourth := rotate(webhook.SecretOverlap)
	expect("after another rotation", third, fourth)
	noError(t, s.SwitchSecret(t.Context(), account))
	expect("after an early switch", fourth)
	rotate(webhook.SecretOverlap)
	expect("after a rotation with a switch at once", rotate(0))
	rotate(webhook.SecretOverlap)
	seventh := must(s.SetEndpoint(t.Context(), account, "https://two.example"))(t)
	expect("for a new endpoint", seventh)
	noError(t, s.MoveEndpoint(t.Context(), account, "https://three.example"))
	expect("after a move", seventh)
}

func TestRemoveEndpoint(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	o, l := outboxOf(t, s), ledgerOn(t, s, LedgerConfig{})
	caller, other := subscriber(t, s), subscriber(t, s)
	must(s.RotateSecret(t.Context(), caller.Account, webhook.SecretOverlap))(t)
	for _, c := range []check.Caller{caller, other} {
		blocked(t, l, c, 1)
		finish(t, o, ended(claimOne(t, o), 200))
	}
	blocked(t, l, caller, 2)
	inFlight := claim(t, o, webhook.ClaimOptions{MaxEvents: 1, MaxPerAccount: 1})[0]
	kept := blocked(t, l, other, 1)[0]
	noError(t, s.RemoveEndpoint(t.Context(), caller.Account))
	expect(t, "events that failed without a payload", rowsOf(t, s, `webhook_events
		WHERE state = 'failed' AND sealed_payload IS NULL AND account_id = ?`, caller.Account), 2)
	_, retry := finish(t, o, ended(inFlight, 500))
	holds(t, !retry, "the attempt in flight is retried")
	blocked(t, l, caller, 1) // creates no event
	expect(t, "the event that was claimed", claimOne(t, o).Ref, kept)
	noError(t, s.Prune(t.Context()))
	expect(t, "accounts whose delivered requests are kept", one[string](t, s, `SELECT string_agg(e.account_id, ' ')
		FROM webhook_attempts AS a JOIN webhook_events AS e USING (chain, ref) WHERE sealed_exchange IS NOT NULL`),
		other.Account)
	for _, account := range []string{"acct_unknown", publicAccount} {
		wantError(t, "endpoint of "+account, errOf(s.SetEndpoint(t.Context(), account, "https://one.example")),
			billing.ErrNoAccount)
	}
	for name, err := range map[string]error{
		"removing again": s.RemoveEndpoint(t.Context(), caller.Account),
		"moving":         s.MoveEndpoint(t.Context(), caller.Account, "https://one.example"),
		"rotating":       errOf(s.RotateSecret(t.Context(), caller.Account, 0)),
	} {
		wantError(t, name, err, webhook.ErrNoEndpoint)
	}
}
