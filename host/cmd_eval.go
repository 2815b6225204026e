package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/eval"
	"assay/registry"
)

// labelledRows is where a command's labelled values come from.
type labelledRows struct {
	Files   []string `arg:"" name:"file" help:"Labelled values as JSON lines {\"type\", \"value\", \"label\"}, also compressed by gzip; - reads standard input."`
	Type    string   `enum:"domain,email,phone,iban,all" default:"all" help:"Take the rows of this type only, and those that name none to be of it: ${enum}."`
	SkipBad bool     `help:"Pass over lines that are no rows."`
}

type evalCmd struct {
	labelledRows `embed:""`

	Lineup     string  `placeholder:"FILE" help:"Measure this document instead of the lineup in force. Layers are named name@version as published, or by name alone for those of the source around the working directory."`
	Prevalence float64 `placeholder:"P" help:"The share of fraud to reckon calibration for (default: that of the file)."`
	Lookups    bool    `help:"Look facts up too, as a check does: what DNS and others say today. Without, values alone are judged, and the same rows always give the same report."`
	Worst      int     `default:"20" help:"How many of the worst errors of each label to explain."`
	HTML       string  `placeholder:"FILE" help:"Write a report with plots there too."`
	JSON       bool    `help:"Print JSON."`
}

// Validate says what is wrong with the flags. Kong calls it.
func (cmd *evalCmd) Validate() error {
	if !(cmd.Prevalence >= 0 && cmd.Prevalence < 1) {
		return fmt.Errorf("--prevalence must be between 0 and 1, not %v", cmd.Prevalence)
	}
	if cmd.Worst < 0 {
		return fmt.Errorf("--worst must not be below 0")
	}
	return nil
}

