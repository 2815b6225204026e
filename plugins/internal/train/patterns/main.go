// Command train learns what the traits of a name are worth to the patterns layer from labelled domains, and measures it
// on held-out rows.
//
//	go run ./plugins/internal/train/patterns -target rows.jsonl -pool more.jsonl.gz -out plugins/patterns
//
// Rows are {"type": "domain", "value", "label", "source", "category"}. The same rows give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/plugins/internal/train"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, progress io.Writer) error {
	held := true
	options, err := train.Parse(args, progress,
		func(flags *flag.FlagSet) { flags.BoolVar(&held, "measure", true, "measure at all") })
	if err != nil {
		return err
	}
	say := train.Clock(progress)
	rows, err := read(options, say)
	if err != nil {
		return err
	}
	weigh(rows)
	if held {
		measure(out, rows, options.Jobs, options.Absent, say)
	}
	if options.Out == "" {
		return nil
	}
	m := learn(rows)
	say("learned from all rows")
	if err := os.WriteFile(filepath.Join(options.Out, "odds.go"), m.source(), 0o644); err != nil {
		return fmt.Errorf("writing the odds: %w", err)
	}
	return nil
}

func read(options train.Options, say func(string, ...any)) ([]*row, error) {
	var rows []*row
	err := options.Files(func(path string, target bool) error {
		more, skipped, err := readFile(path, target)
		if err != nil {
			return err
		}
		say("read %s: %d domains, %d that the layer does not judge", filepath.Base(path), len(more), skipped)
		rows = append(rows, more...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows = distinct(rows)
	bad := 0
	for _, r := range rows {
		if r.bad {
			bad++
		}
	}
	if bad == 0 || bad == len(rows) {
		return nil, errors.New("rows of both labels are needed")
	}
	say("%d rows to learn from, %d of them bad", len(rows), bad)
	return rows, nil
}
