package lineup

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"assay/host/check"
	"assay/host/fleet"
	"assay/registry"
)

// Candidates provides the lineups that hosts are asked to prepare, and takes their answers.
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
	// Measure returns what a candidate would have changed on this host. nil: candidates are not measured.
	Measure func(ctx context.Context, candidate *check.Lineup) (report any, err error)

	once    sync.Once
	changed chan struct{}
	polling time.Duration // 0: pollInterval
}

// maxCandidates bounds the memory that candidates take: each may have as many plugins open as a lineup.
const maxCandidates = 4

// CandidatesChanged notifies the preparer that candidates may have been added or ended. It never blocks.
func (p *Preparer) CandidatesChanged() { notify(p.changes()) }

func (p *Preparer) changes() chan struct{} {
	p.once.Do(func() { p.changed = make(chan struct{}, 1) })
	return p.changed
}

// Run prepares candidates until ctx ends. It acts on notifications at once and polls in between.
func (p *Preparer) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	interval := p.polling
	if interval == 0 {
		interval = pollInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	working := map[string]context.CancelFunc{}
	for {
		open, err := p.Candidates.Candidates(ctx)
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
				crowded := len(working) > maxCandidates
				all.Go(func() { p.prepare(one, c, crowded) })
			}
			for _, stop := range ended {
				stop()
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range working {
				stop()
			}
			return
		case <-p.changes():
		case <-tick.C:
		}
	}
}

var errCrowded = fmt.Errorf("%d other lineups are being prepared", maxCandidates)

// prepare opens a candidate, says so, and keeps it open until ctx ends.
func (p *Preparer) prepare(ctx context.Context, c fleet.Candidate, crowded bool) {
	p.answer(ctx, fleet.Answer{Candidate: c.ID, Host: p.Host, Progress: fleet.Loading})
	began := time.Now()
	var plugins []*openPlugin
	var report json.RawMessage
	err := errCrowded
	if !crowded {
		plugins, report, err = p.open(ctx, c)
	}
	if p.Follower.opened.Swap(false) {
		returnMemory()
	}
	defer func() {
		if p.Follower.release(plugins) {
			returnMemory()
		}
	}()
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
	if c.Signed != "" {
		<-ctx.Done()
	}
}

// open opens a candidate's plugins and measures it. A signed one must be an activation that this host would run.
func (p *Preparer) open(ctx context.Context, c fleet.Candidate) ([]*openPlugin, json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	document, err := p.document(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	candidate, plugins, err := p.Follower.openLineup(ctx, 0, document)
	if err != nil || p.Measure == nil {
		return plugins, nil, err
	}
	measured, err := p.Measure(ctx, candidate)
	var report json.RawMessage
	if err == nil {
		report, err = json.Marshal(measured)
	}
	if err != nil {
		p.Follower.release(plugins)
		return nil, nil, fmt.Errorf("measuring the lineup: %w", err)
	}
	return plugins, report, nil
}

// document returns the lineup to prepare.
func (p *Preparer) document(ctx context.Context, c fleet.Candidate) (registry.LineupDocument, error) {
	if c.Signed == "" {
		text := []byte(c.Document)
		return registry.OpenLineup(text, registry.LineupHash(text))
	}
	a, err := p.Follower.verifier.VerifyCandidate(ctx, c.Signed)
	if err == nil && a.Trial != nil {
		return *a.Trial, nil // the lineup of the other accounts stays
	}
	return a.Document, err
}

// answer repeats an answer until it is stored or ctx ends.
func (p *Preparer) answer(ctx context.Context, a fleet.Answer) {
	for {
		err := p.Candidates.Answer(ctx, a)
		if err == nil || ctx.Err() != nil {
			return
		}
		p.Log.Warn("answering about a lineup failed", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollInterval):
		}
	}
}
