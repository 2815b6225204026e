package plugin

import (
	"cmp"
	"context"
	"fmt"

	lineupcmd "assay/host/cli/lineup"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/registry"
	"assay/registry/activation"
)

type pluginRetireCmd struct {
	Plugin string `arg:"" help:"${plugin_retired}"`
	Force  bool   `help:"${plugin_retire_force}"`
	Reason string `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	JSON   bool   `help:"Print JSON."`
}

// Run takes a plugin out of the lineup in force, and of its canary.
func (cmd *pluginRetireCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	name := cmd.Plugin
	if isPath(name) {
		m, err := readModule(ctx, name)
		if err != nil {
			return err
		}
		name = m.Manifest.Name
	}
	return lineupcmd.WithInForce(ctx, cfg, t, func(b *installation.Backend, a *installation.Authority, base lineup.Verified) error {
		layers := make([]*registry.LineupLayer, 0, 2)
		for _, l := range []*registry.LineupDocument{&base.Document, base.Trial} {
			if l != nil && l.Layer(name) != nil {
				layers = append(layers, l.Layer(name))
			}
		}
		if len(layers) == 0 {
			return fmt.Errorf("%s is not in the lineup in force, revision %d", name, base.Lineup.Revision)
		}
		forced := lineupcmd.Forced(cmd.Force, cmd.Reason)
		if layers[0].Required && !forced {
			return fmt.Errorf("%s is required: to take it out anyway, use --force --reason TEXT", layers[0].Layer)
		}
		canary, err := canaryWithout(ctx, b, base, name)
		if err != nil {
			return err
		}
		reason := cmp.Or(cmd.Reason, "Retire "+layers[0].Layer)
		done, err := lineupcmd.SetChange(cfg, lineup.Proposal{Reason: reason, Canary: canary}, forced, cmd.JSON).
			Put(ctx, cfg, t, b, a, base, base.Document.Without(name))
		if err != nil {
			return err
		}
		return done.Print(t, cmd.JSON)
	})
}

// canaryWithout returns the canary in force without a layer. It returns nil if nothing of the canary is left.
func canaryWithout(ctx context.Context, b *installation.Backend, base lineup.Verified, name string) (*activation.Canary, error) {
	if base.Trial == nil || sameWithout(base.Document, *base.Trial, name) {
		return nil, nil
	}
	l := base.Trial.Without(name)
	plugins, err := lineupcmd.PublishedManifests(ctx, b.Store)
	if err != nil {
		return nil, err
	}
	manifests := make([]registry.Manifest, len(l.Layers))
	for i, item := range l.Layers {
		manifests[i] = plugins[item.Layer]
	}
	if err := l.CheckFitness(manifests); err != nil {
		return nil, fmt.Errorf("the canary, revision %d, without %s: %w", base.Canary.Revision, name, err)
	}
	canary := *base.Canary
	canary.Lineup, err = lineup.StoreLineup(ctx, b.Store, l, registry.OriginOperator)
	return &canary, err
}
