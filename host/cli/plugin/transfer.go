package plugin

import (
	"context"
	"time"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/change"
	"assay/registry"
	"assay/registry/release"
)

type pluginTransferCmd struct {
	Name string `arg:"" help:"Name of the plugin, without a version."`
	To   string `required:"" placeholder:"KEY" help:"${plugin_transfer_to}"`
	terminal.Output
}

// Run gives a name to another owner.
func (cmd *pluginTransferCmd) Run(ctx context.Context, s *installation.Session) error {
	a, err := s.Authority(ctx, s.Config)
	if err == nil && a.Operator == nil {
		err = rollout.Explain(change.ErrNoKey)
	}
	n := registry.PluginName{Name: cmd.Name}
	if err == nil {
		n.Owner, err = a.Trust.Owner(cmd.To)
	}
	if err == nil {
		n, err = release.SignTransfer(n, time.Now(), a.Operator)
	}
	if err == nil {
		err = release.CheckTransfer(a.Trust, n)
	}
	if err == nil {
		err = s.Store.TransferPlugin(ctx, n)
	}
	if err != nil {
		return err
	}
	return s.Say(n, "The name %s belongs to %s now.\n", n.Name, cmd.To)
}
