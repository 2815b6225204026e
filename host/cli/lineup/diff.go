package lineup

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/store"
	"assay/registry"
)

type lineupDiffCmd struct {
	Target string `arg:"" help:"File, or number of a revision."`
	JSON   bool   `help:"Print JSON."`
}

func (cmd *lineupDiffCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return WithInForce(ctx, cfg, t, func(b *installation.Backend, a *installation.Authority, inForce lineup.Verified) error {
		next, err := lineupAt(ctx, b.Store, cmd.Target)
		if err == nil {
			next, err = lineup.Pin(ctx, b.Store, next, inForce.Document)
		}
		if err != nil {
			return err
		}
		plugins, err := PublishedManifests(ctx, b.Store)
		if err != nil {
			return err
		}
		changes := registry.Diff(inForce.Document, next, plugins)
		manifests := make([]registry.Manifest, len(next.Layers))
		var clearing []string
		for i, item := range next.Layers { // the permission to clear is shown even if it does not change
			manifests[i] = plugins[item.Layer]
			if lowest, _ := item.Range(manifests[i]); lowest < 0 {
				clearing = append(clearing, fmt.Sprintf("%s (down to %d)", item.Layer, lowest))
			}
		}
		refused := ""
		if err := next.CheckFitness(manifests); err != nil {
			refused = err.Error()
		}
		prepared, err := measureOnHosts(ctx, rollout(b, t, true), a, next)
		if err != nil {
			return err
		}
		defer prepared.Close()
		report, err := report(ctx, b, cfg, t, prepared, inForce.Document, next)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.JSON(prediction{changes, refused, report})
		}
		if len(changes) == 0 {
			t.Printf("No difference from revision %d, the active one.\n", inForce.Lineup.Revision)
		} else if err := printChanges(t, changes, fmt.Sprintf("REVISION %d", inForce.Lineup.Revision),
			"NEW"); err != nil {
			return err
		}
		if len(clearing) > 0 {
			t.Printf("\nMay clear: %s.\n", strings.Join(clearing, ", "))
		}
		if refused != "" {
			t.Printf("\n`assay lineup set` refuses this lineup: %s\n", refused)
		}
		t.Printf("\n")
		return report.WriteText(t.Out)
	})
}

// PublishedManifests returns the manifests of all published plugins by name@version.
func PublishedManifests(ctx context.Context, s *store.Store) (map[string]registry.Manifest, error) {
	published, err := s.Plugins(ctx)
	if err != nil {
		return nil, err
	}
	manifests := map[string]registry.Manifest{}
	for _, p := range published {
		if manifests[p.Ref()], err = registry.ParseManifest(p.Manifest); err != nil {
			return nil, fmt.Errorf("reading the manifest of %s: %w", p.Ref(), err)
		}
	}
	return manifests, nil
}

func printChanges(t *terminal.Terminal, changes []registry.Change, from, to string) error {
	rows := make([][]string, len(changes))
	for i, c := range changes {
		rows[i] = []string{c.What, c.From, c.To}
	}
	return t.Table([]string{"WHAT", from, to}, rows)
}

// lineupAt reads a lineup: a revision if target is a number, else a file.
func lineupAt(ctx context.Context, s *store.Store, target string) (registry.LineupDocument, error) {
	if n, err := strconv.ParseInt(target, 10, 64); err == nil {
		r, err := s.LineupRevision(ctx, n)
		return r.Lineup, err
	}
	return readLineup(target)
}
