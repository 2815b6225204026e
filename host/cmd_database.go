package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/host/store"
)

type databaseCmd struct {
	Exec       databaseExecCmd       `cmd:"" help:"${database_exec_cmd}"`
	Distribute databaseDistributeCmd `cmd:"" help:"${database_distribute_cmd}"`
}

type databaseDistributeCmd struct {
	DryRun bool `help:"Only print what would be done."`
	JSON   bool `help:"Print JSON."`
}

// Run distributes the tables and functions that are not distributed yet. It prints the completed steps even if a later
// one fails.
//
// It is the only command that migrates the database: it runs after an upgrade while no host does, and a host must not
// use the new tables before they are distributed. A dry run does not.
func (cmd *databaseDistributeCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	schema := store.MigrateSchema
	if cmd.DryRun {
		schema = store.RequireSchema
	}
	b, err := openBackend(ctx, cfg, t, quietLog(t), schema)
	if err != nil {
		return err
	}
	return errors.Join(cmd.distribute(ctx, b, t), b.close())
}

func (cmd *databaseDistributeCmd) distribute(ctx context.Context, b *backend, t *terminal) error {
	steps, failure := b.store.Distribute(ctx, cmd.DryRun, t.progress("Distributing"))
	if cmd.JSON {
		if err := t.json(append([]store.Step{}, steps...)); err != nil {
			return err
		}
		return failure
	}
	rows := make([][]string, len(steps))
	for i, s := range steps {
		rows[i] = []string{s.Kind, s.Name, s.As, fmt.Sprint(s.Bytes), s.Took.Round(time.Millisecond).String()}
	}
	if len(steps) == 0 && failure == nil {
		t.printf("Everything is distributed already.\n")
		return nil
	}
	if err := t.table([]string{"KIND", "NAME", "AS", "BYTES", "TOOK"}, rows); err != nil {
		return err
	}
	return failure
}
