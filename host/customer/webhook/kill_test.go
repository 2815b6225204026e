package webhook_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// Statements of a host, as the proxy sees them.
func isClaim(statement string) bool { return strings.Contains(statement, "WITH RECURSIVE pending") }
func isResend(statement string) bool {
	return strings.HasPrefix(statement, "UPDATE webhook_events AS e SET state = 'pending', tries = 0")
}
func isRotation(statement string) bool { return strings.HasPrefix(statement, "SELECT rotate_secret(") }

func isFinish(ref string) func(string) bool {
	return func(statement string) bool {
		return strings.Contains(statement, "took_ms") && strings.Contains(statement, ref)
	}
}

func containing(ref string) func([]byte) bool {
	return func(message []byte) bool { return strings.Contains(string(message), ref) }
}

func anything([]byte) bool { return true }

// stage is a point in an event's lifecycle at which its host is killed.
type stage struct {
	name  string
	reach func(k *killTest, ref string) // brings the host to this point with a new event
}

var stages = []stage{
	{"recorded, not claimed", func(k *killTest, ref string) { k.recordUntil(ref, k.proxy.HoldBack(isClaim, nil)) }},
	{"claimed, unknown to the host", func(k *killTest, ref string) {
		k.recordUntil(ref, k.proxy.HoldBack(isClaim, containing(ref)))
	}},
	{"received, no response", func(k *killTest, ref string) { k.recordUntil(ref, k.receiver.stall(ref)) }},
	{"accepted, not recorded", func(k *killTest, ref string) {
		k.receiver.refuse(ref, 0, 0)
		k.recordUntil(ref, k.proxy.HoldBack(isFinish(ref), nil))
	}},
	{"accepted, recorded, unknown to the host", func(k *killTest, ref string) {
		k.receiver.refuse(ref, 0, 0)
		k.recordUntil(ref, k.proxy.HoldBack(isFinish(ref), anything))
	}},
	{"refused, not recorded", func(k *killTest, ref string) {
		k.receiver.refuse(ref, 1, always)
		k.recordUntil(ref, k.proxy.HoldBack(isFinish(ref), nil))
	}},
	{"before the third retry", func(k *killTest, ref string) { k.recordRefused(ref, 3) }},
	{"last attempt refused, not recorded", func(k *killTest, ref string) {
		k.receiver.refuse(ref, always, always)
		k.recordRefused(ref, 3)
		reached := k.proxy.HoldBack(isFinish(ref), nil)
		k.makeDue(ref)
		k.await(reached)
	}},
	{"resend not executed", func(k *killTest, ref string) { k.holdResend(ref, nil) }},
	{"resend executed, unknown to the host", func(k *killTest, ref string) { k.holdResend(ref, anything) }},
	{"rotation not committed", func(k *killTest, ref string) { k.holdRotation(ref, nil) }},
	{"rotation committed, secret lost", func(k *killTest, ref string) { k.holdRotation(ref, anything) }},
}

// always exceeds the number of requests of any event.
const always = 1000

// killTest is a database whose hosts are killed one after another. The maps are keyed by the events' references.
type killTest struct {
	*testing.T
	proxy    *storetest.Proxy
	receiver *receiver
	store    *store.Store
	conn     *pgx.Conn
	caller   check.Caller
	host     *hostProcess

	kills    map[string]int // how many hosts were killed while the event was pending
	rounds   map[string]int // how often the schedule began: once, and once for each resend
	recorded []string
	resends  []string          // events that a host was told to resend
	stages   map[string]string // the stage at which the event's host was killed
}

// TestKills kills hosts at every stage of an event's lifecycle. It verifies that no event is lost, that none is sent
// more than four times plus once for each kill, and that another host continues leased events. The test makes leases
// and delays pass; that hosts wait for them, TestAnotherHostContinues and TestRetrySchedule in host/store prove.
// ASSAY_KILLS sets the number of kills at each stage. Every second time, the event is refused by every attempt.
func TestKills(t *testing.T) {
	t.Parallel()
	kills := 1
	if text := os.Getenv("ASSAY_KILLS"); text != "" {
		kills = expect.Value(strconv.Atoi(text))(t)
	}
	k := newKillTest(t)
	for i := range kills {
		for _, s := range stages {
			k.start()
			ref := check.NewRef()
			k.stages[ref] = s.name
			if i%2 == 1 {
				k.receiver.refuse(ref, always, always)
			}
			s.reach(k, ref)
			k.kill()
		}
	}
	// No host is left, so its leases can end at once.
	storetest.Exec(t, k.conn, `UPDATE webhook_events SET leased_until = now(), next_attempt_at = now()
		WHERE state = 'pending' AND leased_until IS NOT NULL`)
	k.start()
	k.settle()
	k.verify()
}

