package lineup

import (
	"context"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/registry"
)

type lineupSetCmd struct {
	File   string `arg:"" help:"Lineup as JSON. '-' reads standard input."`
	Reason string `aliases:"note" placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	Force  bool   `help:"${lineup_force}"`
	Above  int64  `placeholder:"N" help:"${lineup_above}"`
	JSON   bool   `help:"Print JSON."`
}

func (cmd *lineupSetCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return putFile(ctx, cfg, t, cmd.JSON, cmd.File, change.Change{Limit: float64(cfg.FlipLimit),
		Forced: rollout.Forced(cmd.Force, cmd.Reason), Reason: cmd.Reason, Above: cmd.Above})
}

// putFile puts the lineup of a file in force as a change says.
func putFile(
	ctx context.Context, cfg *installation.Config, t *terminal.Terminal, asJSON bool, file string, c change.Change,
) (err error) {
	if c.Lineup, err = readLineup(file); err != nil {
		return err
	}
	return rollout.Run(ctx, cfg, t, asJSON, func(o *change.Operator, base lineup.Verified) (change.Activated, error) {
		if err := o.CheckBase(ctx, c.Lineup, base); err != nil {
			return change.Activated{}, err
		}
		c.Base = base
		return o.Put(ctx, c)
	})
}

func readLineup(file string) (registry.LineupDocument, error) {
	data, err := installation.ReadFile(file)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	return registry.ParseLineup(data)
}
