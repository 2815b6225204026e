// Command train learns the weights of the lexical layer from labelled domains, and measures them on held-out rows.
//
//	go run ./plugins/lexical/train -target rows.jsonl -pool more.jsonl.gz -out plugins/lexical
//
// The same rows give the same bytes, on every machine. MODEL.md beside the layer says what was measured.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/plugins/lexical/ngram"
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
	folder := flags.String("out", "", "`folder` for the weights; nothing is written without it")
	absent := flags.Bool("absent", true, "also measure with whole sources left out of training")
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
	scale, offset := measure(out, rows, *jobs, *absent, say)

	all := make([]int32, len(rows))
	for i := range all {
		all[i] = int32(i)
	}
	weights := learn(rows, all, sides{1, 1}, func(epoch int) { say("learned from all rows: round %d of %d", epoch, epochs) })
	levels, at := quantise(weights, usage(rows, all))
	head := ngram.Head{Slots: slots, Levels: levels, Scale: float32(scale), Offset: float32(offset)}
	if *folder == "" {
		return nil
	}
	return write(*folder, head, pack(at))
}

// clock returns a function that prints a line of progress with the seconds since now.
func clock(w io.Writer) func(format string, args ...any) {
	start := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%5.0fs  "+format+"\n", append([]any{time.Since(start).Seconds()}, args...)...)
	}
}

func read(target, pool paths, say func(string, ...any)) ([]row, error) {
	var rows []row
	for i, path := range append(target[:len(target):len(target)], pool...) {
		more, skipped, err := readFile(path, i < len(target))
		if err != nil {
			return nil, err
		}
		say("read %s: %d domains, %d that no check would take", filepath.Base(path), len(more), skipped)
		rows = append(rows, more...)
	}
	rows = settle(exonerate(lend(distinct(rows))))
	bad := 0
	for i := range rows {
		if rows[i].bad {
			bad++
		}
	}
	if bad == 0 || bad == len(rows) {
		return nil, errors.New("rows of both labels are needed")
	}
	say("%d rows to learn from, %d of them bad", len(rows), bad)
	return rows, nil
}

// The layer's scale: neutral is a name as often reported as not among the target rows, and a unit of log-odds is worth
// perUnit points.
const (
	neutral = 50
	perUnit = 11
)

// measure prints how well held-out rows are told apart, and returns the scale and offset that make a sum of weights points.
func measure(out io.Writer, rows []row, jobs int, absent bool, say func(string, ...any)) (scale, offset float64) {
	fmt.Fprintf(out, "%-22s %8s %8s  %s\n", "", "rows", "AUC", "recall at 1% false alarms")
	var held map[*row]float64
	for _, t := range trials(rows) {
		if !t.pooled && !absent {
			continue
		}
		done := 0
		sums := t.run(rows, jobs, func() { done++; say("%s: %d of %d", t.name, done, len(t.splits)) })
		var together []scored
		var mean quality
		for i, s := range t.splits {
			var each []scored
			for j, r := range s.test {
				each = append(each, scored{float64(sums[i][j]), &rows[r]})
			}
			q := judge(each)
			mean.auc += q.auc / float64(len(t.splits))
			mean.recall += q.recall / float64(len(t.splits))
			if !t.pooled {
				fmt.Fprintf(out, "  %-20s %8d %8.4f  %.3f\n", fmt.Sprintf("part %d", i+1), len(each), q.auc, q.recall)
			}
			for j := range each {
				if !t.pooled {
					each[j].score -= q.above // each part's own mark becomes 0
				}
			}
			together = append(together, each...)
		}
		if t.pooled {
			held = byRow(rows, t, sums)
			scale, offset = calibrate(together)
			scale, offset = coarse(perUnit*scale), coarse(neutral+perUnit*offset)
			mean = detail(out, together, scale, offset)
		}
		fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f\n", t.name, len(together), mean.auc, mean.recall)
		if !t.pooled {
			table(out, "share above each part's mark, by source", together, 0, bySource)
			fmt.Fprintln(out)
		}
	}
	if absent {
		t, done := newcomers(rows), 0
		sums := t.run(rows, jobs, func() { done++; say("%s: %d of %d", t.name, done, len(t.splits)) })
		detailNewcomers(out, rows, held, byRow(rows, t, sums))
	}
	return scale, offset
}

// byRow maps the rows that a trial tested to their sums of weights.
func byRow(rows []row, t trial, sums [][]float32) map[*row]float64 {
	m := map[*row]float64{}
	for i, s := range t.splits {
		for j, r := range s.test {
			m[&rows[r]] = float64(sums[i][j])
		}
	}
	return m
}

// coarse drops what math.Exp may do differently on another machine.
func coarse(x float64) float64 { return math.Round(x*1024) / 1024 }

func bySource(r *row) string { return side(r.bad) + " " + r.source + " " + r.category }

// detail prints what rows held out score by source, category and host, in the layer's own whole points.
func detail(out io.Writer, all []scored, scale, offset float64) quality {
	exact := judge(all)
	for i := range all {
		all[i].score = float64(int(min(max(all[i].score*scale+offset, 0), 100) + 0.5))
	}
	q := judge(all)
	fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f\n", "  before rounding", len(all), exact.auc, exact.recall)
	for _, part := range []struct {
		name string
		has  func(*row) bool
	}{
		{"  .com alone", func(r *row) bool { return r.address.Suffix == "com" }},
		{"  shared hosts alone", func(r *row) bool { return r.address.Hosted }},
	} {
		some := slices.DeleteFunc(slices.Clone(all), func(s scored) bool { return !part.has(s.row) })
		q := judge(some)
		fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f\n", part.name, len(some), q.auc, q.recall)
	}
	table(out, fmt.Sprintf("share above %.0f points, by source", q.above), all, q.above, bySource)
	table(out, "by host", all, q.above, func(r *row) string { return side(r.bad) + " " + host(r.address.Hosted) })
	for _, bad := range []bool{false, true} {
		var tens [11]int
		n := 0
		for _, s := range all {
			if s.row.bad == bad {
				tens[int(s.score)/10]++
				n++
			}
		}
		fmt.Fprintf(out, "%s by tens of points:", side(bad))
		for _, t := range tens {
			fmt.Fprintf(out, " %.3f", float64(t)/float64(n))
		}
		fmt.Fprintln(out)
	}
	return q
}

// write replaces the files of the weights in folder.
func write(folder string, head ngram.Head, pieces [][]byte) error {
	if err := os.WriteFile(filepath.Join(folder, "weights.head"), head.Encode(), 0o644); err != nil {
		return fmt.Errorf("writing the weights: %w", err)
	}
	for i, p := range pieces {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("weights-%d.bin", i)), p, 0o644); err != nil {
			return fmt.Errorf("writing the weights: %w", err)
		}
	}
	return nil
}
