package cli

import (
	"context"
	"os"

	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/sandbox"
)

type compileCmd struct{}

func (compileCmd) Run(ctx context.Context, t *terminal.Terminal) error {
	return sandbox.ServeCompiler(ctx, os.Stdin, t.Out)
}

type measureCmd struct{}

func (measureCmd) Run(ctx context.Context, t *terminal.Terminal) error {
	return rehearsal.ServeMeasure(ctx, os.Stdin, t.Out)
}
