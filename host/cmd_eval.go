package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/eval"
)

// labelledValues are the arguments that name a command's labelled values.
type labelledValues struct {
	Files   []string `arg:"" optional:"" name:"file" help:"${labelled_files}"`
	Type    string   `enum:"domain,email,phone,iban,all" default:"all" help:"${labelled_type} ${enum}."`
	SkipBad bool     `help:"${labelled_skip_bad}"`
	HeldOut []string `placeholder:"FILE" help:"${labelled_held_out}"`
}

type evalCmd struct {
	labelledValues `embed:""`

	Lineup     string  `placeholder:"FILE" help:"${eval_lineup}"`
	Prevalence float64 `placeholder:"P" help:"${eval_prevalence}"`
	Lookups    bool    `help:"${eval_lookups}"`
	Worst      int     `default:"20" help:"Number of the worst errors of each label to explain."`
	HTML       string  `placeholder:"FILE" help:"Also write a report with plots to this file."`
	JSON       bool    `help:"Print JSON."`
}

// Validate checks the flags. Kong calls it.
func (cmd *evalCmd) Validate() error {
	if !(cmd.Prevalence >= 0 && cmd.Prevalence < 1) {
		return fmt.Errorf("--prevalence must be between 0 and 1, not %v", cmd.Prevalence)
	}
	if cmd.Worst < 0 {
		return errors.New("--worst must not be negative")
	}
	return nil
}

func (cmd *evalCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	rows, skipped, err := cmd.read()
	if err == nil && len(rows) == 0 {
		err = errNoRows
	}
	if err != nil {
		return err
	}
	return withMeasurement(ctx, cfg, t, cmd.Lineup, cmd.Lookups, func(m *measurement) error {
		began, workers := time.Now(), 0
		if cmd.Lookups {
			workers = lookupWorkers
		}
		scored, err := eval.Run(ctx, m, m.model, rows, workers, scoringProgress(t))
		if err != nil {
			return err
		}
		took := time.Since(began)
		report := eval.Measure(m.model, scored, eval.Options{Prevalence: cmd.Prevalence, Worst: cmd.Worst})
		report.Files, report.Skipped, report.Lookups = baseNames(cmd.Files), skipped, cmd.Lookups
		report.Seconds = eval.Number(took.Seconds())
		if err := report.Explain(ctx, m); err != nil {
			return err
		}
		if cmd.HTML != "" {
			if err := writeTo(cmd.HTML, report.WriteHTML); err != nil {
				return fmt.Errorf("writing the report: %w", err)
			}
		}
		if cmd.JSON {
			err = t.json(report)
		} else {
			err = report.WriteText(t.out)
		}
		if failures := report.Failures(); err == nil && failures > 0 {
			return fmt.Errorf("a layer failed %d times, so the report does not measure the lineup: see its notes",
				failures)
		}
		return err
	})
}

var errNoRows = errors.New("the files contain no labelled values")

// scoringProgress shows how many rows have been scored.
func scoringProgress(t *terminal) func(done, total int) {
	progress := t.progress("scoring")
	return func(done, total int) { progress(done, total, "rows") }
}

func baseNames(files []string) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(f)
	}
	return names
}

// writeTo creates a file and has write fill it.
func writeTo(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// read reads all files. Lines that cannot be read are counted and skipped with --skip-bad. Without it they are an
// error, which shows the first few.
func (l labelledValues) read() (rows []eval.Row, skipped int, err error) {
	const shown = 5
	var reasons []string
	for _, file := range l.Files {
		more, bad, err := l.readFile(file)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
		for _, b := range bad {
			if len(reasons) < shown {
				reasons = append(reasons, fmt.Sprintf("%s, %v", file, b))
			}
		}
		skipped += len(bad)
		rows = append(rows, more...)
	}
	if skipped > 0 && !l.SkipBad {
		return nil, 0, fmt.Errorf("%d lines cannot be read. --skip-bad skips them, --type sets the type of values "+
			"without one. The first:\n  %s", skipped, strings.Join(reasons, "\n  "))
	}
	if t := l.only(); t != "" {
		rows = slices.DeleteFunc(rows, func(r eval.Row) bool { return r.Type != t })
	}
	return rows, skipped, l.holdOut(rows)
}

// holdOut gives rows the held-out scores that the --held-out files have for their values.
func (l labelledValues) holdOut(rows []eval.Row) error {
	type value struct {
		kind entity.Type
		text string
	}
	scores := map[value]map[string]int{}
	for _, file := range l.HeldOut {
		from, bad, err := l.readFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if len(bad) > 0 {
			return fmt.Errorf("%s, %w", file, bad[0])
		}
		for _, r := range from {
			v := value{r.Type, r.Value}
			if scores[v] == nil {
				scores[v] = map[string]int{}
			}
			maps.Copy(scores[v], r.HeldOut)
		}
	}
	for i := range rows {
		r := &rows[i]
		if more := scores[value{r.Type, r.Value}]; len(more) > 0 {
			r.HeldOut = maps.Clone(r.HeldOut)
			if r.HeldOut == nil {
				r.HeldOut = map[string]int{}
			}
			maps.Copy(r.HeldOut, more)
		}
	}
	return nil
}

// only returns the type to use, or "" for all.
func (l labelledValues) only() entity.Type {
	if l.Type == "all" {
		return ""
	}
	return entity.Type(l.Type)
}

func (l labelledValues) readFile(name string) (rows []eval.Row, bad []eval.LineError, err error) {
	if name == "-" {
		return eval.Read(os.Stdin, l.only())
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return eval.Read(f, l.only())
}
