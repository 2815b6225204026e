package webhook

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/postgres/postgrestest"
	"assay/host/store"
)

// Statements of a host, as the gate sees them.
func isClaim(statement string) bool { return strings.Contains(statement, "WITH RECURSIVE who") }
func isResend(statement string) bool {
	return strings.HasPrefix(statement, "UPDATE webhook_events SET state = 'pending', tries = 0")
}
func isCommit(statement string) bool { return statement == "commit" }

func isFinish(ref string) func(string) bool {
	return func(statement string) bool {
		return strings.Contains(statement, "took_ms") && strings.Contains(statement, ref)
	}
}

func holds(ref string) func([]byte) bool {
	return func(message []byte) bool { return strings.Contains(string(message), ref) }
}

func anything([]byte) bool { return true }

// stage is where in an event's life its host is killed.
type stage struct {
	name  string
	reach func(k *killing, ref string) // brings a host there with a new event
}

var stages = []stage{
	{"recorded, not claimed", func(k *killing, ref string) {
		reached := k.gate.holds(isClaim, nil)
		k.record(ref)
		k.await(reached)
	}},
	{"claimed, unknown to the host", func(k *killing, ref string) {
		reached := k.gate.holds(isClaim, holds(ref))
		k.record(ref)
		k.await(reached)
	}},
	{"connected, nothing received", func(k *killing, ref string) {
		came := k.witness.ear.turnDeaf()
		k.record(ref)
		k.await(came)
		until(k, "it is the event's turn", func() bool {
			return k.int("SELECT count(*) FROM webhook_events WHERE ref = $1 AND leased_until IS NOT NULL", ref) == 1
		})
	}},
	{"received, not answered", func(k *killing, ref string) {
		stalled := k.witness.stall(ref)
		k.record(ref)
		k.await(stalled)
	}},
	{"accepted, not recorded", func(k *killing, ref string) {
		k.witness.refuse(ref, 0)
		reached := k.gate.holds(isFinish(ref), nil)
		k.record(ref)
		k.await(reached)
	}},
	{"accepted, recorded, unknown to the host", func(k *killing, ref string) {
		k.witness.refuse(ref, 0)
		reached := k.gate.holds(isFinish(ref), anything)
		k.record(ref)
		k.await(reached)
	}},
	{"refused, not recorded", func(k *killing, ref string) {
		k.witness.refuse(ref, max(1, k.refusals(ref)))
		reached := k.gate.holds(isFinish(ref), nil)
		k.record(ref)
		k.await(reached)
	}},
	{"waiting for 1 s", func(k *killing, ref string) { k.refused(ref, 1) }},
	{"waiting for 4 s", func(k *killing, ref string) { k.refused(ref, 2) }},
	{"waiting for 16 s", func(k *killing, ref string) { k.refused(ref, 3) }},
	{"refused at last, not recorded", func(k *killing, ref string) {
		k.witness.refuse(ref, always)
		k.refused(ref, 3)
		reached := k.gate.holds(isFinish(ref), nil)
		k.hurry(ref)
		k.await(reached)
	}},
	{"resending, not yet", func(k *killing, ref string) { k.resent(ref, nil) }},
	{"resent, unknown to the host", func(k *killing, ref string) { k.resent(ref, anything) }},
	{"rotating, not yet", func(k *killing, ref string) { k.rotated(ref, nil) }},
	{"rotated, secret lost", func(k *killing, ref string) { k.rotated(ref, anything) }},
}

// always is more often than an event is ever sent.
const always = 1000

// killing is a database whose hosts are killed, one after the other.
type killing struct {
	*testing.T
	gate    *gate
	witness *witness
	store   *store.Store
	sql     *pgx.Conn
	caller  check.Caller
	victim  *victim

	kills   map[string]int          // while an event waited or was under way
	hurried map[string]map[int]bool // attempts that were made due before their time
	// how often an event was sent off: once, and once more for each time that it was resent
	rounds   map[string]int
	recorded []string
	resends  []string          // those that a host was to resend
	stages   map[string]string // at which each event's host was killed
}

