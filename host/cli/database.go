package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
)

type databaseCmd struct {
	Exec       databaseExecCmd       `cmd:"" help:"${database_exec_cmd}"`
	Distribute databaseDistributeCmd `cmd:"" help:"${database_distribute_cmd}"`
}

type databaseDistributeCmd struct {
	DryRun bool `help:"Only print what would be done."`
	terminal.Output
}

// Run distributes the tables and functions that are not distributed yet. It prints the completed steps even if a later
// one fails.
//
// It is the only command that migrates the database: it runs after an upgrade while no host does, and a host must not
// use the new tables before they are distributed. A dry run migrates nothing.
func (cmd *databaseDistributeCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	schema := store.MigrateSchema
	if cmd.DryRun {
		schema = store.RequireSchema
	}
	b, err := installation.Open(ctx, cfg, t, installation.QuietLog(t), schema)
	if err != nil {
		return err
	}
	return errors.Join(cmd.distribute(ctx, b, t), b.Close())
}

func (cmd *databaseDistributeCmd) distribute(ctx context.Context, b *installation.Backend, t *terminal.Terminal) error {
	steps, failure := b.Store.Distribute(ctx, cmd.DryRun, t.Progress("Distributing"))
	steps = append([]store.Step{}, steps...)
	if len(steps) == 0 && failure == nil {
		return t.Say(steps, "Everything is distributed already.\n")
	}
	header := []string{"KIND", "NAME", "AS", "BYTES", "TOOK"}
	return cmp.Or(terminal.List(t, steps, header, func(s store.Step) []string {
		return []string{s.Kind, s.Name, s.As, fmt.Sprint(s.Bytes), s.Took.Round(time.Millisecond).String()}
	}), failure)
}
