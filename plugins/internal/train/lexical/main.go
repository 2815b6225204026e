// Command train learns the weights of the lexical layer from labelled domains, and measures them on held-out rows.
//
//	go run ./plugins/internal/train/lexical -target rows.jsonl -pool more.jsonl.gz -out plugins/lexical
//
// The same rows give the same bytes, on every machine. MODEL.md beside the layer says what was measured.
package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, progress io.Writer) error {
	options, err := train.Parse(args, progress, nil)
	if err != nil {
		return err
	}
	say := train.Clock(progress)
	rows, err := read(options, say)
	if err != nil {
		return err
	}
	weigh(rows)
	scale, offset := measure(out, rows, options.Jobs, options.Absent, say)

	all := make([]int32, len(rows))
	for i := range all {
		all[i] = int32(i)
	}
	weights := learn(rows, all, sides{1, 1},
		func(epoch int) { say("learned from all rows: round %d of %d", epoch, epochs) })
	levels, at := quantise(weights, usage(rows, all))
	head := ngram.Head{Slots: slots, Levels: levels, Scale: float32(scale), Offset: float32(offset)}
	if options.Out == "" {
		return nil
	}
	return write(options.Out, head, pack(at))
}

func read(options train.Options, say func(string, ...any)) ([]row, error) {
	var rows []row
	err := options.Files(func(path string, target bool) error {
		more, skipped, err := readFile(path, target)
		if err != nil {
			return err
		}
		say("read %s: %d domains, %d that no check would take", filepath.Base(path), len(more), skipped)
		rows = append(rows, more...)
		return nil
	})
	if err != nil {
		return nil, err
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

// measure prints how well held-out rows are told apart, and returns the scale and offset that make a sum of weights
// points.
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
