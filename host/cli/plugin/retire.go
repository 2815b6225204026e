package plugin

import (
	"cmp"
	"context"
	"fmt"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/registry"
)

type pluginRetireCmd struct {
	Plugin string `arg:"" help:"${plugin_retired}"`
	Force  bool   `help:"${plugin_retire_force}"`
	Reason string `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	terminal.Output
}

// Run takes a plugin out of the lineup in force, and of its canary.
func (cmd *pluginRetireCmd) Run(ctx context.Context, c *installation.Command) error {
	name := cmd.Plugin
	if isPath(name) {
		m, err := readModule(ctx, name)
		if err != nil {
			return err
		}
		name = m.Manifest.Name
	}
	return rollout.Run(ctx, c, func(o *change.Operator, base lineup.Verified) (done change.Activated, err error) {
		layers := make([]*registry.LineupLayer, 0, 2)
		for _, l := range []*registry.LineupDocument{&base.Document, base.Trial} {
			if l != nil && l.Layer(name) != nil {
				layers = append(layers, l.Layer(name))
			}
		}
		if len(layers) == 0 {
			return done, fmt.Errorf("%s is not in the lineup in force, revision %d", name, base.Lineup.Revision)
		}
		forced := rollout.Forced(cmd.Force, cmd.Reason)
		if layers[0].Required && !forced {
			return done, fmt.Errorf("%s is required: to take it out anyway, use --force --reason TEXT", layers[0].Layer)
		}
		canary, err := o.CanaryWithout(ctx, base, name)
		if err != nil {
			return done, err
		}
		return o.Put(ctx, change.Change{Base: base, Lineup: base.Document.Without(name), Canary: canary,
			Limit: float64(c.FlipLimit), Forced: forced, Reason: cmp.Or(cmd.Reason, "Retire "+layers[0].Layer)})
	})
}
