package lineup

import (
	"context"
	"fmt"
	"slices"

	"assay/host/check"
	"assay/registry"
)

// load opens an activation's layers and swaps them in, unless they are in force already.
func (f *Follower) load(ctx context.Context, a Verified) error {
	f.mu.Lock()
	sameLineup := f.state.Revision != 0 && f.inForce.Lineup == a.Lineup
	sameCanary := (f.inForce.Canary == nil) == (a.Canary == nil) &&
		(a.Canary == nil || *f.inForce.Canary == *a.Canary && f.inForce.Began == a.Began)
	f.mu.Unlock()
	if sameLineup && sameCanary {
		return f.enter(a, nil)
	}
	next, plugins, err := f.openActivation(ctx, a)
	if err != nil {
		return err
	}
	if err := f.enter(a, func() { f.swap(next, plugins, sameLineup) }); err != nil {
		f.open.release(plugins)
		return err
	}
	f.open.dropKept()
	return nil
}

// openActivation opens the lineup of an activation and that of its canary. The caller must release the plugins.
func (f *Follower) openActivation(ctx context.Context, a Verified) (*check.Lineup, []*openPlugin, error) {
	lineup, plugins, err := f.open.openLineup(ctx, a.Lineup.Revision, a.Document)
	if err != nil || a.Canary == nil {
		return lineup, plugins, err
	}
	trial, more, err := f.open.openLineup(ctx, a.Canary.Revision, *a.Trial)
	if err != nil {
		f.open.keepOrRelease(ctx, plugins)
		return nil, nil, fmt.Errorf("canary: %w", err)
	}
	// The hash selects the accounts, so they are the same on each host, and as the share grows, accounts only join.
	lineup.Canary = &check.Canary{Lineup: trial, Percent: a.Canary.Share, Seed: a.Canary.Hash[:],
		Limit: a.Canary.Limit.Share(), Began: a.Began}
	return lineup, append(plugins, more...), nil
}

// openLineup opens the layers of a lineup that are not off. The caller must release the plugins.
func (o *openPlugins) openLineup(ctx context.Context, revision int64, l registry.LineupDocument) (
	*check.Lineup, []*openPlugin, error) {
	l.Layers = slices.DeleteFunc(slices.Clone(l.Layers), func(layer registry.LineupLayer) bool {
		return layer.Runs() == registry.ModeOff
	})
	plugins, err := o.acquire(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	members := make([]check.Member, len(plugins))
	for i, p := range plugins {
		members[i] = NewMember(l.Layers[i], p.Plugin)
	}
	bands := check.Bands{Review: l.Bands.Review, Block: l.Bands.Block}
	return check.NewLineup(revision, ByType(l.Bias), bands, members), plugins, nil
}

// preparePublished prepares plugins after each notification until ctx ends.
func (f *Follower) preparePublished(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.published:
			f.open.prepare(ctx)
		}
	}
}
