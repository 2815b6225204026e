package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"assay/host/check"
	"assay/host/entity"
)

// Scorer scores a row's value without recording the decision, and replays the row's facts if it has any. It must be
// safe for concurrent use. For invalid values it returns an *entity.InvalidError or a check.NoFieldError.
type Scorer interface {
	Score(ctx context.Context, r Row) (*check.Decision, error)
}

// Model is a lineup to evaluate.
type Model struct {
	Revision int64 // 0 if the lineup is not active
	Bias     check.ByType
	Bands    check.Bands
	Layers   []Layer
	// Limits are conditions on the bias and weights of a type, such as that every finding reaches the band it warrants.
	Limits map[entity.Type][]Limit
	Traced string // the layer whose signals are kept for each row, by name; "": none
}

// Layer is a layer of a [Model].
type Layer struct {
	Name    string
	Version string
	Weight  check.ByType
	Types   []entity.Type
	Style   bool // the layer's class is style: see FitOptions.L2
}

// Scored is a row with its score.
type Scored struct {
	Row
	Invalid string        // why the value is invalid; "" if it was scored
	Score   int           // 0 to 100, as in the API's response
	Threat  string        // the dominant threat; "" for an allow verdict
	unknown bool          // a fact source did not respond in time
	suffix  string        // the public suffix of the domain or mail domain; "" for other types
	letters string        // see lettersOf
	layers  []layerResult // by index into Model.Layers
	codes   []string      // of the signals of Model.Traced
}

// layerResult is the result of a layer for one row.
type layerResult struct {
	abstained bool
	failure   check.FailureReason // "" if the layer returned a result
	score     int16
}

// Labelled is a label with layers' scores for an entity that was not kept.
type Labelled struct {
	Type      entity.Type
	Malicious bool
	Source    string
	Scores    map[string]int // by name of the layer; 0 for a layer that is not in it
}

// Scored returns labels as rows to fit to. Nothing is known about their likeness, so only their source divides them
// into folds.
func (l Model) Scored(labelled []Labelled) []Scored {
	scored := make([]Scored, len(labelled))
	for i, from := range labelled {
		s := &scored[i]
		s.Row = Row{Type: from.Type, Malicious: from.Malicious, Source: from.Source}
		s.letters, s.layers = fmt.Sprint("label ", i), make([]layerResult, len(l.Layers))
		for j, layer := range l.Layers {
			s.layers[j].score = int16(from.Scores[layer.Name])
		}
	}
	return scored
}

// Run scores all rows with the given number of workers, or one per processor if workers is 0. progress, if not nil, is
// called up to 20 times with the number of rows done, never concurrently.
func Run(ctx context.Context, scorer Scorer, lineup Model, rows []Row, workers int,
	progress func(done, total int)) ([]Scored, error) {
	index := map[string]int{}
	for i, l := range lineup.Layers {
		index[l.Name] = i
	}
	score := func(row Row) (Scored, error) {
		s := Scored{Row: row}
		d, err := lineup.explain(ctx, scorer, row)
		switch {
		case errors.As(err, new(*entity.InvalidError)), errors.As(err, new(check.NoFieldError)):
			s.Invalid = err.Error()
			return s, nil
		case err != nil:
			return s, fmt.Errorf("scoring %s: %w", row.Type, err)
		}
		s.Score, s.Threat, s.layers = d.Score, d.Threat, make([]layerResult, len(lineup.Layers))
		s.letters = Letters(row.Value)
		if e, err := entity.Parse(row.Type, row.Value, row.Country); err == nil {
			s.suffix, s.letters = e.Facts["domain.suffix"], lettersOf(e)
		}
		s.unknown = slices.ContainsFunc(d.Signals, func(s check.Signal) bool {
			return strings.HasPrefix(s.Code, "host:unknown:") || strings.HasPrefix(s.Code, "host:untrusted:")
		})
		for _, o := range d.Layers {
			i, ok := index[o.Layer]
			if !ok {
				return s, fmt.Errorf("scoring %s: result of layer %s, which is not in the lineup", row.Type, o.Layer)
			}
			s.layers[i] = layerResult{abstained: o.Abstained, failure: o.Failure, score: int16(o.Score)}
			if o.Layer == lineup.Traced {
				s.codes = check.Codes(o.Signals)
			}
		}
		return s, nil
	}
	scored := make([]Scored, len(rows))
	if err := inParallel(ctx, workers, len(rows), progress, func(i int) (err error) {
		scored[i], err = score(rows[i])
		return err
	}); err != nil {
		return nil, err
	}
	return scored, nil
}

// explain scores a row. Its held-out scores replace those of the layers.
func (l Model) explain(ctx context.Context, scorer Scorer, row Row) (*check.Decision, error) {
	d, err := scorer.Score(ctx, row)
	if err != nil || len(row.HeldOut) == 0 {
		return d, err
	}
	for i := range d.Layers {
		o := &d.Layers[i]
		score, ok := row.HeldOut[o.Layer]
		if !ok {
			continue
		}
		score = min(max(score, o.Range[0]), o.Range[1])
		o.Score, o.Contribution, o.Abstained, o.Failure = score, o.Weight*float64(score)/100, false, ""
		threat := ""
		for _, s := range o.Signals {
			threat = cmp.Or(threat, s.Threat)
		}
		o.Signals = []check.Signal{{Points: score, Code: o.Layer + ":held_out:score", Threat: threat,
			Text: "Score by a model that was trained without this row"}}
	}
	d.Fused = check.Fuse(l.Bias[row.Type], l.Bands, d.Layers)
	return d, nil
}

// hasFailure reports whether a layer returned no result.
func (s *Scored) hasFailure() bool {
	return slices.ContainsFunc(s.layers, func(r layerResult) bool { return r.failure != "" })
}

// inParallel calls do for 0 to n-1 from the given number of goroutines, and stops at the first error.
func inParallel(ctx context.Context, workers, n int, progress func(done, total int), do func(i int) error) error {
	const steps = 20 // maximum number of calls of progress
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(workers, runtime.GOMAXPROCS(0)))
	var mu sync.Mutex // guards done and serialises calls of progress
	done := 0
	for i := 0; i < n && within.Err() == nil; i++ {
		group.Go(func() error {
			if err := do(i); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if done++; progress != nil && done*steps/n != (done-1)*steps/n {
				progress(done, n)
			}
			return nil
		})
	}
	err := group.Wait()
	return cmp.Or(context.Cause(ctx), err)
}

// Explain scores the worst errors again, to add their verdicts and the layers' signals to the report.
func (r *Report) Explain(ctx context.Context, scorer Scorer) error {
	for _, t := range r.Types {
		for _, list := range [][]Mistake{t.Errors.Benign, t.Errors.Malicious} {
			for i := range list {
				m := &list[i]
				d, err := r.model.explain(ctx, scorer, m.row)
				if err != nil {
					return fmt.Errorf("explaining %s: %w", t.Type, err)
				}
				m.Verdict, m.Threat, m.Layers = d.Verdict, d.Threat, d.Layers
			}
		}
	}
	return nil
}
