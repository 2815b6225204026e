package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/host/cli/measurement"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/measure/eval"
)

type evalCmd struct {
	measurement.LabelledValues `embed:""`

	Lineup     string  `placeholder:"FILE" help:"${eval_lineup}"`
	Prevalence float64 `placeholder:"P" help:"${eval_prevalence}"`
	Lookups    bool    `help:"${eval_lookups}"`
	Worst      int     `default:"20" help:"Number of the worst errors of each label to explain."`
	HTML       string  `placeholder:"FILE" help:"Also write a report with plots to this file."`
	terminal.Output
}

// Validate checks the flags. Kong calls it.
func (cmd *evalCmd) Validate() error {
	if !(cmd.Prevalence >= 0 && cmd.Prevalence < 1) {
		return fmt.Errorf("--prevalence must be between 0 and 1, not %v", cmd.Prevalence)
	}
	if cmd.Worst < 0 {
		return errors.New("--worst must not be negative")
	}
	if len(cmd.Files) == 0 {
		return errors.New("expected files")
	}
	return nil
}

func (cmd *evalCmd) Run(ctx context.Context, c *installation.Command) error {
	rows, skipped, err := cmd.Read()
	if err == nil && len(rows) == 0 {
		err = measurement.ErrNoRows
	}
	if err != nil {
		return err
	}
	return measurement.Use(ctx, c, cmd.Lineup, cmd.Lookups, func(m *measurement.Measurement) error {
		began := time.Now()
		scored, err := m.ScoreAll(ctx, c.Terminal, rows)
		if err != nil {
			return err
		}
		took := time.Since(began)
		report := eval.Measure(m.Model, scored, eval.Options{Prevalence: cmd.Prevalence, Worst: cmd.Worst})
		report.Files, report.Skipped, report.Lookups = measurement.BaseNames(cmd.Files), skipped, cmd.Lookups
		report.Seconds = eval.Number(took.Seconds())
		if err := report.Explain(ctx, m); err != nil {
			return err
		}
		if err := measurement.WriteTo(cmd.HTML, "writing the report", report.WriteHTML); err != nil {
			return err
		}
		err = c.Show(report, func() error { return report.WriteText(c.Out) })
		if failures := report.Failures(); err == nil && failures > 0 {
			return fmt.Errorf("a layer failed %d times, so the report does not measure the lineup: see its notes",
				failures)
		}
		return err
	})
}
