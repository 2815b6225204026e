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
	Reason string `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	Force  bool   `help:"${lineup_force}"`
	Above  int64  `placeholder:"N" help:"${lineup_above}"`
	terminal.Output
}

func (cmd *lineupSetCmd) Run(ctx context.Context, c *installation.Command) error {
	return putFile(ctx, c, cmd.File, change.Change{Limit: float64(c.FlipLimit),
		Forced: rollout.Forced(cmd.Force, cmd.Reason), Reason: cmd.Reason, Above: cmd.Above})
}

// putFile puts the lineup of a file in force; next has the options of the change.
func putFile(ctx context.Context, c *installation.Command, file string, next change.Change) (err error) {
	if next.Lineup, err = readLineup(file); err != nil {
		return err
	}
	return rollout.Run(ctx, c, func(o *change.Operator, base lineup.Verified) (change.Activated, error) {
		if err := o.CheckBase(ctx, next.Lineup, base); err != nil {
			return change.Activated{}, err
		}
		next.Base = base
		return o.Put(ctx, next)
	})
}

func readLineup(file string) (registry.LineupDocument, error) {
	data, err := installation.ReadFileOrStdin(file)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	return registry.ParseLineup(data)
}
