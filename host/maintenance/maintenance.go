// Package maintenance runs the periodic jobs of a host. The jobs themselves are in other packages.
package maintenance

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// stopTimeout limits the jobs that run when the host stops.
const stopTimeout = 2 * time.Second

// Job is one periodic task.
type Job struct {
	Name   string
	Every  time.Duration
	Run    func(ctx context.Context) error
	AtStop bool // also run when the host stops
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
	if err := j.Run(ctx); err != nil && ctx.Err() == nil {
		log.Error("maintenance job failed", "job", j.Name, "error", err)
	}
}
