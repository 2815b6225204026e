package lineup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"assay/host/cli/measurement"
	"assay/host/cli/rollout"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/measure/eval"
	"assay/registry"
)

type lineupFitCmd struct {
	measurement.LabelledValues `embed:""`

	Lineup     string   `placeholder:"FILE" help:"${fit_lineup}"`
	L2         float64  `name:"l2" default:"0.05" placeholder:"X" help:"${fit_l2} (default: ${default})."`
	Prevalence float64  `default:"0.3" placeholder:"P" help:"${fit_prevalence} (default: ${default})."`
	ReviewFPR  float64  `default:"0.01" placeholder:"P" help:"${fit_review_fpr} (default: ${default})."`
	BlockFPR   float64  `default:"0.002" placeholder:"P" help:"${fit_block_fpr} (default: ${default})."`
	SuffixFPR  float64  `default:"0.05" placeholder:"P" help:"${fit_suffix_fpr} (default: ${default})."`
	Only       []string `placeholder:"LAYER" help:"${fit_only}"`
	Feedback   bool     `help:"${fit_feedback}"`
	Out        string   `short:"o" placeholder:"FILE" help:"Write the fitted lineup to this file."`
	terminal.Output
}

// UsualFit returns the options of a fit without flags.
func UsualFit() eval.FitOptions {
	return eval.FitOptions{L2: .05, Prevalence: .3, ReviewFPR: .01, BlockFPR: .002, SuffixFPR: .05}
}

// Validate checks the flags. Kong calls it.
func (cmd *lineupFitCmd) Validate() error {
	for name, share := range map[string]float64{"prevalence": cmd.Prevalence, "review-fpr": cmd.ReviewFPR,
		"block-fpr": cmd.BlockFPR, "suffix-fpr": cmd.SuffixFPR} {
		if !(share > 0 && share < 1) {
			return fmt.Errorf("--%s must be between 0 and 1, not %v", name, share)
		}
	}
	if !(cmd.L2 >= 0 && cmd.L2 <= 1e6) {
		return errors.New("--l2 must be from 0 to 1000000")
	}
	if len(cmd.Files) == 0 && !cmd.Feedback {
		return errors.New("expected files")
	}
	return nil
}

// fitReport is the JSON output of `assay lineup fit`.
type fitReport struct {
	Lineup  registry.LineupDocument `json:"-"`       // written to a separate file
	Changes []registry.Change       `json:"changes"` // relative to the lineup with the old weights
	*eval.Fit
}

func (cmd *lineupFitCmd) Run(ctx context.Context, c *installation.Command) error {
	rows, _, err := cmd.Read()
	if err == nil && len(rows) == 0 && !cmd.Feedback {
		err = measurement.ErrNoRows
	}
	if err == nil && cmd.Feedback { // feedback is in the database
		_, err = c.LoadInstallation()
	}
	if err != nil {
		return err
	}
	return measurement.Use(ctx, c, cmd.Lineup, false, func(m *measurement.Measurement) error {
		scored, err := m.ScoreAll(ctx, c.Terminal, rows)
		if err != nil {
			return err
		}
		if cmd.Feedback {
			labels, err := m.Feedback(ctx)
			if err != nil {
				return err
			}
			scored = append(scored, m.Model.Scored(labels)...)
		}
		fit, err := eval.FitLineup(m.Model, scored, eval.FitOptions{L2: cmd.L2, Prevalence: cmd.Prevalence,
			ReviewFPR: cmd.ReviewFPR, BlockFPR: cmd.BlockFPR, SuffixFPR: cmd.SuffixFPR, Only: cmd.Only})
		if err != nil {
			return err
		}
		r := fitReport{Lineup: m.Fitted(fit), Fit: fit}
		r.Lineup.Note = fmt.Sprintf("Fitted to %d rows of %s", fit.Rows,
			strings.Join(measurement.BaseNames(cmd.Files), ", "))
		r.Changes = registry.Diff(m.Document, r.Lineup, nil)
		return cmd.show(c.Terminal, r)
	})
}

func (cmd *lineupFitCmd) show(t *terminal.Terminal, r fitReport) error {
	document := func(out io.Writer) error { return (&terminal.Terminal{Out: out}).JSON(r.Lineup) }
	if err := measurement.WriteTo(cmd.Out, "writing the lineup", document); err != nil {
		return err
	}
	return t.Show(r, func() error { return cmd.explain(t, r) })
}

// explain prints the fit, what it changes, and how to put it in force.
func (cmd *lineupFitCmd) explain(t *terminal.Terminal, r fitReport) error {
	if err := r.WriteText(t.Out); err != nil {
		return err
	}
	t.Printf("\n")
	if err := rollout.PrintChanges(t, r.Changes, "BEFORE", "FITTED"); err != nil {
		return err
	}
	if _, _, versioned := r.Lineup.Layers[0].Ref(); versioned && cmd.Out != "" {
		t.Printf("\nActivate it with: assay lineup set %s\n", cmd.Out)
	}
	return nil
}
