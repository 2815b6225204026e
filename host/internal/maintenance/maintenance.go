// Package maintenance runs the periodic jobs of a host, and pauses loops. The jobs themselves are in other packages.
package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// defaultLimit ends a run. Without one, a statement that hangs would keep all other jobs from running.
	defaultLimit = 2 * time.Minute
	stopTimeout  = 2 * time.Second // limits the jobs that run when the host stops
)

// Job is one periodic task.
type Job struct {
	Name      string
	Every     time.Duration
	Limit     time.Duration // of one run; 0: two minutes
	Run       func(ctx context.Context) error
	AtStop    bool   // also run when the host stops
	Shared    bool   // one host runs it for all; its caller ensures that
	Elsewhere func() // unless it is nil, called instead of Run if another host has run a shared job
}

// Run runs every job immediately and then at its interval, one job at a time, until ctx ends. It logs the errors of a
// job and continues with the next.
func Run(ctx context.Context, log *slog.Logger, jobs []Job) {
	due := make([]time.Time, len(jobs))
	for {
		for i, job := range jobs {
			if time.Now().Before(due[i]) {
				continue
			}
			job.run(ctx, log)
			due[i] = time.Now().Add(job.Every)
		}
		select {
		case <-ctx.Done():
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			for _, job := range jobs {
				if job.AtStop {
					job.run(stopping, log)
				}
			}
			return
		case <-time.After(time.Until(slices.MinFunc(due, time.Time.Compare))):
		}
	}
}

func (j Job) run(ctx context.Context, log *slog.Logger) {
	limit := cmp.Or(j.Limit, defaultLimit)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := j.Run(bounded)
	if err != nil && bounded.Err() != nil {
		err = fmt.Errorf("it did not end within %v: %w", limit, err)
	}
	if err != nil && ctx.Err() == nil {
		log.Error("maintenance job failed", "job", j.Name, "error", err)
	}
}

// Pause waits until d has passed or ctx ends. It returns false if ctx ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
