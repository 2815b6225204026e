package lineup

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"assay/host/check"
	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/host/lineup/replay"
	"assay/host/store"
	"assay/registry"
)

// prediction is the JSON output of `assay lineup diff`.
type prediction struct {
	Changes []registry.Change `json:"changes"`
	Refused string            `json:"refused,omitempty"` // why `lineup set` refuses the lineup
	Report  *replay.Report    `json:"report"`
}

type lineupDiffCmd struct {
	Target string `arg:"" help:"File, or number of a revision."`
	terminal.Output
}

func (cmd *lineupDiffCmd) Run(ctx context.Context, c *installation.Command) error {
	return rollout.Use(ctx, c, func(s *installation.Session, o *change.Operator, inForce lineup.Verified) error {
		o.Observe = rollout.Observer(c.Terminal, true)
		next, err := lineupAt(ctx, s.Store, cmd.Target)
		if err == nil {
			next, err = lineup.Pin(ctx, s.Store, next, inForce.Document)
		}
		if err != nil {
			return err
		}
		plugins, err := lineup.Manifests(ctx, s.Store)
		if err != nil {
			return err
		}
		changes, manifests := registry.Diff(inForce.Document, next, plugins), next.ManifestsOf(plugins)
		var clearing []string
		for i, item := range next.Layers { // the permission to clear is shown even if it does not change
			if lowest, _ := item.Range(manifests[i]); lowest < 0 {
				clearing = append(clearing, fmt.Sprintf("%s (down to %d)", item.Layer, lowest))
			}
		}
		report, err := o.Measure(ctx, inForce.Document, next)
		if err != nil {
			return err
		}
		refused, reason := "", next.CheckFitness(manifests)
		if reason == nil {
			reason = rollout.Explain(change.Change{Limit: float64(c.FlipLimit)}.Judge(report))
		}
		if reason != nil {
			refused = reason.Error()
		}
		return c.Show(prediction{changes, refused, report}, func() error {
			if refused != "" {
				c.Printf("`assay lineup set` refuses this lineup: %s\n\n", refused)
			}
			if len(changes) == 0 {
				c.Printf("No difference from revision %d, the active one.\n", inForce.Lineup.Revision)
			} else if err := rollout.PrintChanges(c.Terminal, changes,
				fmt.Sprintf("REVISION %d", inForce.Lineup.Revision), "NEW"); err != nil {
				return err
			}
			if len(clearing) > 0 {
				c.Printf("\nMay clear: %s.\n", strings.Join(clearing, ", "))
			}
			c.Printf("\n%s\n", check.WeightMeans)
			c.Printf("\n")
			return report.WriteText(c.Out)
		})
	})
}

// lineupAt reads a lineup: a revision if target is a number, else a file.
func lineupAt(ctx context.Context, s *store.Store, target string) (registry.LineupDocument, error) {
	if n, err := strconv.ParseInt(target, 10, 64); err == nil {
		r, err := s.LineupRevision(ctx, n)
		return r.Lineup, err
	}
	return readLineup(target)
}
