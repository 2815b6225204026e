package lineup

import (
	"context"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
)

type lineupRollbackCmd struct {
	Revision int64  `arg:"" optional:"" help:"Revision to activate (default: the previous one)."`
	Reason   string `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	terminal.Output
}

func (cmd *lineupRollbackCmd) Run(ctx context.Context, c *installation.Command) error {
	return rollout.Run(ctx, c, func(o *change.Operator, base lineup.Verified) (change.Activated, error) {
		return o.Rollback(ctx, base.Activation, cmd.Revision, cmd.Reason)
	})
}
