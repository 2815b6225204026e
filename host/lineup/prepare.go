package lineup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"assay/host/check"
	"assay/host/internal/maintenance"
	"assay/host/lineup/fleet"
	"assay/registry"
	"assay/registry/activation"
)

// Candidates provides the lineups that hosts should prepare, and stores their answers.
type Candidates interface {
	// Candidates lists those that have not ended, oldest first.
	Candidates(ctx context.Context) ([]fleet.Candidate, error)
	Answer(ctx context.Context, a fleet.Answer) error
}

// Preparer opens candidates next to the lineup in force and keeps their plugins open until the candidates end. The
// follower then swaps in a lineup that was prepared without opening anything.
type Preparer struct {
	Candidates Candidates
	Follower   *Follower
	Host       string // the host's ID in the fleet
	Log        *slog.Logger
	// Measure returns the changes that a candidate would have made on this host. nil: candidates are not measured.
	Measure func(ctx context.Context, candidate *check.Lineup) (report any, err error)

	once      sync.Once
	changed   chan struct{}
	kept      chan struct{} // holds an element for each candidate that is kept open
	measuring chan struct{} // holds an element while a lineup is measured
	polling   time.Duration // 0: pollInterval
}

// Limits on the cost of candidates, which anyone with access to the database can write: maxCandidates may be kept open,
// each with as many plugins as a lineup, for keepCandidate at most. Only one measured candidate is open at a time.
const (
	maxCandidates = 4
	keepCandidate = time.Hour
)

// CandidatesChanged notifies the preparer that candidates may have been added or ended. It never blocks.
func (p *Preparer) CandidatesChanged() { notify(p.changes()) }

func (p *Preparer) changes() chan struct{} {
	p.once.Do(func() {
		p.changed, p.measuring = make(chan struct{}, 1), make(chan struct{}, 1)
		p.kept = make(chan struct{}, maxCandidates)
	})
	return p.changed
}

// Run prepares candidates until ctx ends. It acts on notifications at once and polls in between.
func (p *Preparer) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(cmp.Or(p.polling, pollInterval))
	defer tick.Stop()
	changes := p.changes()
	working := map[string]context.CancelFunc{}
	for {
		reading, done := context.WithTimeout(ctx, readTimeout)
		open, err := p.Candidates.Candidates(reading)
		done()
		if err != nil && ctx.Err() == nil {
			p.Log.Warn("looking for lineups to prepare failed", "error", err)
		}
		if err == nil {
			ended := working
			working = map[string]context.CancelFunc{}
			for _, c := range open {
				if stop, ok := ended[c.ID]; ok {
					working[c.ID] = stop
					delete(ended, c.ID)
					continue
				}
				one, stop := context.WithCancel(ctx)
				working[c.ID] = stop
				all.Go(func() { p.prepare(one, c) })
			}
			for _, stop := range ended {
				stop()
			}
		}
		select {
		case <-ctx.Done(): // which also ends the contexts of working
			return
		case <-changes:
		case <-tick.C:
		}
	}
}

var errCrowded = fmt.Errorf("%d other lineups are being prepared", maxCandidates)

// prepare opens a candidate, answers that it is ready, and keeps it open until ctx ends.
func (p *Preparer) prepare(ctx context.Context, c fleet.Candidate) {
	p.answer(ctx, fleet.Answer{Candidate: c.ID, Host: p.Host, Progress: fleet.Loading})
	began := time.Now()
	document, keep, err := p.document(ctx, c)
	if err == nil {
		var leave func()
		if leave, err = p.enter(ctx, keep); err == nil {
			defer leave()
		}
	}
	var plugins []*openPlugin
	var report json.RawMessage
	if err == nil {
		plugins, report, err = p.open(ctx, document)
	}
	p.Follower.open.trim()
	defer func() { p.Follower.open.release(plugins) }()
	answer := fleet.Answer{Candidate: c.ID, Host: p.Host, Progress: fleet.Ready, Report: report}
	if err != nil {
		answer.Progress, answer.Reason = fleet.Refused, err.Error()
	}
	if ctx.Err() != nil {
		return
	}
	p.Log.Info("prepared a lineup", "candidate", c.ID, "answer", answer.Progress, "reason", answer.Reason, "ms",
		time.Since(began).Milliseconds())
	p.answer(ctx, answer)
	if keep && err == nil {
		maintenance.Pause(ctx, keepCandidate)
	}
}

// enter waits until a candidate may be opened. It fails if too many are kept open.
func (p *Preparer) enter(ctx context.Context, keep bool) (leave func(), err error) {
	p.changes()
	if keep {
		select {
		case p.kept <- struct{}{}:
			return func() { <-p.kept }, nil
		default:
			return nil, errCrowded
		}
	}
	select {
	case p.measuring <- struct{}{}:
		return func() { <-p.measuring }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open opens a candidate's plugins and measures it.
func (p *Preparer) open(ctx context.Context, document registry.LineupDocument) ([]*openPlugin, json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	candidate, plugins, err := p.Follower.open.openLineup(ctx, 0, document)
	if err != nil || p.Measure == nil {
		return plugins, nil, err
	}
	measured, err := p.Measure(ctx, candidate)
	var report json.RawMessage
	if err == nil {
		report, err = json.Marshal(measured)
	}
	if err != nil {
		p.Follower.open.release(plugins)
		return nil, nil, fmt.Errorf("measuring the lineup: %w", err)
	}
	return plugins, report, nil
}

// document returns the lineup of a candidate, and whether it is kept open. An activation must be one that this host
// would run.
//
// Layers run on the values of recent checks, and a report counts their findings. A layer that no operator has signed
// could therefore leak the values to an attacker with access to the database.
func (p *Preparer) document(ctx context.Context, c fleet.Candidate) (l registry.LineupDocument, keep bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	v, text := p.Follower.verifier, []byte(c.Document)
	switch {
	case c.Signed == "":
		if l, err = registry.OpenLineup(text, registry.LineupHash(text)); err == nil {
			err = p.Follower.runs(l)
		}
	case activation.IsMeasurement(c.Signed):
		if text, err = v.Trust.OpenMeasurement(c.Signed); err == nil {
			l, err = registry.OpenLineup(text, registry.LineupHash(text))
		}
	default:
		a, err := v.VerifyCandidate(ctx, c.Signed)
		if inForce, _ := p.Follower.InForce(); a.Trial != nil && a.Lineup == inForce.Lineup {
			return *a.Trial, true, err // the lineup of the other accounts stays
		}
		return a.Document, true, err
	}
	return l, false, cmp.Or(err, v.refuseRevoked(l.Layers))
}

// runs reports an error unless each layer of l has the module and the settings of a layer in force, so that l differs
// in weights, bias and bands only.
func (f *Follower) runs(l registry.LineupDocument) error {
	f.mu.Lock()
	known := f.inForce.Layers()
	f.mu.Unlock()
	var errs []error
	for _, layer := range l.Layers {
		if !slices.ContainsFunc(known, layer.SameModule) {
			errs = append(errs, fmt.Errorf("%s is not in force with this module and these settings: an operator must "+
				"sign what hosts measure", layer.Layer))
		}
	}
	return errors.Join(errs...)
}

// answer repeats an answer until it is stored or ctx ends.
func (p *Preparer) answer(ctx context.Context, a fleet.Answer) {
	for {
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		err := p.Candidates.Answer(bounded, a)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		p.Log.Warn("answering about a lineup failed", "error", err)
		maintenance.Pause(ctx, pollInterval)
	}
}
