package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/registry"
	"assay/registry/activation"
)

type pluginPromoteCmd struct {
	Plugin string            `arg:"" help:"${plugin_promoted}"`
	Live   bool              `help:"Let it count for all accounts now, without a canary."`
	Share  rollout.Percent   `placeholder:"PERCENT" help:"${plugin_promote_share}"`
	Limit  *activation.Limit `placeholder:"PERCENT" help:"${lineup_canary_limit}"`
	Weight *float64          `placeholder:"W" help:"${plugin_promote_weight}"`
	Force  bool              `help:"${lineup_force}"`
	Reason string            `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	terminal.Output
}

// place is the place of a plugin in the lineup and the canary in force.
type place string

const (
	nowhere  place = "none"
	inLineup place = "shadow" // without counting
	inCanary place = "canary"
	isLive   place = "live"
)

// promotion is the JSON output of `assay plugin promote`.
type promotion struct {
	Plugin string `json:"plugin"`
	From   place  `json:"from"`
	To     place  `json:"to"`
	Next   place  `json:"next,omitempty"`  // of the next promotion
	Needs  string `json:"needs,omitempty"` // see neededWeight
	digest registry.Digest
	change.Activated
}

// Run moves a plugin one step towards scoring for all accounts.
func (cmd *pluginPromoteCmd) Run(ctx context.Context, c *installation.Command) error {
	return rollout.Use(ctx, c, func(_ *installation.Session, o *change.Operator, base lineup.Verified) error {
		plugin, manifest, err := meant(ctx, o.Storage, cmd.Plugin, base)
		if err != nil {
			return err
		}
		p := promotion{Plugin: plugin.Ref(), digest: plugin.Digest}
		if p.From, p.To, err = nextPlace(base, plugin.Name, p.Plugin, cmd.Live); err != nil {
			return err
		}
		if p.To != inCanary && (cmd.Share != 0 || cmd.Limit != nil) || p.From == inCanary && cmd.Weight != nil {
			return terminal.Misuse{Err: fmt.Errorf("the step from %s to %s does not use all flags: --share and "+
				"--limit are for the step to a canary, --weight is for all but the step from it", p.From, p.To)}
		}
		reason := cmp.Or(cmd.Reason, fmt.Sprintf("Promote %s to %s", p.Plugin, p.To))
		if p.From == inCanary {
			p.Activated, err = o.Promote(ctx, base.Activation, rollout.Forced(cmd.Force, cmd.Reason), reason)
		} else {
			layer := cmd.layer(base.Document.Layer(plugin.Name), p, manifest)
			next := change.Change{Base: base, Lineup: base.Document.With(layer), Limit: float64(c.FlipLimit),
				Forced: rollout.Forced(cmd.Force, cmd.Reason), Reason: reason}
			if p.To == inCanary {
				next.Share, next.Limit = int(cmp.Or(cmd.Share, 5)), rollout.Limit(c.Config, cmd.Limit)
			}
			p.Activated, err = o.Put(ctx, next)
		}
		if err != nil {
			return err
		}
		p.Next = map[place]place{inLineup: inCanary, inCanary: isLive}[p.To]
		if p.To == inLineup {
			layer := cmd.layer(base.Document.Layer(plugin.Name), p, manifest)
			if p.Needs, err = neededWeight(ctx, o.Storage, base.Document, layer); err != nil {
				return err
			}
		}
		return c.Show(p, func() error { p.print(c.Terminal); return nil })
	})
}

// print says which step was taken, and which one is next.
func (p promotion) print(t *terminal.Terminal) {
	rollout.Print(t, p.Activated)
	name, _, _ := strings.Cut(p.Plugin, "@")
	t.Printf("%s: %s to %s.\n", p.Plugin, p.From, p.To)
	if p.Needs != "" {
		t.Printf("Note: %s.\n", p.Needs)
	}
	switch p.Next {
	case inCanary:
		t.Printf("Next: `assay lineup shadow` shows what it would change, and `assay plugin promote %s` lets it score "+
			"for a share of the accounts (--live: for all).\n", name)
	case isLive:
		t.Printf("Next: `assay lineup hosts` shows what it changes, and `assay plugin promote %s` lets it score for "+
			"all accounts.\n", name)
	}
}

// isPath reports whether an argument names a folder or a file, and not a published plugin.
func isPath(plugin string) bool {
	return plugin == "." || plugin == ".." || strings.ContainsRune(plugin, os.PathSeparator) ||
		strings.HasSuffix(plugin, ".wasm")
}

// meant returns the published plugin that an argument names. A folder or a file must have the code that was published.
func meant(ctx context.Context, source lineup.Source, plugin string, base lineup.Verified) (
	p registry.PublishedPlugin, manifest registry.Manifest, err error) {
	if !isPath(plugin) {
		return published(ctx, source, plugin, base)
	}
	m, err := readModule(ctx, plugin)
	if err != nil {
		return p, manifest, err
	}
	p, manifest, err = published(ctx, source, m.Ref(), base)
	if err == nil && p.Digest != m.Digest {
		err = fmt.Errorf("%s was published with other code, %s, and this is %s: raise the version and push it", p.Ref(),
			p.Digest, m.Digest)
	}
	return p, manifest, err
}

// published returns the published plugin that NAME or NAME@VERSION names. Without a version, it is the one in the
// canary in force, if the canary is about the plugin, or the newest one.
func published(ctx context.Context, source lineup.Source, plugin string, base lineup.Verified) (
	p registry.PublishedPlugin, m registry.Manifest, err error) {
	name, version, versioned := strings.Cut(plugin, "@")
	if base.Trial != nil && !versioned {
		if trial := base.Trial.Layer(name); trial != nil && !sameLayer(base.Document.Layer(name), trial) {
			_, version, versioned = trial.Ref()
		}
	}
	if versioned {
		p, err = source.Plugin(ctx, name, version)
	} else {
		var all []registry.PublishedPlugin
		if all, err = source.Plugins(ctx); err == nil {
			p, err = registry.Newest(all, name)
		}
	}
	if errors.Is(err, registry.ErrNoPlugin) {
		err = fmt.Errorf("%s was not published: `assay plugin push` publishes it", plugin)
	}
	if err != nil {
		return p, m, err
	}
	module, err := source.Module(ctx, p.Digest) // its row in the database could say something else
	return p, module.Manifest, err
}

// nextPlace returns where a version of a plugin is, and where a promotion puts it. A lineup has one version of each
// layer, so a newer version of a live layer begins in the canary.
func nextPlace(base lineup.Verified, name, ref string, live bool) (from, to place, err error) {
	was := base.Document.Layer(name)
	if base.Trial != nil {
		trial := base.Trial.Layer(name)
		switch {
		case trial == nil || trial.Layer != ref || trial.Runs() != registry.ModeLive || sameLayer(was, trial):
			return "", "", fmt.Errorf("a canary without %s is in force, revision %d: end it first, with `assay lineup "+
				"promote` or `assay lineup canary --stop`", ref, base.Canary.Revision)
		case !base.Document.Without(name).Same(base.Trial.Without(name)):
			return "", "", fmt.Errorf("the canary, revision %d, changes more than %s: `assay lineup promote` puts all "+
				"of it in force", base.Canary.Revision, name)
		}
		return inCanary, isLive, nil
	}
	counts := inCanary
	if live {
		counts = isLive
	}
	switch {
	case was != nil && was.Runs() == registry.ModeLive:
		if was.Layer == ref {
			return "", "", fmt.Errorf("%s is live, and there is no further step", ref)
		}
		return isLive, counts, nil
	case was != nil && was.Layer == ref && was.Runs() == registry.ModeShadow:
		return inLineup, counts, nil
	case live:
		return "", "", fmt.Errorf("%s is not in shadow: promote it without --live first", ref)
	case was != nil && was.Runs() == registry.ModeShadow:
		return inLineup, inLineup, nil // another version
	}
	return nowhere, inLineup, nil
}

// sameLayer reports whether two layers, which may be nil, are the same version in the same mode.
func sameLayer(a, b *registry.LineupLayer) bool {
	return a != nil && b != nil && a.Layer == b.Layer && a.Runs() == b.Runs()
}

// layer returns the plugin as a layer of the lineup. It keeps the weight and settings of the layer that it replaces,
// which may be nil.
func (cmd *pluginPromoteCmd) layer(was *registry.LineupLayer, p promotion, m registry.Manifest) registry.LineupLayer {
	layer := registry.LineupLayer{Weight: registry.ForAll(m.DefaultWeight)}
	if was != nil {
		layer = *was
	}
	if layer.Layer != p.Plugin {
		layer.Layer, layer.Digest = p.Plugin, p.digest.String()
	}
	if cmd.Weight != nil {
		layer.Weight = registry.ForAll(*cmd.Weight)
	}
	layer.Mode = ""
	if p.To == inLineup {
		layer.Mode = registry.ModeShadow
	}
	return layer
}
