// Command lexical learns the model of the lexical layer from labelled domains, and evaluates it on held-out domains.
//
//	go run ./plugins/internal/train/lexical -target rows.jsonl -pool more.jsonl.gz -out plugins/lexical
//
// The same rows give the same bytes on every machine. plugins/lexical/MODEL.md has the results.
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) error {
	emails := ""
	options, err := train.Parse(args, stderr, func(f *flag.FlagSet) {
		f.StringVar(&emails, "emails", "", "`file` of labelled addresses, whose mail domains -rows scores too")
	})
	if err != nil {
		return err
	}
	progress := train.NewProgress(stderr)
	domains, err := options.Domains(nil, progress)
	if err != nil {
		return err
	}
	mail, err := readMail(emails)
	if err != nil {
		return err
	}
	for _, a := range mail {
		domains = append(domains, a.domain)
	}
	rows := newRows(domains)
	weigh(rows)
	progress("%d rows, %d of them added for training", len(rows), len(rows)-len(domains))
	m := &model{rows: rows, rarity: rarityOf(rows)}
	all := domainsOf(rows)

	byLetters := train.HoldOutLetters(all)
	m.margins = byLetters.Run(all, options.Jobs, m.fit, progress)
	points := m.points(byLetters, options.Jobs, progress)
	discounts := m.discount(points)
	progress("%d suffixes with discounts", len(discounts))
	finish := func(points []float64) []float64 {
		for i := range rows {
			points[i] = m.final(&rows[i], points[i], discounts)
		}
		return points
	}
	train.WriteHeader(stdout)
	m.report(stdout, "before discounts", m.finished(points))
	points = finish(points)
	m.report(stdout, byLetters.Name, points)
	if err := writeRows(options.LetterRows, rows, mail, points); err != nil {
		return err
	}
	if options.Out != "" {
		var some []int32
		for i := range rows {
			if !rows[i].TestOnly {
				some = append(some, int32(i))
			}
		}
		odds := learnOdds(rows, some, m.margins, &m.rarity)
		weights := learn(rows, some)
		levels, at := quantise(weights, usage(rows, some))
		var points [ngram.Levels]int32
		for i, l := range levels {
			points[i] = int32(math.Round(perUnit * ngram.Unit * odds.factor * float64(l)))
		}
		if err := write(options.Out, ngram.EncodeLevels(points), pack(at), source(odds, &m.rarity,
			discounts)); err != nil {
			return err
		}
		progress("trained on all rows")
	}
	if !options.Absent {
		return nil
	}
	bySource := train.HoldOutSources(all)
	points = finish(m.points(bySource, options.Jobs, progress))
	m.report(stdout, bySource.Name, points)
	return writeRows(options.Rows, rows, mail, points)
}

// write writes the files of the layer's model to folder.
func write(folder string, head []byte, pieces [][]byte, source []byte) error {
	files := map[string][]byte{"weights.head": head, "odds.go": source}
	for i, p := range pieces {
		files[fmt.Sprintf("weights-%d.bin", i)] = p
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return fmt.Errorf("writing the model: %w", err)
		}
	}
	return nil
}
