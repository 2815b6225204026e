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

	"github.com/google/go-cmp/cmp"
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
		if diff := cmp.Diff(map[string]int{"failing": 8, "frequent": 8, "hourly": 2}, runs); diff != "" {
			t.Errorf("runs within 65 minutes and at the stop (-want +got):\n%s", diff)
		}
		text := logged.String()
		if n := strings.Count(text, "no connection"); n != 8 || strings.Contains(text, "frequent") {
			t.Errorf("logged %d failures, want 8:\n%s", n, text)
		}
	})
}
