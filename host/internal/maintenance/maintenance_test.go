package maintenance

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"assay/registry/expect"
)

// runFor runs jobs for some time. It returns how often each ran, and the log.
func runFor(t *testing.T, d time.Duration, jobs ...Job) (runs map[string]int, logged string) {
	t.Helper()
	runs = map[string]int{}
	var log bytes.Buffer
	for i, job := range jobs {
		jobs[i].Run = func(ctx context.Context) error {
			runs[job.Name]++
			return job.Run(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	Run(ctx, slog.New(slog.NewTextHandler(&log, nil)), jobs)
	return runs, log.String()
}

func TestRunJobsAtTheirIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ends := func(ctx context.Context) error { return ctx.Err() }
		runs, logged := runFor(t, 65*time.Minute,
			Job{Name: "failing", Every: 10 * time.Minute, AtStop: true, Run: func(ctx context.Context) error {
				return errors.Join(errors.New("no connection"), ctx.Err())
			}},
			Job{Name: "frequent", Every: 10 * time.Minute, AtStop: true, Run: ends},
			Job{Name: "hourly", Every: time.Hour, Run: ends})
		expect.NoDiff(t, "runs within 65 minutes and at the stop", map[string]int{"failing": 8, "frequent": 8,
			"hourly": 2}, runs)
		n := strings.Count(logged, "no connection")
		expect.That(t, n == 8 && !strings.Contains(logged, "frequent"), "logged %d failures, want 8:\n%s", n, logged)
	})
}

// A statement can hang although its connection lives.
func TestJobThatHangsDelaysOthersOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		runs, logged := runFor(t, 38*time.Minute, Job{Name: "hangs", Every: 10 * time.Minute, Run: hang},
			Job{Name: "hangs for longer", Every: 10 * time.Minute, Limit: 5 * time.Minute, Run: hang},
			Job{Name: "ends", Every: 10 * time.Minute, Run: func(context.Context) error { return nil }})
		// "hangs" begins after 0, 12, 24 and 37 minutes.
		expect.NoDiff(t, "runs within 38 minutes", map[string]int{"hangs": 4, "hangs for longer": 3, "ends": 3}, runs)
		for _, want := range []string{"did not end within 2m0s", "did not end within 5m0s"} {
			expect.That(t, strings.Contains(logged, want), "%q is not logged:\n%s", want, logged)
		}
	})
}