// TestKills kills a host at every stage of an event's life. No event is lost, none is sent more often than four times
// and once more for each kill, none before its time, and what a dead host had leased goes on. ASSAY_KILLS says how
// often at each stage; with many, half of the events are refused to the end, and how late retries began is logged.
func TestKills(t *testing.T) {
	t.Parallel()
	kills, long := 2, false
	if text := os.Getenv("ASSAY_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		kills, long = n, true
	}
	killings := make([]*killing, lanes)
	t.Run("kill", func(of *testing.T) {
		for lane := range lanes {
			of.Run(fmt.Sprint(lane), func(of *testing.T) {
				of.Parallel()
				k := newKilling(t, of)
				for i := range kills {
					for s := lane; s < len(stages); s += lanes {
						k.start(t)
						ref := check.NewRef()
						k.stages[ref] = stages[s].name
						if long && i%2 == 1 {
							k.witness.refuse(ref, always)
						}
						stages[s].reach(k, ref)
						k.kill()
					}
				}
				k.start(t)
				killings[lane] = k
			})
		}
	})
	// Leases and pauses pass for all of them at once.
	all := tally{}
	for lane, k := range killings {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			if k == nil {
				t.Skip("it went wrong before")
			}
			k.T = t
			k.settle()
			all.add(k.judge())
		})
	}
	t.Log(all.String())
}

// lanes is how many databases the stages are tried on, side by side.
const lanes = 4

