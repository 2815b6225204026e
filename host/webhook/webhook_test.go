package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/store"
)

// queue is an outbox in memory, for tests with a clock of their own. It keeps to the words of outbox, not to how
// Postgres does it; that is tested with the store.
type queue struct {
	mu     sync.Mutex
	events []*queued
	broken int                      // calls that fail
	sent   map[string][]sentAttempt // by reference
}

type queued struct {
	store.Delivery
	due, accepted time.Time
	tries         int
	settled       bool
}

type sentAttempt struct {
	after time.Duration // since the event was accepted
	ended store.Ended
}

func (q *queue) accept(account, ref string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, &queued{Delivery: store.Delivery{Ref: ref, Account: account}, due: time.Now(),
		accepted: time.Now()})
}

var errBroken = errors.New("the database does not answer")

func (q *queue) Claim(_ context.Context, w store.Want) ([]store.Delivery, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken > 0 {
		q.broken--
		return nil, errBroken
	}
	q.events = slices.DeleteFunc(q.events, func(e *queued) bool { return e.settled })
	var claimed []store.Delivery
	each := map[string]int{}
	for _, e := range q.events {
		if e.settled || e.due.After(time.Now()) || len(claimed) == w.Events || each[e.Account] == w.Account ||
			slices.Contains(w.Not, e.Account) || (len(w.Only) > 0 && !slices.Contains(w.Only, e.Account)) {
			continue
		}
		each[e.Account]++
		e.Number++
		e.Late = time.Since(e.due)
		e.due = time.Now().Add(store.AttemptLease)
		claimed = append(claimed, e.Delivery)
	}
	return claimed, nil
}

func (q *queue) Finish(_ context.Context, ended store.Ended) (time.Duration, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken > 0 {
		q.broken--
		return 0, false, errBroken
	}
	i := slices.IndexFunc(q.events, func(e *queued) bool { return e.Ref == ended.Ref })
	e := q.events[i]
	if q.sent == nil {
		q.sent = map[string][]sentAttempt{}
	}
	q.sent[e.Ref] = append(q.sent[e.Ref], sentAttempt{ended.At.Add(-ended.Took).Sub(e.accepted), ended})
	e.tries++
	if e.settled = ended.Delivered || e.tries == 4; e.settled {
		return 0, false, nil
	}
	in := []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}[e.tries-1] - time.Since(ended.At)
	e.due = time.Now().Add(in)
	return in, true, nil
}

func (q *queue) unsettled() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.events {
		if !e.settled {
			n++
		}
	}
	return n
}

// times are when an event's attempts began.
func (q *queue) times(ref string) (times []time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.sent[ref] {
		times = append(times, s.after)
	}
	return times
}

// run runs a deliverer on a queue, with attempts that take as long and answer as the test says, until stop.
func run(t *testing.T, q *queue, answer func(store.Delivery) (status int, took time.Duration)) (d *Deliverer,
	stop func()) {
	t.Helper()
	d, err := New(Config{Outbox: q, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	d.attempt = func(delivery store.Delivery) store.Ended {
		began := time.Now()
		status, took := answer(delivery)
		<-time.After(took)
		return store.Ended{Ref: delivery.Ref, Number: delivery.Number, Status: status, Delivered: status == 200,
			At: time.Now(), Took: time.Since(began)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	return d, func() { cancel(); <-ended }
}

// By a clock that only waiting moves: attempts begin when they are due, without any hint from outside.
func TestDelivererKeepsTheSchedule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		took     time.Duration
		statuses []int
		want     []time.Duration // when attempts are due
	}{
		"an answer at once": {0, []int{200}, []time.Duration{0}},
		"failures at once": {0, []int{500, 500, 500, 500}, []time.Duration{0, 1 * time.Second, 5 * time.Second,
			21 * time.Second}},
		"failures after a while": {137 * time.Millisecond, []int{500, 500, 500, 500}, // so that no retry falls on a look
			[]time.Duration{0, 1137 * time.Millisecond, 5274 * time.Millisecond, 21411 * time.Millisecond}},
		"success at the last attempt": {0, []int{500, 301, 429, 200},
			[]time.Duration{0, 1 * time.Second, 5 * time.Second, 21 * time.Second}},
		"time-outs": {10 * time.Second, []int{0, 0, 0, 0},
			[]time.Duration{0, 11 * time.Second, 25 * time.Second, 51 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &queue{}
				_, stop := run(t, q, func(d store.Delivery) (int, time.Duration) {
					return test.statuses[d.Number-1],
						test.took
				})
				defer stop()
				synctest.Wait()
				<-time.After(3*time.Second + 100*time.Millisecond) // off the beat of looking
				q.accept("acct_1", "chk_1")
				<-time.After(2 * time.Minute)
				got := q.times("chk_1")
				if len(got) != len(test.want) {
					t.Fatalf("attempts at %v, due at %v", got, test.want)
				}
				for i, at := range got {
					// A new event without a hint is found at the next look; what follows was due in so long from there.
					late := at - test.want[i]
					if late < 0 || late > lookEvery+3*lookApart {
						t.Errorf("attempt %d began at %v, due at %v", i+1, at, test.want[i])
					}
					if i > 0 {
						if gap := at - got[i-1] - (test.want[i] - test.want[i-1]); gap < 0 || gap > 3*lookApart {
							t.Errorf("attempt %d began %v after its time", i+1, gap)
						}
					}
				}
			})
		})
	}
}

