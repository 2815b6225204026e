package eval

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// Scorer scores one value without recording it. It is safe for concurrent use; what cannot be such a value at all is an
// *entity.InvalidError or a check.NoFieldError.
type Scorer interface {
	Explain(ctx context.Context, f check.Field, country string) (*check.Decision, error)
}

// Model is what is measured.
type Model struct {
	Revision int64 // 0 for a document that is not in force
	Bias     float64
	Bands    check.Bands
	Layers   []Layer
}

// Layer is one of its layers.
type Layer struct {
	Name    string
	Version string
	Weight  float64
	Types   []entity.Type
	Budget  time.Duration // what one call may take in life; a measurement lets it take longer, and counts that
}

// Scored is what became of a row.
type Scored struct {
	Row
	Refused string // why it was not scored; "" when it was
	Score   int    // as a customer would have been answered
	unknown bool   // a source of facts did not answer in time
	layers  []mark // by index into Lineup.Layers
}

// mark is one layer's part in a row's score.
type mark struct {
	abstained bool
	over      bool // it took longer than its budget
	lost      check.FailureReason
	score     int16
}

// Run scores all rows, workers at a time (0: as many as there are processors). Rows that a layer was lost on, or ran
// longer than its budget for, are scored once more at the end, one by one, so that a busy machine is not taken for a
// bad layer. progress is told how many rows are done, twenty times and never concurrently; it may be nil.
func Run(ctx context.Context, scorer Scorer, lineup Model, rows []Row, workers int,
	progress func(done, total int)) ([]Scored, error) {
	index := map[string]int{}
	for i, l := range lineup.Layers {
		index[l.Name] = i
	}
	one := func(row Row) (Scored, error) {
		s := Scored{Row: row}
		d, err := scorer.Explain(ctx, check.Field{Type: row.Type, Value: row.Value}, row.Country)
		var invalid *entity.InvalidError
		var none check.NoFieldError
		switch {
		case errors.As(err, &invalid), errors.As(err, &none):
			s.Refused = err.Error()
			return s, nil
		case err != nil:
			return s, fmt.Errorf("scoring %s: %w", row.Type, err)
		}
		s.Score, s.layers = d.Score, make([]mark, len(lineup.Layers))
		s.unknown = slices.ContainsFunc(d.Signals,
			func(s check.Signal) bool { return strings.HasPrefix(s.Code, "host:unknown:") })
		for _, o := range d.Layers {
			i, ok := index[o.Layer]
			if !ok {
				return s, fmt.Errorf("scoring %s: layer %s answered, which is not in the lineup", row.Type, o.Layer)
			}
			took := time.Duration(o.Micros) * time.Microsecond
			s.layers[i] = mark{abstained: o.Abstained, lost: o.Failure, score: int16(o.Score),
				over: took > lineup.Layers[i].Budget}
		}
		return s, nil
	}
	scored := make([]Scored, len(rows))
	if err := inParallel(ctx, workers, len(rows), progress, func(i int) (err error) {
		scored[i], err = one(rows[i])
		return err
	}); err != nil {
		return nil, err
	}
	sound := map[entity.Type]Row{}
	for i := range scored {
		if scored[i].Refused == "" && !scored[i].troubled() {
			sound[scored[i].Type] = rows[i]
		}
	}
	for i := range scored {
		if !scored[i].troubled() {
			continue
		}
		if row, ok := sound[scored[i].Type]; ok {
			if err := wake(ctx, func() (Scored, error) { return one(row) }); err != nil {
				return nil, err
			}
		}
		again, err := one(rows[i])
		if err != nil {
			return nil, err
		}
		scored[i] = again
	}
	return scored, nil
}

// wake scores a row that no layer has trouble with until none has: a layer that was lost several times in a row rests
// for a while, and would be lost for rows that it can score.
func wake(ctx context.Context, score func() (Scored, error)) error {
	const patience, pause = 2 * time.Minute, 50 * time.Millisecond // the longest rest is a minute
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < patience; {
		s, err := score()
		if err != nil || !slices.ContainsFunc(s.layers, func(m mark) bool { return m.lost != "" }) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

func (s *Scored) troubled() bool {
	return slices.ContainsFunc(s.layers, func(m mark) bool { return m.lost != "" || m.over })
}

// inParallel calls do for 0 to n-1, workers at a time, until one fails.
func inParallel(ctx context.Context, workers, n int, progress func(done, total int), do func(i int) error) error {
	const steps = 20 // of progress
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex // guards done, and calls of progress
	done := 0
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				done++
				if progress != nil && done*steps/n != (done-1)*steps/n {
					progress(done, n)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Explain asks for the worst errors once more, and keeps what every layer said.
func (r *Report) Explain(ctx context.Context, scorer Scorer) error {
	for _, t := range r.Types {
		for _, list := range [][]Mistake{t.Errors.Benign, t.Errors.Malicious} {
			for i := range list {
				m := &list[i]
				d, err := scorer.Explain(ctx, check.Field{Type: t.Type, Value: m.Value}, m.Country)
				if err != nil {
					return fmt.Errorf("explaining %s: %w", t.Type, err)
				}
				m.Verdict, m.Threat, m.Layers = d.Verdict, d.Threat, d.Layers
			}
		}
	}
	return nil
}
