package plugin

import (
	"context"
	"time"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/change"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/release"
)

type pluginTransferCmd struct {
	Name string `arg:"" help:"Name of the plugin, without a version."`
	To   string `required:"" placeholder:"KEY" help:"${plugin_transfer_to}"`
	terminal.Output
}

// Run gives a name to another owner.
func (cmd *pluginTransferCmd) Run(ctx context.Context, s *installation.Session) error {
	trust, err := s.ReadTrust()
	if err != nil {
		return err
	}
	to := activation.Listed{Name: cmd.To, Public: registry.Release}
	if cmd.To != registry.Release {
		if to, err = trust.Key(cmd.To); err != nil {
			return err
		}
	}
	key, err := installation.ReadKey(s.OperatorKeyPath())
	if err == nil && key == nil {
		err = rollout.Explain(change.ErrNoKey)
	}
	if err != nil {
		return err
	}
	n, err := release.SignTransfer(registry.PluginName{Name: cmd.Name, Owner: to.Public}, time.Now(), key)
	if err == nil {
		err = release.CheckTransfer(trust, n)
	}
	if err == nil {
		err = s.Store.TransferPlugin(ctx, n)
	}
	if err != nil {
		return err
	}
	return s.Say(map[string]string{"name": n.Name, "owner": n.Owner}, "The name %s belongs to %s now.\n", n.Name, to.Name)
}
