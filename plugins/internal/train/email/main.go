// Command email learns the email layer's data on disposable mail domains: the weights of their spelling (weights.txt),
// and the sites with several of them (families.txt). It reads labelled rows from train_emails.jsonl,
// train_domains.jsonl and train_domains_pool.jsonl.gz in a folder. The same rows give the same bytes:
//
//	go run ./plugins/internal/train/email -out plugins/email FOLDER
//
// Without -out it evaluates the default lineup instead, which takes some minutes. It scores each labelled address with
// the layers email and lexical trained without the address's site, and again without its source.
//
//	go run ./plugins/internal/train/email FOLDER
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/plugins/internal/train"
	"assay/registry"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(stderr)
	folder := flags.String("out", "",
		"`folder` for weights.txt and families.txt; without it, evaluate the layers and write nothing")
	document := flags.String("lineup", "", "evaluate the lineup in this `file` instead of the default lineup")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("want one argument: the folder that contains train_emails.jsonl")
	}
	rows, err := readAll(flags.Arg(0))
	if err != nil {
		return err
	}
	if *folder != "" {
		return write(*folder, learnAll(rows))
	}
	lineup, err := registry.DefaultLineup()
	if *document != "" {
		var data []byte
		if data, err = os.ReadFile(*document); err == nil {
			lineup, err = registry.DecodeLineup(data)
		}
	}
	if err != nil {
		return fmt.Errorf("reading lineup: %w", err)
	}
	return evaluate(flags.Arg(0), rows, lineup, stdout, stderr)
}

// write writes the layer's files to folder.
func write(folder string, l learned) error {
	for name, text := range l.files() {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing learned data: %w", err)
		}
	}
	return nil
}
