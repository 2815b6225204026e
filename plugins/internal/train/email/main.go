// Command train learns what the email layer knows of throw-away mail domains from the labelled lines of a folder,
// train_emails.jsonl, train_domains.jsonl and train_domains_pool.jsonl.gz: how they are spelt (weights.txt), and which
// sites hold many of them (families.txt). The same lines give the same bytes:
//
//	go run ./plugins/internal/train/email -out plugins/email FOLDER
//
// Without -out it measures instead, which takes some minutes: every labelled address is scored by the layers of the
// built-in lineup, email and lexical trained without its site, and again without its source.
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

	"assay/registry"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(progress)
	folder := flags.String("out", "", "`folder` to write weights.txt and families.txt to; without it nothing is written, and the layers are measured")
	document := flags.String("lineup", "", "measure with the weights of this `file` instead of the built-in lineup's")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("give one folder: the one that holds train_emails.jsonl")
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
	return measure(flags.Arg(0), rows, lineup, out, progress)
}

// write replaces the layer's files in folder.
func write(folder string, l learned) error {
	for name, text := range l.files() {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing what was learned: %w", err)
		}
	}
	return nil
}
