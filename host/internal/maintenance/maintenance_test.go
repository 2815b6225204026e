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

func TestRunJobsAtTheirIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := map[string]int{}
		var logged bytes.Buffer
		job := func(name string, every time.Duration, atStop bool, err error) Job {
			return Job{Name: name, Every: every, AtStop: atStop, Run: func(ctx context.Context) error {
				runs[name]++
				return errors.Join(err, ctx.Err())
			}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Minute)
		defer cancel()
		Run(ctx, slog.New(slog.NewTextHandler(&logged, nil)), []Job{
			job("failing", 10*time.Minute, true, errors.New("no connection")),
			job("frequent", 10*time.Minute, true, nil),
			job("hourly", time.Hour, false, nil),
		})
		expect.NoDiff(t, "runs within 65 minutes and at the stop", map[string]int{"failing": 8, "frequent": 8,
			"hourly": 2}, runs)
		text := logged.String()
		n := strings.Count(text, "no connection")
		expect.That(t, n == 8 && !strings.Contains(text, "frequent"), "logged %d failures, want 8:\n%s", n, text)
	})
}

// A statement can hang although its connection lives.
func TestJobThatHangsDelaysOthersOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := map[string]int{}
		var logged bytes.Buffer
		job := func(name string, limit time.Duration, run func(ctx context.Context) error) Job {
			return Job{Name: name, Every: 10 * time.Minute, Limit: limit, Run: func(ctx context.Context) error {
				runs[name]++
				return run(ctx)
			}}
		}
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		ctx, cancel := context.WithTimeout(t.Context(), 38*time.Minute)
		defer cancel()
		Run(ctx, slog.New(slog.NewTextHandler(&logged, nil)), []Job{
			job("hangs", 0, hang),
			job("hangs for longer", 5*time.Minute, hang),
			job("ends", 0, func(context.Context) error { return nil }),
		})
		// "hangs" begins after 0, 12, 24 and 37 minutes.
		expect.NoDiff(t, "runs within 38 minutes", map[string]int{"hangs": 4, "hangs for longer": 3, "ends": 3}, runs)
		for _, want := range []string{"did not end within 2m0s", "did not end within 5m0s"} {
			expect.That(t, strings.Contains(logged.String(), want), "%q is not logged:\n%s", want, logged.String())
		}
	})
}
