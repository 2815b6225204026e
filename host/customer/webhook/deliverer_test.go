package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/store/storetest"
	"assay/registry/expect"
)

// queue is an in-memory Outbox for tests with a fake clock.
type queue struct {
	mu       sync.Mutex
	events   []*queued
	failures atomic.Int64               // how many of the next calls fail
	sent     map[string][]time.Duration // by event, when its attempts began, relative to add
}

type queued struct {
	Delivery
	due, added time.Time
	tries      int
	settled    bool
}

func (q *queue) add(accountID, ref string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, &queued{Delivery: Delivery{Ref: ref, AccountID: accountID}, due: time.Now(),
		added: time.Now()})
}

var errUnavailable = errors.New("the database does not respond")

func (q *queue) Claim(_ context.Context, opts ClaimOptions) ([]Delivery, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failures.Add(-1) >= 0 {
		return nil, errUnavailable
	}
	q.events = slices.DeleteFunc(q.events, func(e *queued) bool { return e.settled })
	var claimed []Delivery
	each := map[string]int{}
	for _, e := range q.events {
		if e.due.After(time.Now()) || len(claimed) == opts.MaxEvents || each[e.AccountID] == opts.MaxPerAccount ||
			slices.Contains(opts.Except, e.AccountID) ||
			(len(opts.Only) > 0 && !slices.Contains(opts.Only, e.AccountID)) {
			continue
		}
		each[e.AccountID]++
		e.Attempt++
		e.Late = time.Since(e.due)
		e.due = time.Now().Add(AttemptLease)
		claimed = append(claimed, e.Delivery)
	}
	return claimed, nil
}

func (q *queue) Finish(_ context.Context, o Outcome) (time.Duration, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failures.Add(-1) >= 0 {
		return 0, false, errUnavailable
	}
	e := q.events[slices.IndexFunc(q.events, func(e *queued) bool { return e.Ref == o.Ref })]
	q.sent[e.Ref] = append(q.sent[e.Ref], o.EndedAt.Add(-o.Took).Sub(e.added))
	e.tries++
	if e.settled = o.Delivered || e.tries == 4; e.settled {
		return 0, false, nil
	}
	delay := RetryDelays[e.tries-1] - time.Since(o.EndedAt)
	e.due = time.Now().Add(delay)
	return delay, true, nil
}

func (q *queue) unsettled() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(q.events), func(e *queued) bool { return e.settled }))
}

// times returns when an event's attempts began, relative to add.
func (q *queue) times(ref string) []time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.sent[ref])
}

// run runs a Deliverer on a queue until stop is called. respond returns the status and the duration of each attempt.
func run(t *testing.T, q *queue, respond func(Delivery) (status int, took time.Duration)) (*Deliverer,
	func()) {
	t.Helper()
	d := expect.Value(New(Config{Outbox: q, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))(t)
	d.send = func(delivery Delivery) Outcome {
		began := time.Now()
		status, took := respond(delivery)
		<-time.After(took)
		return Outcome{Ref: delivery.Ref, Attempt: delivery.Attempt, Status: status, Delivered: status == 200,
			EndedAt: time.Now(), Took: time.Since(began)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); d.Run(ctx) }()
	return d, func() { cancel(); <-stopped }
}

// inBubble tests with a clock that passes only while all wait.
func inBubble(t *testing.T, test func(*testing.T, *queue)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, &queue{sent: map[string][]time.Duration{}}) })
}