func (cmd *evalCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	rows, skipped, err := cmd.read()
	if err != nil {
		return err
	}
	return withTrial(ctx, cfg, t, trialOptions{cmd.Lineup, cmd.Lookups}, func(tr *trial) error {
		began, workers := time.Now(), 0
		if cmd.Lookups {
			workers = lookupWorkers
		}
		scored, err := eval.Run(ctx, tr.checker, tr.lineup, rows, workers, scoringProgress(t))
		if err != nil {
			return err
		}
		took := time.Since(began)
		report := eval.Measure(tr.lineup, scored, eval.Options{Prevalence: cmd.Prevalence, Worst: cmd.Worst})
		report.Files, report.Skipped, report.Seconds, report.Lookups = baseNames(cmd.Files), skipped,
			eval.Number(took.Seconds()), cmd.Lookups
		if err := report.Explain(ctx, tr.checker); err != nil {
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
		if lost := report.Lost(); err == nil && lost > 0 {
			return fmt.Errorf("a layer was lost %d times, so this does not measure the lineup: see the notes", lost)
		}
		return err
	})
}

type lineupFitCmd struct {
	labelledRows `embed:""`

	Lineup     string  `placeholder:"FILE" help:"Fit this document's layers instead of those of the lineup in force, as 'assay eval --lineup' takes it."`
	L2         float64 `name:"l2" default:"0.00001" placeholder:"X" help:"Penalty on the squares of weights (default: ${default})."`
	Prevalence float64 `default:"0.03" placeholder:"P" help:"The share of fraud that scores are to mean (default: ${default})."`
	ReviewFPR  float64 `default:"0.02" placeholder:"P" help:"At most this share of each type's benign rows may be reviewed or blocked (default: ${default})."`
	BlockFPR   float64 `default:"0.003" placeholder:"P" help:"At most this share may be blocked (default: ${default})."`
	Out        string  `placeholder:"FILE" help:"Write the fitted lineup there instead of printing it."`
	JSON       bool    `help:"Print JSON."`
}

// Validate says what is wrong with the flags. Kong calls it.
func (cmd *lineupFitCmd) Validate() error {
	for name, share := range map[string]float64{"prevalence": cmd.Prevalence, "review-fpr": cmd.ReviewFPR,
		"block-fpr": cmd.BlockFPR} {
		if !(share > 0 && share < 1) {
			return fmt.Errorf("--%s must be between 0 and 1, not %v", name, share)
		}
	}
	if !(cmd.L2 >= 0) {
		return fmt.Errorf("--l2 must not be below 0")
	}
	return nil
}

// fitReport is what `assay lineup fit --json` prints.
type fitReport struct {
	Lineup  registry.LineupDocument `json:"lineup"`  // as 'lineup set' takes it
	Changes []registry.Change       `json:"changes"` // against the lineup in force
	*eval.Fit
}

func (cmd *lineupFitCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	rows, _, err := cmd.read()
	if err != nil {
		return err
	}
	return withTrial(ctx, cfg, t, trialOptions{lineup: cmd.Lineup}, func(tr *trial) error {
		scored, err := eval.Run(ctx, tr.checker, tr.lineup, rows, 0, scoringProgress(t))
		if err != nil {
			return err
		}
		fit, err := eval.FitLineup(tr.lineup, scored, eval.FitOptions{L2: cmd.L2, Prevalence: cmd.Prevalence,
			ReviewFPR: cmd.ReviewFPR, BlockFPR: cmd.BlockFPR})
		if err != nil {
			return err
		}
		r := fitReport{Lineup: tr.fitted(fit), Fit: fit}
		r.Lineup.Note = fmt.Sprintf("Fitted to %d rows of %s", fit.Rows, strings.Join(baseNames(cmd.Files), ", "))
		r.Changes = registry.Diff(tr.active.Lineup, r.Lineup)
		return cmd.print(t, r)
	})
}

// fitted is the trial's document with the fitted weights and bias.
func (tr *trial) fitted(fit *eval.Fit) registry.LineupDocument {
	l := tr.document
	l.Bias, l.Layers = fit.Bias, slices.Clone(l.Layers)
	for i := range l.Layers {
		l.Layers[i].Weight = fit.Weights[i]
	}
	return l
}

func (cmd *lineupFitCmd) print(t *terminal, r fitReport) error {
	document := func(out io.Writer) error { return (&terminal{out: out}).json(r.Lineup) }
	if cmd.Out != "" {
		if err := writeTo(cmd.Out, document); err != nil {
			return fmt.Errorf("writing the lineup: %w", err)
		}
	}
	if cmd.JSON {
		return t.json(r)
	}
	if err := r.WriteText(t.out); err != nil {
		return err
	}
	rows := make([][]string, len(r.Changes))
	for i, c := range r.Changes {
		rows[i] = []string{c.What, c.From, c.To}
	}
	t.printf("\n")
	if err := t.table([]string{"WHAT", "IN FORCE", "WOULD BE"}, rows); err != nil {
		return err
	}
	if cmd.Out != "" {
		t.printf("\n'assay lineup set %s' puts it in force.\n", cmd.Out)
		return nil
	}
	t.printf("\n")
	return document(t.out)
}

// scoringProgress shows how many rows are scored.
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

func writeTo(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// read reads all files. Lines that are no rows are an error that shows the first few, or are skipped and counted.
func (l labelledRows) read() (rows []eval.Row, skipped int, err error) {
	const shown = 5
	var complaints []string
	for _, file := range l.Files {
		more, bad, err := l.readFile(file)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
		for _, b := range bad {
			if len(complaints) < shown {
				complaints = append(complaints, fmt.Sprintf("%s, %v", file, b))
			}
		}
		skipped += len(bad)
		rows = append(rows, more...)
	}
	if skipped > 0 && !l.SkipBad {
		return nil, 0, fmt.Errorf("%d lines are no rows (--skip-bad passes over them, --type says what those without a type are), the first:\n  %s",
			skipped, strings.Join(complaints, "\n  "))
	}
	if t := l.only(); t != "" {
		rows = slices.DeleteFunc(rows, func(r eval.Row) bool { return r.Type != t })
	}
	if len(rows) == 0 {
		return nil, 0, errors.New("there are no rows to measure with")
	}
	return rows, skipped, nil
}

// only is the type to take, or "" for all.
func (l labelledRows) only() entity.Type {
	if l.Type == "all" {
		return ""
	}
	return entity.Type(l.Type)
}

func (l labelledRows) readFile(name string) (rows []eval.Row, bad []eval.LineError, err error) {
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
