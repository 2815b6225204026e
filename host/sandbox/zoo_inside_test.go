package sandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"assay/host/check"
)

// WakeUp ends a plugin's rest, for tests that make it fail more often than a plugin may.
func (p *Plugin) WakeUp() { p.breaker.record(true, time.Now()) }

// A guest that takes its time to start does not hold up the call that needs a new instance beyond its deadline.
func TestSlowStartHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	p := newPool(1, func(context.Context) (*instance, error) {
		<-started
		return &instance{}, nil
	}, func(error) {})
	told := make(chan error, 1)
	go func() {
		_, err := p.acquire(context.Background(), time.Now().Add(time.Millisecond))
		told <- err
	}()
	select {
	case err := <-told:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that the time ran out", err)
		}
	case <-time.After(patience):
		t.Error("the call waited for the instance")
	}
	close(started)
	if _, err := p.acquire(t.Context(), time.Now().Add(patience)); err != nil {
		t.Errorf("the instance that was made in the meantime: %v", err)
	}
}

// A call that waited for an instance until most of its time was over says nothing of the plugin.
func TestQueueIsNotBlamed(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), pack(t, moody().encode(), manifest()))
	for range failureThreshold {
		in, err := p.pool.acquire(t.Context(), time.Now().Add(patience))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		lost := make(chan error, 1)
		go func() {
			_, err := p.Score(context.Background(), facts("example.org", "l"))
			lost <- err
		}()
		until(t, "most of the budget is over", func() bool { return time.Since(began) > p.Manifest().Budget()*7/10 })
		p.pool.release(in)
		if got := lossOf(t, <-lost); got.Reason != check.Timeout {
			t.Errorf("%v, want a timeout", got)
		}
	}
	if p.Suspended() {
		t.Error("the plugin rests because there was a queue")
	}
}