// Attempts begin when they are due, without hints from outside.
func TestDelivererFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		took     time.Duration
		statuses []int
		want     []time.Duration // when attempts are due
	}{
		"immediate success": {0, []int{200}, []time.Duration{0}},
		"slow failures": {137 * time.Millisecond, []int{500, 500, 500, 500}, // no retry coincides with a poll
			[]time.Duration{0, 1137 * time.Millisecond, 5274 * time.Millisecond, 21411 * time.Millisecond}},
		"success at the last attempt": {0, []int{500, 301, 429, 200},
			[]time.Duration{0, 1 * time.Second, 5 * time.Second, 21 * time.Second}},
		"timeouts": {10 * time.Second, []int{0, 0, 0, 0},
			[]time.Duration{0, 11 * time.Second, 25 * time.Second, 51 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, q *queue) {
				_, stop := run(t, q, func(d Delivery) (int, time.Duration) {
					return test.statuses[d.Attempt-1], test.took
				})
				defer stop()
				synctest.Wait()
				<-time.After(3*time.Second + 100*time.Millisecond) // between two polls
				q.add("acct_1", "chk_1")
				<-time.After(2 * time.Minute)
				got := q.times("chk_1")
				expect.Must(t, len(got) == len(test.want), "attempts at %v, due at %v", got, test.want)
				for i, at := range got {
					// The next poll finds a new event without a hint. The retries are due relative to that.
					late := at - test.want[i]
					expect.That(t, late >= 0 && late <= pollInterval+3*minPollInterval,
						"attempt %d began at %v, due at %v", i+1, at, test.want[i])
					if i > 0 {
						gap := at - got[i-1] - (test.want[i] - test.want[i-1])
						expect.That(t, gap >= 0 && gap <= 3*minPollInterval, "attempt %d began %v late", i+1, gap)
					}
				}
			})
		})
	}
}

// While the database is unavailable, no event is resent and no outcome is lost.
func TestOutcomeSurvivesOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue) {
		d, stop := run(t, q, func(Delivery) (int, time.Duration) {
			q.failures.Store(25)
			return 200, 0
		})
		q.add("acct_1", "chk_1")
		d.Hint()
		<-time.After(AttemptLease - time.Second)
		got := q.times("chk_1")
		expect.That(t, len(got) == 1 && q.unsettled() == 0, "attempts at %v, %d unsettled", got, q.unsettled())
		stop()
	})
}

// Of one thousand endpoints a hundred hang. They delay none of the others, even before they are known to be slow.
func TestHangingEndpointsDelayNoOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue) {
		const endpoints, hanging, seconds, perSecond = 1000, 100, 30, 1000
		hangs := func(account int) bool { return account%(endpoints/hanging) == 0 }
		d, stop := run(t, q, func(d Delivery) (int, time.Duration) {
			var account int
			_, _ = fmt.Sscanf(d.AccountID, "acct_%d", &account)
			if hangs(account) {
				return 0, attemptTimeout
			}
			return 200, 50 * time.Millisecond
		})
		var healthy []string
		tick := time.NewTicker(time.Second / perSecond)
		for i := range seconds * perSecond {
			<-tick.C
			account := (i * 7919) % endpoints
			ref := fmt.Sprintf("chk_%d", i)
			q.add(fmt.Sprintf("acct_%d", account), ref)
			d.Hint()
			if !hangs(account) {
				healthy = append(healthy, ref)
			}
		}
		tick.Stop()
		<-time.After(time.Second)
		var delays []time.Duration
		for _, ref := range healthy {
			times := q.times(ref)
			expect.Must(t, len(times) == 1, "%s was sent %d times", ref, len(times))
			delays = append(delays, times[0])
		}
		slices.Sort(delays)
		p99 := delays[len(delays)*99/100]
		expect.That(t, p99 <= 50*time.Millisecond && delays[len(delays)-1] <= 500*time.Millisecond,
			"p99 %v, longest %v from check to first attempt", p99, delays[len(delays)-1])
		all, slow := d.InFlight()
		expect.That(t, all == slow && slow > 0 && all <= maxSlots, "%d attempts in flight, %d of them slow", all, slow)
		stop()
	})
}

// Long queues that a host finds at its start leave room for others, although it does not know yet which are slow.
func TestStartWithQueuesOfHangingEndpoints(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue) {
		for i := range 20 {
			for account := range 100 {
				q.add(fmt.Sprint("hangs-", account), fmt.Sprint("hangs-", account, "-", i))
			}
		}
		d, stop := run(t, q, func(d Delivery) (int, time.Duration) {
			if d.AccountID == "healthy" {
				return 200, time.Millisecond
			}
			return 0, attemptTimeout
		})
		var healthy []string
		for i := range 200 {
			<-time.After(20 * time.Millisecond)
			healthy = append(healthy, fmt.Sprint("healthy-", i))
			q.add("healthy", healthy[i])
			d.Hint()
		}
		<-time.After(pollInterval)
		for _, ref := range healthy {
			got := q.times(ref)
			expect.Must(t, len(got) == 1 && got[0] <= 2*minPollInterval, "%s was sent after %v", ref, got)
		}
		stop()
	})
}

