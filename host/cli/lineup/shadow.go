package lineup

import (
	"context"
	"strings"

	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/host/lineup/replay"
	"assay/registry"
)

type lineupShadowCmd struct{ terminal.Output }

// shadowOutput is the output of `assay lineup shadow` for a lineup.
type shadowOutput struct {
	*replay.ShadowReport
	Canary bool     `json:"canary"`
	Layers []string `json:"layers"` // in shadow
}

// Run shows the verdicts as they would have been if the layers in shadow counted.
func (cmd *lineupShadowCmd) Run(ctx context.Context, c *installation.Command) error {
	return rollout.Use(ctx, c, func(s *installation.Session, _ *change.Operator, inForce lineup.Verified) error {
		stored, err := s.Store.ShadowReports(ctx)
		if err != nil {
			return err
		}
		report := func(revision int64, l registry.LineupDocument) (shadowOutput, error) {
			merged, err := replay.MergeShadows(revision, stored...)
			return shadowOutput{ShadowReport: merged, Layers: inShadow(l)}, err
		}
		first, err := report(inForce.Lineup.Revision, inForce.Document)
		if err != nil {
			return err
		}
		all := []shadowOutput{first}
		if inForce.Trial != nil {
			trial, err := report(inForce.Canary.Revision, *inForce.Trial)
			if err != nil {
				return err
			}
			trial.Canary = true
			all = append(all, trial)
		}
		return c.Show(all, func() error {
			for _, o := range all {
				if err := o.print(c.Terminal); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// inShadow lists the layers of a lineup that are in shadow.
func inShadow(l registry.LineupDocument) []string {
	layers := []string{}
	for _, item := range l.Layers {
		if item.Runs() == registry.ModeShadow {
			layers = append(layers, item.Layer)
		}
	}
	return layers
}

func (o shadowOutput) print(t *terminal.Terminal) error {
	what := ""
	if o.Canary {
		what = ", the canary,"
	}
	if len(o.Layers) == 0 {
		t.Printf("Revision %d%s has no layer in shadow. A layer's \"mode\" in a lineup's file moves it there.\n",
			o.Revision, what)
		return nil
	}
	t.Printf("Revision %d%s has in shadow: %s\n", o.Revision, what, strings.Join(o.Layers, ", "))
	return o.WriteText(t.Out)
}