// newKilling begins a killing whose parts last as long as the whole test, and which part of it reports.
func newKilling(t, part *testing.T) *killing {
	part.Helper()
	url := postgrestest.Database(t)
	k := &killing{
		T: part, gate: gated(t, url), witness: newWitness(t),
		kills: map[string]int{}, hurried: map[string]map[int]bool{}, rounds: map[string]int{},
		stages: map[string]string{},
	}
	s, err := store.Open(t.Context(), store.Config{URL: url, Keys: testRing, Logger: discard()})
	if err != nil {
		part.Fatal(err)
	}
	k.store = s
	if k.sql, err = pgx.Connect(t.Context(), url); err != nil {
		part.Fatal(err)
	}
	t.Cleanup(func() {
		_ = k.sql.Close(context.Background())
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	k.caller = (&deployment{store: s}).subscribe(part, k.witness.URL)
	secret, err := s.SetEndpoint(part.Context(), k.caller.Account, k.witness.URL)
	if err != nil {
		part.Fatal(err)
	}
	k.witness.knows(secret)
	return k
}

// start starts a host that lives until it is killed, or as long as the whole test.
func (k *killing) start(t *testing.T) {
	k.Helper()
	k.victim = startVictim(t, k.gate.URL)
	k.victim.await(k.T)
}

func (k *killing) await(reached <-chan struct{}) {
	k.Helper()
	select {
	case <-reached:
	case <-time.After(patience):
		k.Fatal("the stage was not reached")
	}
}

// record has the host record a check, which makes an event.
func (k *killing) record(ref string) {
	k.Helper()
	k.victim.order(k.T, "check", k.caller.Account, k.caller.Key, ref)
	k.victim.await(k.T)
	k.recorded = append(k.recorded, ref)
	k.rounds[ref] = 1
}

// refused waits until so many attempts of an event have been refused and recorded, each hurried along behind the one
// before.
func (k *killing) refused(ref string, times int) {
	k.Helper()
	k.witness.refuse(ref, max(times, k.refusals(ref)))
	k.record(ref)
	for n := 1; ; n++ {
		until(k, fmt.Sprintf("attempt %d is refused", n), func() bool {
			return k.int("SELECT count(*) FROM webhook_events WHERE ref = $1 AND tries >= $2 AND leased_until IS NULL",
				ref, n) == 1
		})
		if n == times {
			return
		}
		k.hurry(ref)
	}
}

func (k *killing) refusals(ref string) int {
	k.witness.mu.Lock()
	defer k.witness.mu.Unlock()
	return k.witness.refuses[ref]
}

// hurry makes an event's next attempt due, unless it has begun.
func (k *killing) hurry(ref string) {
	k.Helper()
	number := k.int(`WITH due AS (UPDATE webhook_events SET next_attempt_at = now() WHERE ref = $1 AND state = 'pending' AND leased_until IS NULL
		RETURNING attempts + 1 AS number) SELECT coalesce(max(number), 0) FROM due`, ref)
	if k.hurried[ref] == nil {
		k.hurried[ref] = map[int]bool{}
	}
	k.hurried[ref][number] = true
}

// resent has the host resend an event that has failed, and holds that up.
func (k *killing) resent(ref string, answer func([]byte) bool) {
	k.Helper()
	k.resends = append(k.resends, ref)
	k.witness.refuse(ref, 4)
	k.refused(ref, 4)
	reached := k.gate.holds(isResend, answer)
	k.victim.order(k.T, "resend", k.caller.Account, ref)
	k.await(reached)
}

// rotated has the host rotate the secret while an event is under way, and holds the commit up. Its customer never
// learns the new one, and rotates again.
func (k *killing) rotated(ref string, answer func([]byte) bool) {
	k.Helper()
	stalled := k.witness.stall(ref)
	k.record(ref)
	k.await(stalled)
	reached := k.gate.holds(isCommit, answer)
	k.victim.order(k.T, "rotate", k.caller.Account)
	k.await(reached)
	k.kill()
	secret, err := k.store.RotateSecret(k.Context(), k.caller.Account, store.SecretOverlap)
	if err != nil {
		k.Fatal(err)
	}
	k.witness.knows(secret)
}

// kill ends the host at once, and with it its connections.
func (k *killing) kill() {
	k.Helper()
	if k.victim == nil {
		return
	}
	k.victim.kill()
	k.victim = nil
	k.gate.cut()
	k.witness.nextLife()
	rows, err := k.sql.Query(k.Context(), "SELECT ref FROM webhook_events WHERE state = 'pending'")
	if err != nil {
		k.Fatal(err)
	}
	waiting, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		k.Fatal(err)
	}
	for _, ref := range waiting {
		k.kills[ref]++
	}
}

func (k *killing) int(query string, args ...any) (n int) {
	k.Helper()
	if err := k.sql.QueryRow(k.Context(), query, args...).Scan(&n); err != nil {
		k.Fatal(err)
	}
	return n
}

// settle waits until every event is delivered or has failed. What the killed hosts were to resend and did not, the
// customer resends.
func (k *killing) settle() {
	k.Helper()
	for _, ref := range k.resends {
		k.rounds[ref] = 2
		if k.int("SELECT count(*) FROM webhook_events WHERE ref = $1 AND state = 'failed'", ref) == 1 {
			if err := k.store.ResendEvent(k.Context(), k.caller.Account, ref); err != nil {
				k.Error(err)
			}
		}
	}
	for pending := always; pending > 0; { // whose number falls as long as hosts do their work
		before := pending
		until(k, fmt.Sprintf("fewer than %d events wait", before), func() bool {
			pending = k.int("SELECT count(*) FROM webhook_events WHERE state = 'pending'")
			return pending < before
		})
	}
}

// schedule is that of the spec, sections 3 and 8.
var schedule = []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}

// judge says what is wrong with what became of the events, and counts.
func (k *killing) judge() tally {
	k.Helper()
	sum := tally{kills: k.witness.life}
	k.witness.mu.Lock()
	defer k.witness.mu.Unlock()
	if k.witness.forged > 0 {
		k.Errorf("%d requests were signed with no secret that the customer knows", k.witness.forged)
	}
	events, err := k.store.RecentEvents(k.Context(), k.caller.Account, "", 0, always)
	if err != nil {
		k.Fatal(err)
	}
	for _, ref := range k.recorded {
		i := slices.IndexFunc(events, func(e store.Event) bool { return e.Ref == ref })
		if i < 0 {
			k.Errorf("%s, %s: it is lost", ref, k.stages[ref])
			continue
		}
		log, err := k.store.Attempts(k.Context(), k.caller.Account, ref)
		if err != nil {
			k.Fatal(err)
		}
		sum.events++
		k.judgeEvent(&sum, events[i], log, k.witness.arrivals[ref])
	}
	return sum
}

