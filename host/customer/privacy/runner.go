package privacy

import (
	"context"
	"log/slog"
	"time"

	"assay/host/internal/maintenance"
)

// Work is a request that a host has claimed.
type Work interface {
	// Step does a part of the work in short transactions and reports whether more remains.
	Step(ctx context.Context) (more bool, err error)
}

// Queue holds the requests in the background.
type Queue interface {
	// ClaimRequest returns a request that no host works on, from the account whose requests have waited longest for a
	// host, or nil if there is none. A request can be claimed again some seconds after the last step.
	ClaimRequest(ctx context.Context) (Work, error)
}

// Runner works on requests in the background, one at a time. It rests after each step, so that checks are not delayed.
type Runner struct {
	Queue  Queue
	Every  func() time.Duration // between two polls of an empty queue; the maximum delay of a request
	Late   func() time.Duration // by how much the batch of checks in progress is late; nil: never late
	Logger *slog.Logger
}

// restFactor is the time of rest after each step, as a multiple of the step's time.
const restFactor = 3

// maxRest bounds the rest after a step, so that the host keeps the request.
const maxRest = 2 * time.Second

// maxTurn is how long a host works on a request while others wait.
const maxTurn = 10 * time.Second

// Run works until ctx ends. Another host continues with a request that it leaves unfinished.
func (r *Runner) Run(ctx context.Context) {
	for ctx.Err() == nil {
		work := r.claim(ctx)
		if work == nil {
			maintenance.Pause(ctx, r.Every())
			continue
		}
		if err := r.finish(ctx, work); err != nil && ctx.Err() == nil {
			r.Logger.Error("a step of a privacy request failed; it is tried again", "error", err)
		}
	}
}

// claim returns nil if there is no request.
func (r *Runner) claim(ctx context.Context) Work {
	work, err := r.Queue.ClaimRequest(ctx)
	if err != nil && ctx.Err() == nil {
		r.Logger.Error("claiming a privacy request failed", "error", err)
	}
	return work
}

// finish takes the remaining steps of a request. At the end of each turn, it leaves the request for another one that
// waits, if there is one.
func (r *Runner) finish(ctx context.Context, work Work) error {
	turn := time.Now()
	for ctx.Err() == nil {
		start := time.Now()
		if start.Sub(turn) > maxTurn {
			turn = start
			if next := r.claim(ctx); next != nil {
				work = next
			}
		}
		more, err := work.Step(ctx)
		if err != nil || !more {
			return err
		}
		pause := restFactor * time.Since(start)
		if r.Late != nil {
			pause += r.Late()
		}
		maintenance.Pause(ctx, min(pause, maxRest))
	}
	return ctx.Err()
}
