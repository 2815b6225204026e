// Command train learns what the traits of a name are worth to the patterns layer from labelled domains, and measures it on
// held-out rows.
//
//	go run ./plugins/patterns/train -target rows.jsonl -pool more.jsonl.gz -out plugins/patterns
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
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "train: "+err.Error())
		}
		os.Exit(1)
	}
}

// paths is a flag that may be given more than once.
type paths []string

func (p *paths) String() string     { return strings.Join(*p, " ") }
func (p *paths) Set(s string) error { *p = append(*p, s); return nil }

func run(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(progress)
	var target, pool paths
	flags.Var(&target, "target", "`file` of labelled rows whose mix of sources is the one to be good at; may be repeated")
	flags.Var(&pool, "pool", "`file` of more labelled rows, weighed to have that mix; may be repeated")
	folder := flags.String("out", "", "`folder` for the odds; nothing is written without it")
	absent := flags.Bool("absent", true, "also measure with whole sources left out of training")
	held := flags.Bool("measure", true, "measure at all")
	jobs := flags.Int("jobs", 2, "how many trainings run at a time while measuring")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if len(target) == 0 || flags.NArg() > 0 || *jobs < 1 {
		flags.Usage()
		return errors.New("want at least one -target file, no other arguments, and -jobs of 1 or more")
	}
	say := clock(progress)
	rows, err := read(target, pool, say)
	if err != nil {
		return err
	}
	weigh(rows)
	if *held {
		measure(out, rows, *jobs, *absent, say)
	}
	if *folder == "" {
		return nil
	}
	m := learn(rows)
	say("learned from all rows")
	if err := os.WriteFile(filepath.Join(*folder, "odds.go"), m.source(), 0o644); err != nil {
		return fmt.Errorf("writing the odds: %w", err)
	}
	return nil
}

// clock returns a function that prints a line of progress with the seconds since now.
func clock(w io.Writer) func(format string, args ...any) {
	start := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%5.0fs  "+format+"\n", append([]any{time.Since(start).Seconds()}, args...)...)
	}
}

func read(target, pool paths, say func(string, ...any)) ([]*row, error) {
	var rows []*row
	for i, path := range append(target[:len(target):len(target)], pool...) {
		more, skipped, err := readFile(path, i < len(target))
		if err != nil {
			return nil, err
		}
		say("read %s: %d domains, %d that the layer does not judge", filepath.Base(path), len(more), skipped)
		rows = append(rows, more...)
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