func (k *killing) judgeEvent(sum *tally, e store.Event, log []store.Attempt, arrivals []arrival) {
	k.Helper()
	interrupted, refused, accepted := 0, 0, 0
	for i, a := range log {
		switch {
		case a.TookMS == nil:
			interrupted++
		case a.Status >= 200 && a.Status <= 299:
			accepted++
		default:
			refused++
		}
		if i+1 < len(log) && !k.hurried[e.Ref][a.Number+1] {
			k.judgePause(sum, e.Ref, a, log[i+1], refused, arrivals)
		}
	}
	sum.interrupted += interrupted
	sum.sent = max(sum.sent, len(arrivals)-4*(k.rounds[e.Ref]-1))
	rounds := k.rounds[e.Ref]
	wrong := ""
	switch {
	case e.Attempts != len(log):
		wrong = "its log is not complete"
	case e.State == "delivered" && (accepted != 1 || refused >= 4*rounds):
		wrong = "it was delivered without being accepted once"
	case e.State == "failed" && (accepted != 0 || refused != 4*rounds):
		wrong = "it failed without being refused four times"
	case len(arrivals) > 4*rounds+k.kills[e.Ref]:
		wrong = "it was sent more often than four times and once for each kill"
	case len(arrivals) > len(log), interrupted > k.kills[e.Ref]:
		wrong = "it was sent without an attempt, or an attempt was interrupted by no kill"
	}
	if wrong != "" {
		k.Errorf("%s, %s: %s: %s, sent %d times in %d attempts: %d accepted, %d refused, %d interrupted; %d kills",
			e.Ref, k.stages[e.Ref], wrong, e.State, len(arrivals),
			len(log), accepted, refused, interrupted, k.kills[e.Ref])
	}
}

// judgePause says whether an attempt began before its time, and notes how late it began if one host lived all the
// while.
func (k *killing) judgePause(sum *tally, ref string, before, after store.Attempt, refused int, arrivals []arrival) {
	k.Helper()
	const coarse = 2 * time.Millisecond // the log is in milliseconds
	if before.TookMS == nil {
		if pause := after.StartedAt.Sub(before.StartedAt); pause < store.AttemptLease-coarse {
			k.Errorf("%s, %s: attempt %d began %v after an interrupted one, before its lease had passed", ref,
				k.stages[ref], after.Number, pause)
		}
		return
	}
	if refused%4 == 0 {
		return // it was resent by hand
	}
	wait := schedule[refused%4-1]
	ended := before.StartedAt.Add(time.Duration(*before.TookMS) * time.Millisecond)
	if pause := after.StartedAt.Sub(ended); pause < wait-coarse {
		k.Errorf("%s, %s: attempt %d began %v after a refused one, want %v", ref, k.stages[ref], after.Number, pause,
			wait)
	}
	at := func(number int) *arrival {
		i := slices.IndexFunc(arrivals, func(a arrival) bool { return a.number == number })
		if i < 0 {
			return nil
		}
		return &arrivals[i]
	}
	if first, second := at(before.Number), at(after.Number); first != nil && second != nil && first.status != 0 {
		pause := second.at.Sub(first.answered)
		if pause < wait-10*time.Millisecond { // clocks are set meanwhile
			k.Errorf("%s, %s: attempt %d came %v after a refused one, want %v", ref, k.stages[ref], after.Number, pause,
				wait)
		}
		if first.life == second.life {
			sum.late = append(sum.late, pause-wait)
		}
	}
}

// tally is what was seen at one stage, or at all.
type tally struct {
	// sent: most requests of one event, those of a first round of four not counted if it was resent
	events, kills, interrupted, sent int
	late                             []time.Duration
}

func (s *tally) add(other tally) {
	s.events += other.events
	s.kills += other.kills
	s.interrupted += other.interrupted
	s.sent = max(s.sent, other.sent)
	s.late = append(s.late, other.late...)
}

func (s *tally) String() string {
	text := fmt.Sprintf("%d events, %d kills, %d attempts interrupted, %d requests of one event at most", s.events,
		s.kills, s.interrupted, s.sent)
	if len(s.late) == 0 {
		return text
	}
	slices.Sort(s.late)
	n := len(s.late)
	return text + fmt.Sprintf("; %d retries came late by %v at p50, %v at p99, %v at most", n, s.late[n/2],
		s.late[n*99/100], s.late[n-1])
}
