// Command lexical learns the model of the lexical layer from labelled domains, and measures it on sources that it was
// not trained on.
//
//	go run ./plugins/internal/train/lexical -rows rows.jsonl -rows more.jsonl.gz -out plugins/lexical/ngram
//
// The same rows give the same bytes on every machine. plugins/lexical/MODEL.md has the results.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/learn"
	"assay/plugins/lexical/ngram"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the command's flags.
type options struct {
	rows                    []string
	emails, out, validation string
	leaveOut                bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("lexical", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Func("rows", "`file` of labelled domains; may be repeated", func(path string) error {
		o.rows = append(o.rows, path)
		return nil
	})
	flags.StringVar(&o.emails, "emails", "", "`file` of labelled addresses, whose mail domains are not learned")
	flags.StringVar(&o.out, "out", "", "`folder` for the model; without it, none is written")
	flags.StringVar(&o.validation, "validation", "", "`file` to write the rows of the validation to")
	flags.BoolVar(&o.leaveOut, "leave-out", false, "also measure models without each source")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if len(o.rows) == 0 || flags.NArg() > 0 {
		flags.Usage()
		return o, errors.New("want at least one -rows file, and no other arguments")
	}
	return o, nil
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	progress := train.NewProgress(stderr)
	domains, err := train.ReadSites(o.rows, progress)
	if err != nil {
		return err
	}
	never, err := mailSites(o.emails)
	if err != nil {
		return err
	}
	validate := divide(domains, never)
	if err := writeRows(o.validation, validate); err != nil {
		return err
	}
	some := domains[:0]
	var names []string
	for _, d := range domains {
		d.Host.Name = ngram.Plain(d.Host.Name)
		if !d.TestOnly {
			some, names = append(some, d), append(names, d.Host.Name)
		}
	}
	progress("%d sites to train on, %d to validate on", len(some), len(validate))
	list, costs := learnWords(names)
	vocabulary := ngram.EncodeWords(list, costs, ngram.WordBits)
	words, err := ngram.OpenWords(vocabulary, ngram.WordBits)
	if err != nil {
		return err
	}
	progress("%d words", len(list))
	rows := learn.ReadRows(append(some[:len(some):len(some)], validate...), words)
	all := make([]int32, len(rows))
	for i := range rows {
		all[i] = int32(i)
	}
	learned, held := all[:len(some)], all[len(some):]
	learn.Weigh(rows, learned, factors)
	m := learn.New(rows, learned)
	progress("trained on all rows")
	points := make([]float64, len(held))
	for at, i := range held {
		points[at] = m.Points(&rows[i])
	}
	report(stdout, rows[len(some):], points)
	if o.leaveOut {
		leaveOut(stdout, rows, learned, held, progress)
	}
	if o.out == "" {
		return nil
	}
	files := map[string][]byte{"weights.head": m.Head(proven), "words.bin": vocabulary}
	for i, piece := range m.Pieces() {
		files[fmt.Sprintf("weights-%d.bin", i)] = piece
	}
	return train.WriteFiles(o.out, files)
}
