package lineup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
)

// Past opens lineups that were in force, one at a time, because opening a layer takes a processor and memory that
// checks need. Accounts take turns. Layers that are open already, such as those of the lineup in force, are not opened
// again.
type Past struct {
	follower *Follower
	gate     *admission.Gate
}

// NewPast returns the past lineups of a follower. An account that would have to wait for longer than target is refused.
func NewPast(f *Follower, target time.Duration) *Past {
	return &Past{f, admission.NewGate(admission.Config{Processors: 1, Target: target})}
}

// With waits for the account's turn, and then calls f with a revision that signed activations link to the one in force.
// It returns f's error, those of [admission.Gate.Enter], or why the revision cannot be opened.
func (p *Past) With(ctx context.Context, account string, revision int64, f func(*check.Lineup) error) error {
	visit, err := p.gate.Enter(account, 1)
	if err != nil {
		return err
	}
	defer visit.Close()
	late := visit.Judge(ctx, func() { err = p.with(ctx, revision, f) })
	return cmp.Or(late, err)
}

func (p *Past) with(ctx context.Context, revision int64, f func(*check.Lineup) error) error {
	inForce, _ := p.follower.InForce()
	_, document, err := p.follower.verifier.Earlier(ctx, inForce.Activation, revision)
	if err = cmp.Or(err, p.follower.verifier.refuseRevoked(document.Layers)); err != nil {
		return fmt.Errorf("opening lineup revision %d: %w", revision, err)
	}
	l, plugins, err := p.follower.open.openLineup(ctx, revision, document)
	if err != nil {
		return fmt.Errorf("opening lineup revision %d: %w", revision, err)
	}
	defer p.follower.open.release(plugins)
	return f(l)
}
