package store

import (
	"database/sql"
	"sync"
	"testing"
	"time"
)

func TestRetrySchedule(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	o := outboxOf(t, s)
	ref := blocked(t, ledgerOn(t, s, LedgerConfig{}), subscriber(t, s), 1)[0]
	for i, wait := range []time.Duration{time.Second, 4 * time.Second, 16 * time.Second, 0} {
		d := claimOne(t, o)
		if d.Attempt != i+1 || d.Late != 0 {
			t.Errorf("attempt %d was claimed as %d, %v late", i+1, d.Attempt, d.Late)
		}
		claimNone(t, o, "while an attempt is in flight")
		clock.advance(t, 9*time.Second) // a long attempt; the delay counts from its end
		delay, retry := finish(t, o, ended(d, 500))
		if delay != wait || retry != (wait > 0) {
			t.Errorf("after attempt %d the next is due in %v, %v, want %v", i+1, delay, retry, wait)
		}
		if wait > 0 {
			clock.advance(t, wait-time.Microsecond)
			claimNone(t, o, "a microsecond before the next attempt is due")
			clock.advance(t, time.Microsecond)
		}
	}
	clock.advance(t, time.Hour)
	claimNone(t, o, "after the last attempt")
	expect(t, "the event", state(t, s, ref), "failed 4 begun 4 ended held")
}

// The delay counts from the end of an attempt, not from when its outcome is recorded: the time that the outcome waits
// for a connection is part of it.
func TestRetryDelayCountsWhileOutcomesQueue(t *testing.T) {
	t.Parallel()
	s, _ := openWithClock(t)
	o := outboxOf(t, s)
	blocked(t, ledgerOn(t, s, LedgerConfig{}), subscriber(t, s), 1)
	e := ended(claimOne(t, o), 500)
	e.EndedAt = time.Now()
	var busy [outcomeConnections]*sql.Conn
	for i := range busy {
		var err error
		if busy[i], err = o.outcomes.DB.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var delay time.Duration
	var retry bool
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		if delay, retry, err = o.Finish(t.Context(), e); err != nil {
			t.Error(err)
		}
	})
	until(t, "the outcome has waited for 700 ms", func() bool {
		return o.outcomes.Stats().WaitCount > 0 && time.Since(e.EndedAt) >= 700*time.Millisecond
	})
	for _, conn := range busy {
		conn.Close()
	}
	wg.Wait()
	if !retry || delay > 300*time.Millisecond {
		t.Errorf("700 ms after the attempt ended, the next is due in %v, %v, want at most 300 ms", delay, retry)
	}
}
