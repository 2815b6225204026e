package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/lineup/fleet"
	"assay/registry/expect"
)

// beats is a roster that remembers the reports, and fails to store some of them.
type beats struct {
	fleet.Roster
	mu      sync.Mutex
	failing bool
	reports []string
}

func (b *beats) BeatHost(context.Context, string, string, fleet.State) (int, error) { return 1, nil }
func (b *beats) RemoveHost(context.Context, string) error                           { return nil }

func (b *beats) ReportShadow(_ context.Context, id string, report json.RawMessage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing {
		return errors.New("no database")
	}
	b.reports = append(b.reports, id+" "+string(report))
	return nil
}

// stopping is a roster whose host is stopped during a beat.
type stopping struct {
	fleet.Roster
	stop    func()
	givenUp error // why the beat's context had ended
	removed bool
}

func (s *stopping) BeatHost(ctx context.Context, _, _ string, _ fleet.State) (int, error) {
	s.stop()
	s.givenUp = ctx.Err()
	return 1, s.givenUp
}
func (s *stopping) RemoveHost(context.Context, string) error { s.removed = true; return nil }

// A host that stops during a beat waits for it. The database would store a beat that was given up after the removal,
// and the other hosts would wait for a host that is gone.
func TestBeatEndsBeforeRemoval(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	roster := &stopping{stop: stop}
	p := &fleet.Pulse{Roster: roster, ID: "host_a", Log: slog.New(slog.DiscardHandler),
		State: func() fleet.State { return fleet.State{} }}
	p.Run(ctx)
	expect.That(t, roster.givenUp == nil && roster.removed, "the beat ended with %v, the host was removed: %t",
		roster.givenUp, roster.removed)
}

// A host stores what its shadow layers found every ten seconds at most, when it has changed, and again after a failure.
func TestPulseReportsShadow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		roster, ctx := &beats{}, t.Context()
		var mu sync.Mutex
		var found json.RawMessage
		find := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			found = json.RawMessage(text)
		}
		p := &fleet.Pulse{Roster: roster, ID: "host_a", Log: slog.New(slog.DiscardHandler),
			State: func() fleet.State { return fleet.State{} }, Shadow: func() (json.RawMessage, error) {
				mu.Lock()
				defer mu.Unlock()
				return found, nil
			}}
		ctx, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		want := func(after time.Duration, reports ...string) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			roster.mu.Lock()
			defer roster.mu.Unlock()
			expect.That(t, slices.Equal(roster.reports, reports), "stored %q, want %q", roster.reports, reports)
		}
		want(30 * time.Second)
		find("[1]")
		want(11*time.Second, "host_a [1]")
		want(30*time.Second, "host_a [1]")
		find("[2]")
		roster.mu.Lock()
		roster.failing = true
		roster.mu.Unlock()
		want(30*time.Second, "host_a [1]")
		roster.mu.Lock()
		roster.failing = false
		roster.mu.Unlock()
		want(11*time.Second, "host_a [1]", "host_a [2]")
		for range 5 {
			find("[3]")
			<-time.After(time.Second)
			find("[4]")
			<-time.After(time.Second)
		}
		stop()
		running.Wait()
		n := len(roster.reports)
		expect.That(t, n <= 3, "%d reports were stored: %q", n, roster.reports)
	})
}
