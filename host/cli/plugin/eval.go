package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	lineupcmd "assay/host/cli/lineup"
	"assay/host/cli/measurement"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/measure/eval"
	"assay/host/sandbox"
	"assay/registry"
)

type pluginEvalCmd struct {
	Plugin string `arg:"" help:"${plugin_path}"`

	measurement.LabelledValues `embed:""`

	Lineup  string `placeholder:"FILE" help:"${plugin_eval_lineup}"`
	Lookups bool   `help:"${eval_lookups}"`
	Worst   int    `default:"10" help:"Number of the worst errors of each label to show."`
	HTML    string `placeholder:"FILE" help:"Also write a report with plots to this file."`
	terminal.Output
}

// Validate checks the flags. Kong calls it.
func (cmd *pluginEvalCmd) Validate() error {
	if cmd.Worst < 0 {
		return errors.New("--worst must not be negative")
	}
	return nil
}

func (cmd *pluginEvalCmd) Run(ctx context.Context, c *installation.Command) error {
	all, skipped, err := cmd.Read()
	if err != nil {
		return err
	}
	return withPlugin(ctx, c.Terminal, cmd.Plugin, func(p *sandbox.Plugin, _ registry.Module) error {
		rows := slices.DeleteFunc(slices.Clone(all), func(r eval.Row) bool {
			return !slices.Contains(p.Manifest().Entities, string(r.Type))
		})
		if len(rows) == 0 {
			return fmt.Errorf("%w of a type that the layer scores", measurement.ErrNoRows)
		}
		return measurement.Use(ctx, c, cmd.Lineup, cmd.Lookups, func(m *measurement.Measurement) error {
			report, err := cmd.measure(ctx, c.Terminal, m, p, rows)
			if err != nil {
				return err
			}
			report.Files, report.Skipped, report.Others = measurement.BaseNames(cmd.Files), skipped, len(all)-len(rows)
			return cmd.print(c.Terminal, report)
		})
	})
}

// measure scores the rows by the lineup with the plugin, and measures what the plugin adds.
func (cmd *pluginEvalCmd) measure(ctx context.Context, t *terminal.Terminal, m *measurement.Measurement,
	p *sandbox.Plugin, rows []eval.Row) (*eval.PluginReport, error) {
	began := time.Now()
	next, replaced, limits := m.With(p)
	scored, err := next.ScoreAll(ctx, t, rows)
	if err != nil {
		return nil, err
	}
	report, err := eval.MeasurePlugin(next.Model, limits, scored, lineupcmd.UsualFit(), cmd.Worst,
		t.Progress("fitting"))
	if err != nil {
		return nil, err
	}
	report.Replaced, report.Lookups = replaced, cmd.Lookups
	if needed := next.NeededWeight(); needed != "" {
		report.Warnings = append(report.Warnings, needed)
	}
	report.Seconds = eval.Number(time.Since(began).Seconds())
	return report, report.Explain(ctx, func(ctx context.Context, r eval.Row) (eval.Called, error) {
		return call(ctx, next, p, r)
	})
}

// call calls the plugin with a row, with the settings of the lineup's last layer.
func call(ctx context.Context, m *measurement.Measurement, p *sandbox.Plugin, r eval.Row) (eval.Called, error) {
	facts := map[string]string{}
	if r.Facts == nil && m.Checker.Collector != nil {
		e, err := entity.Parse(r.Type, r.Value, r.Country)
		if err != nil {
			return eval.Called{}, err
		}
		wanted := slices.Sorted(slices.Values(p.Manifest().Facts))
		if r.Facts, _, err = m.Checker.Collector.Collect(ctx, "", e, wanted); err != nil {
			return eval.Called{}, err
		}
	}
	maps.Copy(facts, r.Facts)
	for name, value := range m.Document.Layers[len(m.Document.Layers)-1].Config {
		facts["config."+name] = value
	}
	call, err := rehearsal.Run(ctx, p,
		rehearsal.Subject{Type: r.Type, Value: r.Value, Country: r.Country, Facts: facts})
	if err != nil {
		return eval.Called{}, err
	}
	called := eval.Called{Failure: call.Failure, Signals: call.Signals, Facts: map[string]string{}, Absent: []string{},
		Log: []string{}}
	for _, f := range call.Facts {
		if f.Known {
			called.Facts[f.Name] = f.Value
		} else {
			called.Absent = append(called.Absent, f.Name)
		}
	}
	for _, l := range call.Log {
		called.Log = append(called.Log, levelName(l.Level)+": "+l.Text)
	}
	return called, nil
}

func (cmd *pluginEvalCmd) print(t *terminal.Terminal, report *eval.PluginReport) error {
	if err := measurement.WriteTo(cmd.HTML, "writing the report", report.WriteHTML); err != nil {
		return err
	}
	err := t.Show(report, func() error { return report.WriteText(t.Out) })
	if failures := report.Failures(); err == nil && failures > 0 {
		return fmt.Errorf("the layer failed with %d rows: `assay plugin run` shows why", failures)
	}
	return err
}