// An account with a long queue gets up to maxPerAccount concurrent attempts.
func TestBusyAccount(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue) {
		const events, took = 200, 400 * time.Millisecond
		var mu sync.Mutex
		running, peak := 0, 0
		d, stop := run(t, q, func(d Delivery) (int, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if d.AccountID == "busy" {
				running++
				peak = max(peak, running)
				time.AfterFunc(took-time.Microsecond, func() { mu.Lock(); running--; mu.Unlock() })
			}
			return 200, took
		})
		for i := range events {
			q.add("busy", fmt.Sprint("busy-", i))
		}
		q.add("other", "other")
		d.Hint()
		<-time.After(10 * time.Second)
		got := q.times("other")
		expect.That(t, len(got) == 1 && got[0] <= minPollInterval, "the other account's attempt began at %v", got)
		expect.Equal(t, "pending events", q.unsettled(), 0)
		expect.That(t, peak <= maxPerAccount && peak >= maxPerUnknownAccount,
			"%d were in flight at once, want at most %d", peak, maxPerAccount)
		stop()
	})
}

// A stopped Deliverer claims no more events, and completes the attempts in flight.
func TestStop(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue) {
		q.add("acct_1", "chk_1")
		_, stop := run(t, q, func(Delivery) (int, time.Duration) { return 200, 5 * time.Second })
		<-time.After(time.Second + pollInterval/2) // between two polls
		began := time.Now()
		go q.add("acct_2", "chk_2")
		stop()
		expect.Equal(t, "stopping took", time.Since(began), 4*time.Second-pollInterval/2)
		expect.NoDiff(t, "attempts", []int{1, 0}, []int{len(q.times("chk_1")), len(q.times("chk_2"))})
	})
}

// A slow account becomes fast again after a fast attempt, or after slowFor without attempts.
func TestSlowAccountRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes()
		var becameSlow atomic.Int32
		attemptSlowly := func() {
			s := l.acquire("a", func() { becameSlow.Add(1) })
			<-time.After(2 * slowAfter)
			l.release(s, 2*slowAfter)
		}
		attemptSlowly()
		_, closed, _, slow := l.available()
		expect.That(t, becameSlow.Load() == 1 && slices.Equal(closed, []string{"a"}) && slices.Equal(slow, closed),
			"after a slow attempt (%d became slow): closed to %v, slow %v", becameSlow.Load(), closed, slow)
		l.release(l.acquire("a", nil), time.Millisecond)
		_, closed, _, slow = l.available()
		expect.That(t, len(closed) == 0 && len(slow) == 0, "after a fast attempt: closed to %v, slow %v", closed, slow)
		attemptSlowly()
		<-time.After(slowFor + time.Second)
		_, closed, _, _ = l.available()
		expect.That(t, len(closed) == 0 && len(l.accounts) == 0, "a minute later: closed to %v, %d remembered", closed,
			len(l.accounts))
		all, slowly := l.inFlight()
		expect.That(t, all == 0 && slowly == 0, "%d slots in use, %d slow", all, slowly)
	})
}

// A panic during an attempt fails the attempt.
func TestPanicFailsTheAttempt(t *testing.T) {
	t.Parallel()
	d := newDelivery("http://127.0.0.1:1")
	d.Secrets = nil // sign panics
	o := newSender(newGuard(t), nil, nil, storetest.Discard()).send(d)
	expect.That(t, !o.Delivered && o.Error != "" && !o.EndedAt.IsZero(), "%+v", o)
}

// The time of a signature is not the host's, whose clock may be wrong.
func TestTimestamp(t *testing.T) {
	t.Parallel()
	d := expect.Value(New(Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Logger: storetest.Discard(), Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}))(t)
	o := d.send(newDelivery(listen(t, "127.0.0.1:0", http.NotFoundHandler()).URL))
	expect.That(t, strings.Contains(o.Request.Header, "Webhook-Timestamp: 1700000000"), "sent %s", o.Request.Header)
}