// newKillTest creates a database and a receiver.
func newKillTest(t *testing.T) *killTest {
	t.Helper()
	url := postgrestest.Database(t)
	s := storetest.Close(t, expect.Value(openStore(t.Context(), url))(t))
	k := &killTest{T: t, proxy: storetest.NewProxy(t, url), receiver: newReceiver(t), store: s,
		conn: storetest.Session(t, url), kills: map[string]int{}, rounds: map[string]int{}, stages: map[string]string{}}
	k.caller = storetest.NewCaller(t, s, storetest.Plan(t, "pro", 1_000_000))
	k.receiver.secrets = []string{expect.Value(s.SetEndpoint(t.Context(), k.caller.Account, k.receiver.URL))(t)}
	return k
}

// start starts a host that runs until it is killed or the test ends.
func (k *killTest) start() {
	k.Helper()
	k.host = startHostProcess(k.T, k.proxy.URL)
	k.host.await(k.T)
}

func (k *killTest) await(reached <-chan struct{}) {
	k.Helper()
	storetest.Receive(k, "the stage", reached)
}

// record makes the host record a check that triggers an event.
func (k *killTest) record(ref string) {
	k.Helper()
	k.host.start(k.T, "check", k.caller.Account, k.caller.Key, ref)
	k.host.await(k.T)
	k.recorded = append(k.recorded, ref)
	k.rounds[ref] = 1
}

// recordUntil records a check and waits until the stage is reached.
func (k *killTest) recordUntil(ref string, reached <-chan struct{}) {
	k.Helper()
	k.record(ref)
	k.await(reached)
}

// recordRefused records an event and waits until so many of its attempts were refused, each of them due at once.
func (k *killTest) recordRefused(ref string, times int) {
	k.Helper()
	k.receiver.refuse(ref, times, always)
	k.record(ref)
	for n := 1; ; n++ {
		expect.Until(k, fmt.Sprintf("attempt %d is refused", n), func() bool {
			return k.int("SELECT count(*) FROM webhook_events WHERE ref = $1 AND tries >= $2 AND leased_until IS NULL",
				ref, n) == 1
		})
		if n == times {
			return
		}
		k.makeDue(ref)
	}
}

// makeDue makes an event's next attempt due now, unless it has begun.
func (k *killTest) makeDue(ref string) {
	k.Helper()
	storetest.Value[int](k, k.conn, `WITH due AS (UPDATE webhook_events SET next_attempt_at = now()
		WHERE ref = $1 AND state = 'pending' AND leased_until IS NULL RETURNING 1) SELECT count(*) FROM due`, ref)
}

// holdResend makes the host resend a failed event, and holds back the statement or its reply.
func (k *killTest) holdResend(ref string, reply func([]byte) bool) {
	k.Helper()
	k.resends = append(k.resends, ref)
	k.receiver.refuse(ref, 4, 4)
	k.recordRefused(ref, 4)
	reached := k.proxy.HoldBack(isResend, reply)
	k.host.start(k.T, "resend", k.caller.Account, ref)
	k.await(reached)
}

// holdRotation makes the host rotate the secret during an attempt; the customer never sees the new one, and repeats it.
func (k *killTest) holdRotation(ref string, reply func([]byte) bool) {
	k.Helper()
	k.recordUntil(ref, k.receiver.stall(ref))
	reached := k.proxy.HoldBack(isRotation, reply)
	k.host.start(k.T, "rotate", k.caller.Account)
	k.await(reached)
	k.kill()
	secret := expect.Value(k.store.RotateSecret(k.Context(), k.caller.Account, webhook.SecretOverlap))(k)
	k.receiver.with(func() { k.receiver.secrets = append(k.receiver.secrets, secret) })
}

// kill kills the host and closes its connections.
func (k *killTest) kill() {
	k.Helper()
	if k.host == nil {
		return
	}
	k.host.kill()
	k.host = nil
	k.proxy.Disconnect()
	k.receiver.stall("")
	rows := expect.Value(k.conn.Query(k.Context(), "SELECT ref FROM webhook_events WHERE state = 'pending'"))(k)
	for _, ref := range expect.Value(pgx.CollectRows(rows, pgx.RowTo[string]))(k) {
		k.kills[ref]++
	}
}

func (k *killTest) int(query string, args ...any) int {
	k.Helper()
	return storetest.Value[int](k, k.conn, query, args...)
}

// settle waits until every event is delivered or failed. The customer resends what the killed hosts did not.
func (k *killTest) settle() {
	k.Helper()
	for _, ref := range k.resends {
		k.rounds[ref] = 2
		if k.int("SELECT count(*) FROM webhook_events WHERE ref = $1 AND state = 'failed'", ref) == 1 {
			expect.Error(k, "error", k.store.ResendEvent(k.Context(), k.caller.Account, ref), nil)
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	expect.Until(k, "no event is pending", func() bool {
		<-tick.C
		return k.int(`WITH due AS (UPDATE webhook_events SET next_attempt_at = now()
			WHERE state = 'pending' AND leased_until IS NULL RETURNING 1)
			SELECT count(*) FROM webhook_events WHERE state = 'pending'`) == 0
	})
}
