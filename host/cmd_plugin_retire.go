package main

import (
	"cmp"
	"context"
	"fmt"

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
func (cmd *pluginRetireCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	name := cmd.Plugin
	if isPath(name) {
		m, err := readModule(ctx, name)
		if err != nil {
			return err
		}
		name = m.Manifest.Name
	}
	return withInForce(ctx, cfg, t, func(b *backend, a *authority, base lineup.Verified) error {
		layers := make([]*registry.LineupLayer, 0, 2)
		for _, l := range []*registry.LineupDocument{&base.Document, base.Trial} {
			if l != nil && l.Layer(name) != nil {
				layers = append(layers, l.Layer(name))
			}
		}
		if len(layers) == 0 {
			return fmt.Errorf("%s is not in the lineup in force, revision %d", name, base.Lineup.Revision)
		}
		forced := forced(cmd.Force, cmd.Reason)
		if layers[0].Required && !forced {
			return fmt.Errorf("%s is required: to take it out anyway, use --force --reason TEXT", layers[0].Layer)
		}
		canary, err := b.canaryWithout(ctx, base, name)
		if err != nil {
			return err
		}
		reason := cmp.Or(cmd.Reason, "Retire "+layers[0].Layer)
		done, err := setChange(cfg, lineup.Proposal{Reason: reason, Canary: canary}, forced, cmd.JSON).
			put(ctx, cfg, t, b, a, base, base.Document.Without(name))
		if err != nil {
			return err
		}
		return done.print(t, cmd.JSON)
	})
}

// canaryWithout returns the canary in force without a layer. It returns nil if nothing of the canary is left.
func (b *backend) canaryWithout(ctx context.Context, base lineup.Verified, name string) (*activation.Canary, error) {
	if base.Trial == nil || sameWithout(base.Document, *base.Trial, name) {
		return nil, nil
	}
	l := base.Trial.Without(name)
	plugins, err := publishedManifests(ctx, b.store)
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
	canary.Lineup, err = lineup.StoreLineup(ctx, b.store, l, registry.OriginOperator)
	return &canary, err
}
