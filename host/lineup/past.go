package lineup

import (
	"context"
	"fmt"

	"assay/host/check"
)

// Past opens lineups that were in force, one at a time, because opening a layer takes a processor and memory that
// checks need. Layers that are open already, such as those of the lineup in force, are not opened again.
type Past struct {
	follower *Follower
	turn     chan struct{} // holds an element while a lineup is open
}

// NewPast returns the past lineups of a follower.
func NewPast(f *Follower) *Past { return &Past{f, make(chan struct{}, 1)} }

// Open waits until no other one is open, then opens a revision to which signed activations lead back from the one in
// force. The caller must call release after the last use.
func (p *Past) Open(ctx context.Context, revision int64) (l *check.Lineup, release func(), err error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	inForce, _ := p.follower.InForce()
	_, document, err := p.follower.verifier.Earlier(ctx, inForce.Activation, revision)
	var plugins []*openPlugin
	if err == nil {
		l, plugins, err = p.follower.open.openLineup(ctx, revision, document)
	}
	if err != nil {
		<-p.turn
		return nil, nil, fmt.Errorf("opening lineup revision %d: %w", revision, err)
	}
	return l, func() { p.follower.open.release(plugins); <-p.turn }, nil
}
