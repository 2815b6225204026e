// Package canary judges a lineup that scores for a share of the accounts. A [Watch] compares its decisions with those
// of the other accounts' lineup on the same facts, and withdraws it when too many differ.
package canary

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/replay"
)

// Watch judges the canary in force on a host. Its fields are set once, before use. It works after the answers, with the
// host's spare capacity, and skips checks that it has no time for.
type Watch struct {
	Live      *check.Live
	Collector check.Collector // of the facts that only the other lineup reads; nil: none
	Turn      replay.Turn     // for calls of layers; nil: at once
	// Withdraw ends the canary with the given revision. If it fails, it is called again later.
	Withdraw func(ctx context.Context, revision int64, reason string) error
	Observe  func(Outcome) // called for each check
	Log      *slog.Logger

	once    sync.Once
	waiting chan trial

	mu      sync.Mutex // guards the fields below, which only Run writes
	lineups [3]int64   // that tally compares: the revisions of the lineup and its canary, and when the canary began
	tally   *tally

	// Used only by Run.
	withdrawn bool
	failed    time.Time // when Withdraw failed last
}

var _ check.Trial = (*Watch)(nil)

// Outcome is the effect of a canary on a check.
type Outcome string

// The outcomes.
const (
	Same    Outcome = "same"
	Flipped Outcome = "flipped"  // another verdict
	Failed  Outcome = "failed"   // a layer failed
	Again   Outcome = "again"    // the value was counted before
	LeftOut Outcome = "left_out" // the host had no time to compare it
)

// trial is a check that a canary scored.
type trial struct {
	revision int64 // the canary's
	at       time.Time
	record   check.Record
}

const (
	maxWaiting = 256
	maxWait    = 10 * time.Second // a value may be erased meanwhile, so a check must not wait for long
	deadline   = time.Second
	retryDelay = 15 * time.Second
)

func (w *Watch) queue() chan trial {
	w.once.Do(func() { w.waiting = make(chan trial, maxWaiting) })
	return w.waiting
}

// Decided implements check.Trial.
func (w *Watch) Decided(records []check.Record) {
	for _, r := range records {
		if r.Decision.Override == nil { // no lineup changes an overridden verdict
			select {
			case w.queue() <- trial{revision: r.Decision.Revision, at: time.Now(), record: r}:
			default:
				w.Observe(LeftOut)
			}
		}
	}
}

// compared returns the numbers that identify the lineup in force, its canary, and the canary's start.
func compared(l *check.Lineup) [3]int64 {
	return [3]int64{l.Revision, l.Canary.Lineup.Revision, l.Canary.Began}
}

// Summary describes the effect of the canary in force on this host's checks; "" if none was compared yet.
func (w *Watch) Summary() string {
	ref := w.Live.Acquire()
	if ref == nil {
		return ""
	}
	defer ref.Release()
	w.mu.Lock()
	defer w.mu.Unlock()
	if ref.Canary == nil || w.lineups != compared(ref.Lineup) || w.tally.checks == 0 {
		return ""
	}
	return w.tally.String()
}

// Run judges checks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-w.queue():
			w.judge(ctx, t)
		}
	}
}

// judge counts a check, and withdraws the canary if it has exceeded its limit.
func (w *Watch) judge(ctx context.Context, t trial) {
	ref := w.Live.Acquire()
	if ref == nil {
		return
	}
	defer ref.Release()
	if ref.Canary == nil || ref.Canary.Lineup.Revision != t.revision {
		return // it has ended meanwhile
	}
	if now := compared(ref.Lineup); w.tally == nil || w.lineups != now {
		w.mu.Lock()
		w.lineups, w.tally, w.withdrawn = now, newTally(), false
		w.mu.Unlock()
	}
	outcome := w.compare(ctx, ref.Lineup, t)
	if (outcome == Flipped || outcome == Failed) && w.tally.beyond(ref.Canary.Limit) && !w.withdrawn &&
		time.Since(w.failed) > retryDelay {
		w.withdraw(ctx, t.revision)
	}
	w.Observe(outcome)
}

func (w *Watch) withdraw(ctx context.Context, revision int64) {
	reason := w.tally.String()
	if err := w.Withdraw(ctx, revision, "Withdrawn: "+reason); err != nil {
		w.Log.Error("withdrawing the canary failed", "revision", revision, "reason", reason, "error", err)
		w.failed = time.Now()
		return
	}
	w.withdrawn = true
	w.Log.Error("the canary was withdrawn", "revision", revision, "reason", reason)
}

// compare scores a check with the lineup of the other accounts, and counts what differs.
func (w *Watch) compare(ctx context.Context, l *check.Lineup, t trial) Outcome {
	if time.Since(t.at) > maxWait {
		return LeftOut
	}
	if w.tally.counted(t.record.Pseudonym) {
		return Again
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	d := t.record.Decision
	fused, layers, err := replay.Rescore(ctx, l, &t.record, w.Turn,
		func(ctx context.Context, wanted []string) (entity.Facts, error) {
			if w.Collector == nil {
				return nil, nil
			}
			facts, _, err := w.Collector.Collect(ctx, t.record.Caller.Account, t.record.Entity, wanted)
			return facts, err
		})
	if err != nil {
		return LeftOut
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	account := w.tally.count(t.record.Caller.Account, t.record.Pseudonym)
	if layer := failure(d.Layers, layers); layer != "" {
		account.bad++
		w.tally.failed++
		w.tally.failing[layer]++
		return Failed
	}
	if d.Verdict != fused.Verdict {
		account.bad++
		w.tally.flips++
		w.tally.flipped[flip{d.Type, fused.Verdict, d.Verdict}]++
		return Flipped
	}
	return Same
}

// failure returns a layer that failed for the canary and did not fail for the other lineup, or "".
func failure(own, other []check.Outcome) string {
	for _, o := range own {
		if o.Failure != "" && !slices.ContainsFunc(other, func(b check.Outcome) bool {
			return b.Layer == o.Layer && b.Failure != ""
		}) {
			return o.Layer
		}
	}
	return ""
}
