package lineup

import (
	"context"
	"errors"
	"fmt"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/registry"
	"assay/registry/activation"
)

type lineupRollbackCmd struct {
	Revision int64  `arg:"" optional:"" help:"Revision to activate (default: the previous one)."`
	Reason   string `aliases:"note" placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	JSON     bool   `help:"Print JSON."`
}

func (cmd *lineupRollbackCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return WithInForce(ctx, cfg, t, func(b *installation.Backend, a *installation.Authority, base lineup.Verified) (err error) {
		wanted := cmd.Revision
		if wanted == 0 {
			if wanted, err = revisionBefore(ctx, a, base.Activation); err != nil {
				return err
			}
		}
		// It is neither tried nor validated: it was in force before, and must be available at once in an emergency.
		target, _, err := a.Earlier(ctx, base.Activation, wanted)
		if errors.Is(err, registry.ErrNoRevision) { // not in the signed history: stored by an earlier release
			var l registry.LineupDocument
			if target, l, err = unsigned(ctx, b, t, wanted); err == nil {
				_, err = tryLineup(ctx, cfg, b, t, l)
			}
		}
		if err != nil {
			return err
		}
		proposal := lineup.Proposal{Base: base.Activation, Lineup: target, Reason: cmd.Reason}
		warnOfCanary(t, proposal)
		signed, err := b.Change(ctx, a, proposal)
		if err != nil {
			return err
		}
		done, err := await(ctx, b, rollout(b, t, cmd.JSON), signed.Activation)
		if err != nil {
			return err
		}
		return done.Print(t, cmd.JSON)
	})
}

// revisionBefore returns the revision that was in force before the lineup of an activation.
func revisionBefore(ctx context.Context, a *installation.Authority, inForce activation.Activation) (int64, error) {
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
func unsigned(
	ctx context.Context, b *installation.Backend, t *terminal.Terminal, revision int64,
) (activation.Lineup, registry.LineupDocument, error) {
	r, err := b.Store.LineupRevision(ctx, revision)
	if err != nil {
		return activation.Lineup{}, r.Lineup, err
	}
	fmt.Fprintf(t.Err, "warning: revision %d was never signed, so its content is not verified\n", revision)
	l, err := lineup.Pin(ctx, b.Store, r.Lineup, registry.LineupDocument{})
	if err != nil {
		return activation.Lineup{}, l, err
	}
	stored, err := lineup.StoreLineup(ctx, b.Store, l, r.Origin)
	return stored, l, err
}
