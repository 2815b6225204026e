package privacy

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"assay/registry/expect"
)

// steps is a queue with one request, whose steps each take some time.
type steps struct {
	left         int
	each, worked time.Duration
	ended        func() // called after the last step
}

func (s *steps) ClaimRequest(context.Context) (Work, error) {
	if s.left == 0 {
		return nil, nil
	}
	return s, nil
}

func (s *steps) Step(context.Context) (more bool, err error) {
	<-time.After(s.each)
	s.worked += s.each
	if s.left--; s.left == 0 {
		s.ended()
	}
	return s.left > 0, nil
}

// TestRunnerRests: checks in progress have three quarters of a request's time, and more if they are late. A long step
// is followed by a shorter rest, so that the host keeps the request.
func TestRunnerRests(t *testing.T) {
	t.Parallel()
	type testCase struct{ each, late, rest time.Duration }
	expect.Each(t, map[string]testCase{
		"short steps": {20 * time.Millisecond, 0, 60 * time.Millisecond},
		"late checks": {20 * time.Millisecond, 500 * time.Millisecond, 560 * time.Millisecond},
		"long steps":  {time.Second, 0, 2 * time.Second},
	}, func(t *testing.T, test testCase) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			const n = 10
			began := time.Now()
			queue := &steps{left: n, each: test.each, ended: stop}
			runner := &Runner{Queue: queue, Every: func() time.Duration { return time.Second },
				Late: func() time.Duration { return test.late }, Logger: slog.New(slog.DiscardHandler)}
			runner.Run(ctx)
			expect.Equal(t, "rests in all", time.Since(began)-queue.worked, (n-1)*test.rest)
		})
	})
}

// line is a queue of requests that are due one after the other.
type line []Work

func (l *line) ClaimRequest(context.Context) (work Work, err error) {
	if len(*l) > 0 {
		work, *l = (*l)[0], (*l)[1:]
	}
	return work, nil
}

// TestRunnerTakesTurns: a long request is left for another one that is due, and goes on if there is none.
func TestRunnerTakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began, waited := time.Now(), time.Duration(0)
		long := &steps{left: 100, each: time.Second, ended: stop}
		short := &steps{left: 1, each: time.Second, ended: func() { waited = time.Since(began) }}
		runner := &Runner{Queue: &line{long, short, long}, Every: func() time.Duration { return time.Second },
			Logger: slog.New(slog.DiscardHandler)}
		runner.Run(ctx)
		expect.That(t, waited > maxTurn && waited < 2*maxTurn && long.left == 0, "the short request waited %v", waited)
	})
}
