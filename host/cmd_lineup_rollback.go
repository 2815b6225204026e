package main

import (
	"context"
	"errors"
	"fmt"

	"assay/host/lineup"
	"assay/registry"
	"assay/registry/activation"
)

type lineupRollbackCmd struct {
	Revision int64  `arg:"" optional:"" help:"Revision to activate (default: the previous one)."`
	Reason   string `aliases:"note" placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	JSON     bool   `help:"Print JSON."`
}

func (cmd *lineupRollbackCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withInForce(ctx, cfg, t, func(b *backend, a *authority, base lineup.Verified) (err error) {
		wanted := cmd.Revision
		if wanted == 0 {
			if wanted, err = a.revisionBefore(ctx, base.Activation); err != nil {
				return err
			}
		}
		// It is neither tried nor validated: it was in force before, and must be available at once in an emergency.
		target, _, err := a.Earlier(ctx, base.Activation, wanted)
		if errors.Is(err, registry.ErrNoRevision) { // not in the signed history: stored by an earlier release
			var l registry.LineupDocument
			if target, l, err = b.unsigned(ctx, t, wanted); err == nil {
				_, err = tryLineup(ctx, cfg, b, t, l)
			}
		}
		if err != nil {
			return err
		}
		proposal := lineup.Proposal{Base: base.Activation, Lineup: target, Reason: cmd.Reason}
		warnOfCanary(t, proposal)
		signed, err := b.change(ctx, a, proposal)
		if err != nil {
			return err
		}
		done, err := b.await(ctx, b.rollout(t, cmd.JSON), signed.Activation)
		if err != nil {
			return err
		}
		return done.print(t, cmd.JSON)
	})
}

// revisionBefore returns the revision that was in force before the lineup of an activation.
func (a *authority) revisionBefore(ctx context.Context, inForce activation.Activation) (int64, error) {
	for before := inForce; before.Previous != (registry.Digest{}); {
		signed, err := a.Records.Activation(ctx, before.Previous)
		if err != nil {
			return 0, err
		}
		if before, err = activation.Unverified(signed); err != nil { // Earlier verifies its hash
			return 0, err
		}
		if before.Lineup != inForce.Lineup {
			return before.Lineup.Revision, nil
		}
	}
	return 0, errors.New("there is no earlier lineup")
}

// unsigned stores an unsigned revision of an earlier release as one that can be signed.
func (b *backend) unsigned(
	ctx context.Context, t *terminal, revision int64,
) (activation.Lineup, registry.LineupDocument, error) {
	r, err := b.store.LineupRevision(ctx, revision)
	if err != nil {
		return activation.Lineup{}, r.Lineup, err
	}
	fmt.Fprintf(t.err, "warning: revision %d was never signed, so its content is not verified\n", revision)
	l, err := lineup.Pin(ctx, b.store, r.Lineup, registry.LineupDocument{})
	if err != nil {
		return activation.Lineup{}, l, err
	}
	stored, err := lineup.StoreLineup(ctx, b.store, l, r.Origin)
	return stored, l, err
}
