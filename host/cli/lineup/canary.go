package lineup

import (
	"context"
	"errors"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/registry"
	"assay/registry/activation"
)

type lineupCanaryCmd struct {
	File   string            `arg:"" optional:"" help:"${lineup_canary_file}"`
	Share  rollout.Percent   `placeholder:"PERCENT" help:"Share of the accounts, such as 5%: always the same accounts."`
	Limit  *activation.Limit `placeholder:"PERCENT" help:"${lineup_canary_limit}"`
	Stop   bool              `help:"End the canary instead, at once."`
	Reason string            `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	terminal.Output
}

// Validate checks the flags. Kong calls it.
func (cmd *lineupCanaryCmd) Validate() error {
	switch {
	case cmd.Stop && (cmd.File != "" || cmd.Share != 0 || cmd.Limit != nil):
		return errors.New("--stop takes neither a file nor --share or --limit")
	case !cmd.Stop && cmd.File != "" && cmd.Share == 0:
		return errors.New("--share is missing")
	case !cmd.Stop && cmd.File == "" && cmd.Share == 0 && cmd.Limit == nil:
		return errors.New("a file, --share, --limit or --stop is required")
	}
	return nil
}

// Run starts, changes or ends a canary.
func (cmd *lineupCanaryCmd) Run(ctx context.Context, c *installation.Command) error {
	if cmd.File != "" {
		return putFile(ctx, c, cmd.File, change.Change{Share: int(cmd.Share), Reason: cmd.Reason,
			Limit: rollout.Limit(c.Config, cmd.Limit)})
	}
	changed := change.CanaryChange{End: cmd.Stop, Share: int(cmd.Share), Limit: cmd.Limit}
	return rollout.Run(ctx, c, func(o *change.Operator, base lineup.Verified) (change.Activated, error) {
		return o.ChangeCanary(ctx, base.Activation, changed, cmd.Reason)
	})
}

type lineupPromoteCmd struct {
	Force  bool   `help:"${lineup_promote_force}"`
	Reason string `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	terminal.Output
}

// Run makes the canary the lineup. Every host has it open already, so nothing is prepared.
func (cmd *lineupPromoteCmd) Run(ctx context.Context, c *installation.Command) error {
	return rollout.Run(ctx, c, func(o *change.Operator, base lineup.Verified) (change.Activated, error) {
		return o.Promote(ctx, base.Activation, rollout.Forced(cmd.Force, cmd.Reason), cmd.Reason)
	})
}

// ShownLineup is the JSON output of `assay lineup show`.
type ShownLineup struct {
	*registry.LineupRevision
	Canary *shownCanary `json:"canary,omitempty"` // next to the lineup in force
}

type shownCanary struct {
	Revision int64  `json:"revision"`
	Share    int    `json:"share"` // in percent
	Limit    string `json:"limit"`
}

func newShownCanary(c *activation.Canary) *shownCanary {
	if c == nil {
		return nil
	}
	return &shownCanary{c.Revision, c.Share, c.Limit.String()}
}