// A hint spares the wait for the next look.
func TestHint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		d, stop := run(t, q, func(store.Delivery) (int, time.Duration) { return 200, 0 })
		defer stop()
		<-time.After(lookEvery + lookEvery/2)
		q.accept("acct_1", "chk_1")
		d.Hint()
		<-time.After(lookApart)
		if got := q.times("chk_1"); len(got) != 1 || got[0] > lookApart {
			t.Errorf("attempts at %v after the hint", got)
		}
	})
}

// While the database is away nothing is sent again and nothing is forgotten.
func TestOutcomeSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		d, stop := run(t, q, func(store.Delivery) (int, time.Duration) {
			q.mu.Lock()
			q.broken = 25
			q.mu.Unlock()
			return 200, 0
		})
		q.accept("acct_1", "chk_1")
		d.Hint()
		<-time.After(store.AttemptLease - time.Second)
		if got := q.times("chk_1"); len(got) != 1 || q.unsettled() != 0 {
			t.Errorf("attempts at %v, %d unsettled", got, q.unsettled())
		}
		stop()
	})
}

// One thousand endpoints of which a hundred hang, by a clock that only waiting moves: the others wait for none of them,
// nor do they while the hanging ones are not yet known.
func TestHangingEndpointsDelayNobody(t *testing.T) {
	t.Parallel()
	for name, perSecond := range map[string]int{"a light load": 100, "a heavy load": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const endpoints, hanging, seconds = 1000, 100, 30
				q := &queue{}
				hangs := func(account int) bool { return account%(endpoints/hanging) == 0 }
				d, stop := run(t, q, func(d store.Delivery) (int, time.Duration) {
					var account int
					_, _ = fmt.Sscanf(d.Account, "acct_%d", &account)
					if hangs(account) {
						return 0, attemptTimeout
					}
					return 200, 50 * time.Millisecond
				})
				var healthy []string
				tick := time.NewTicker(time.Second / time.Duration(perSecond))
				for i := range seconds * perSecond {
					<-tick.C
					account := (i * 7919) % endpoints
					ref := fmt.Sprintf("chk_%d", i)
					q.accept(fmt.Sprintf("acct_%d", account), ref)
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
					if len(times) != 1 {
						t.Fatalf("%s was sent %d times", ref, len(times))
					}
					delays = append(delays, times[0])
				}
				slices.Sort(delays)
				if p99 := delays[len(delays)*99/100]; p99 > 50*time.Millisecond ||
					delays[len(delays)-1] > 500*time.Millisecond {
					t.Errorf("p99 %v, longest %v from check to first attempt", p99, delays[len(delays)-1])
				}
				if all, slow := d.UnderWay(); all != slow || slow == 0 || all > allPlaces {
					t.Errorf("%d attempts are under way, %d of them slow", all, slow)
				}
				stop()
			})
		})
	}
}

