// Command email learns the address layers' data about disposable mail domains: the weights of their spelling
// (mailbox/weights.txt), and the sites with several of them (email/families.txt). It reads labelled rows from
// train_emails.jsonl, train_domains.jsonl and train_domains_pool.jsonl.gz in a folder. The same rows give the same
// bytes:
//
//	go run ./plugins/internal/train/email -out plugins FOLDER
//
// With -rows it writes the addresses to a file instead, each with its scores by the two layers trained without its
// source and without sites that share the first six letters with one of that source. Disposable domains have one source
// only, so a fifth of them is held out at a time, by these letters.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
)

func main() { train.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, progress io.Writer) error {
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(progress)
	out := flags.String("out", "", "the `folder` of the layers, to write what they learned")
	held := flags.String("rows", "", "write the addresses with held-out scores to this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || (*out == "") == (*held == "") {
		return errors.New("want -out or -rows, and one argument: the folder that contains train_emails.jsonl")
	}
	rows, err := readAll(flags.Arg(0))
	if err != nil {
		return err
	}
	if *out != "" {
		for layer, files := range learnAll(rows).files() {
			err = errors.Join(err, train.WriteFiles(filepath.Join(*out, layer), files))
		}
		return err
	}
	return holdOut(*held, flags.Arg(0), rows, progress)
}

// holdOut writes the addresses with their scores by layers that were trained without them.
func holdOut(path, folder string, rows []example, progress io.Writer) error {
	addresses, err := train.ReadRows(filepath.Join(folder, addressFile), entity.Email)
	if err != nil {
		return err
	}
	layers, err := train.NewLayers(addresses)
	if err != nil {
		return err
	}
	scores, err := heldOut(addresses, rows, layers.Score, progress)
	if err != nil {
		return err
	}
	return train.WriteRows(path, addresses, func(i int) map[string]int { return scores[i] })
}

// scorer scores the addresses with a layer whose files are replaced. Invalid ones have no score.
type scorer func(layer string, files map[string]string) ([]*int, error)

// heldOut returns the scores of addresses by layer, from layers trained without the address's fold.
func heldOut(addresses []eval.Row, rows []example, score scorer, progress io.Writer) ([]map[string]int, error) {
	labelled := make([]train.Labelled, len(addresses))
	for i, a := range addresses {
		labelled[i] = train.Labelled{Source: train.Publisher(listOf(&a)), Letters: eval.Letters(siteOf(hostOf(&a))),
			Split: a.Category == disposable}
	}
	scores := make([]map[string]int, len(addresses))
	folds := train.Folds(labelled)
	for n, fold := range folds {
		fmt.Fprintf(progress, "%d of %d: without %s\n", n+1, len(folds), fold.Name)
		var kept []example
		for i := range rows {
			if fold.Allows(train.Publisher(rows[i].list), eval.Letters(rows[i].site)) {
				kept = append(kept, rows[i])
			}
		}
		for layer, files := range learnAll(kept).files() {
			got, err := score(layer, files)
			if err != nil {
				return nil, err
			}
			for _, i := range fold.Test {
				if got[i] == nil {
					continue
				}
				if scores[i] == nil {
					scores[i] = map[string]int{}
				}
				scores[i][layer] = *got[i]
			}
		}
	}
	return scores, nil
}
