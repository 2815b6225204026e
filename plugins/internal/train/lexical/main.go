// Command lexical learns the weights of the lexical layer from labelled domains, and evaluates them on held-out
// domains.
//
//	go run ./plugins/internal/train/lexical -target rows.jsonl -pool more.jsonl.gz -out plugins/lexical
//
// The same rows give the same bytes on every machine. plugins/lexical/MODEL.md has the results.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) error {
	options, err := train.Parse(args, stderr, nil)
	if err != nil {
		return err
	}
	progress := train.NewProgress(stderr)
	domains, err := options.Domains(nil, progress)
	if err != nil {
		return err
	}
	rows := newRows(domains)
	progress("%d rows added for training", len(rows)-len(domains))
	weigh(rows)
	scale, offset := evaluate(stdout, rows, options, progress)
	if options.Out == "" {
		return nil
	}
	all := make([]int32, len(rows))
	for i := range all {
		all[i] = int32(i)
	}
	weights := learn(rows, all, labelFactors{1, 1},
		func(epoch int) { progress("trained on all rows: epoch %d of %d", epoch, epochs) })
	levels, at := quantise(weights, usage(rows, all))
	head := ngram.Head{Slots: slots, Levels: levels, Scale: float32(scale), Offset: float32(offset)}
	return write(options.Out, head, pack(at))
}

// write writes the weights' files to folder.
func write(folder string, head ngram.Head, pieces [][]byte) error {
	if err := os.WriteFile(filepath.Join(folder, "weights.head"), head.Encode(), 0o644); err != nil {
		return fmt.Errorf("writing weights: %w", err)
	}
	for i, p := range pieces {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("weights-%d.bin", i)), p, 0o644); err != nil {
			return fmt.Errorf("writing weights: %w", err)
		}
	}
	return nil
}