// A host that starts knows nobody, and finds long queues of receivers that hang: they leave room for the others at
// once.
func TestStartAmongHangingEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		for i := range 20 {
			for account := range 100 {
				q.accept(fmt.Sprint("hangs-", account), fmt.Sprint("hangs-", account, "-", i))
			}
		}
		d, stop := run(t, q, func(d store.Delivery) (int, time.Duration) {
			if d.Account == "healthy" {
				return 200, time.Millisecond
			}
			return 0, attemptTimeout
		})
		var healthy []string
		for i := range 200 {
			<-time.After(20 * time.Millisecond)
			healthy = append(healthy, fmt.Sprint("healthy-", i))
			q.accept("healthy", healthy[i])
			d.Hint()
		}
		<-time.After(lookEvery)
		for _, ref := range healthy {
			if got := q.times(ref); len(got) != 1 || got[0] > 2*lookApart {
				t.Fatalf("%s was sent after %v", ref, got)
			}
		}
		stop()
	})
}

// An account with a long queue has a share, and gets all of it.
func TestOneBusyAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		const events, took = 200, 400 * time.Millisecond
		var mu sync.Mutex
		running, most := 0, 0
		d, stop := run(t, q, func(d store.Delivery) (int, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if d.Account == "busy" {
				running++
				most = max(most, running)
				time.AfterFunc(took-time.Microsecond, func() { mu.Lock(); running--; mu.Unlock() })
			}
			return 200, took
		})
		for i := range events {
			q.accept("busy", fmt.Sprint("busy-", i))
		}
		q.accept("other", "other")
		d.Hint()
		<-time.After(10 * time.Second)
		if got := q.times("other"); len(got) != 1 || got[0] > lookApart {
			t.Errorf("the other account's attempt began at %v", got)
		}
		if n := q.unsettled(); n != 0 {
			t.Errorf("%d of %d are still waiting", n, events)
		}
		if most > perAccount || most < perUnknown {
			t.Errorf("%d were under way at once, want at most %d", most, perAccount)
		}
		stop()
	})
}

// A deliverer that is stopped claims nothing more, and sees through what it has begun.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		d, stop := run(t, q, func(store.Delivery) (int, time.Duration) { return 200, 5 * time.Second })
		q.accept("acct_1", "chk_1")
		d.Hint()
		<-time.After(time.Second)
		began := time.Now()
		go q.accept("acct_2", "chk_2")
		stop()
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("stopping took %v, want 4s", took)
		}
		if diff := cmp.Diff([]int{1, 0}, []int{len(q.times("chk_1")), len(q.times("chk_2"))}); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

// An account that was slow is slow no longer once it answers quickly, or after a minute.
func TestSlowAccountsAreGivenAnotherChance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		var turned atomic.Int32
		slowly := func() {
			held := p.take("a", func() { turned.Add(1) })
			<-time.After(2 * slowAfter)
			p.leave(held, 2*slowAfter)
		}
		slowly()
		if _, closed, _, slow := p.lanes(); turned.Load() != 1 || !slices.Equal(closed, []string{"a"}) ||
			!slices.Equal(slow, []string{"a"}) {
			t.Errorf("after a slow attempt (%d turned) closed to %v, slow %v", turned.Load(), closed, slow)
		}
		p.leave(p.take("a", nil), time.Millisecond)
		if _, closed, _, slow := p.lanes(); len(closed) != 0 || len(slow) != 0 {
			t.Errorf("after a quick attempt closed to %v, slow %v", closed, slow)
		}
		slowly()
		<-time.After(slowFor + time.Second)
		if _, closed, _, _ := p.lanes(); len(closed) != 0 || len(p.accounts) != 0 {
			t.Errorf("a minute later closed to %v, %d remembered", closed, len(p.accounts))
		}
		if all, slow := p.underWay(); all != 0 || slow != 0 {
			t.Errorf("%d places taken, %d slow", all, slow)
		}
	})
}

// What goes wrong within an attempt is a failed attempt.
func TestPanicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	d := delivery("http://127.0.0.1:1")
	d.Secrets = nil // sign needs one
	if e := newCaller(newGuard(t), nil, nil, discard()).attempt(d); e.Delivered || e.Error == "" || e.At.IsZero() {
		t.Errorf("%+v", e)
	}
}
