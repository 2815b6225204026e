package cli

import (
	"context"
	"time"

	"github.com/alecthomas/kong"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/server"
)

type serveCmd struct {
	LedgerBatch  int           `default:"256" help:"Maximum number of checks recorded in one database transaction."`
	DatabaseWait time.Duration `default:"60s" help:"How long to wait at the start for a database that is down."`
}

// AfterApply prints warnings about settings. Kong calls it.
func (*serveCmd) AfterApply(ctx *kong.Context, t *terminal.Terminal, s *settings) error {
	return s.warn(ctx, t)
}

// Run serves until ctx ends.
func (cmd *serveCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	cfg.Wait = cmd.DatabaseWait
	return server.Run(ctx, cfg, t, server.Options{LedgerBatch: cmd.LedgerBatch})
}
