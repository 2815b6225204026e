// Command train learns how throw-away and reported mail domains are spelt, for the email layer, from the labelled lines of a
// folder: train_emails.jsonl, train_domains.jsonl and train_domains_pool.jsonl.gz. The same lines give the same bytes:
//
//	go run ./plugins/email/train FOLDER > plugins/email/weights.txt
//	go run ./plugins/email/train -folds 5 FOLDER
//
// The second form keeps each fifth of the domains back in turn, and prints for every mail domain its label, the log-odds that
// the rest gave it, the domain and its source, parted by tabs.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"assay/plugins/email/spelling"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	folds := flags.Int("folds", 0, "keep one part of so many back in turn, and measure; 0 writes the weights")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *folds < 0 || *folds == 1 {
		return errors.New("give one folder: the one that holds train_emails.jsonl")
	}
	var rows []example
	for _, name := range []string{"train_emails.jsonl", "train_domains.jsonl", "train_domains_pool.jsonl.gz"} {
		var err error
		if rows, err = read(rows, filepath.Join(flags.Arg(0), name)); err != nil {
			return fmt.Errorf("reading labelled lines: %w", err)
		}
	}
	rows = distinct(rows)
	if *folds > 0 {
		return measure(out, rows, *folds)
	}
	_, err := io.WriteString(out, string(learn(rows)))
	return err
}

// example is one labelled mail domain.
type example struct {
	key      uint64 // of the registrable domain: orders examples and parts them into folds
	domain   string
	bad      bool
	mail     bool // from a labelled address, not from a labelled site
	weight   float64
	source   string
	features []spelling.Feature
}

func read(rows []example, path string) ([]example, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text := io.Reader(bufio.NewReader(file))
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(text); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	for lines := json.NewDecoder(text); ; {
		var row struct {
			Type, Value, Source, Category string
			Label                         int
		}
		if err := lines.Decode(&row); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		host, mail := strings.ToLower(row.Value), row.Type == "email"
		if mail {
			host = host[strings.LastIndexByte(host, '@')+1:]
		}
		if row.Category == "typo_provider" || row.Category == "freemail_person" {
			continue // told by rules
		}
		suffix, _ := publicsuffix.PublicSuffix(host)
		d, ok := spelling.Of(host, suffix)
		if !ok {
			continue
		}
		if !mail {
			d.Left, host = "", d.Label+"."+d.Suffix // a site's host tells nothing of where mail is received
		}
		e := example{
			key: mix(d.Label + "." + d.Suffix), domain: host, bad: row.Label == 1, mail: mail, source: row.Source,
			weight: weightOf(row.Label == 1, mail, row.Category), features: d.Features(nil),
		}
		rows = append(rows, e)
	}
}

// weightOf says how much an example counts. Throw-away domains count whole, reported sites' little, for the lexical layer knows
// those. Sites are no mail domains: they are many, and stand in for what addresses are missing.
func weightOf(bad, mail bool, category string) float64 {
	switch {
	case category == "malicious_domain":
		return 0.5
	case mail:
		return 1
	case bad:
		return 0.005
	}
	return 0.1
}

// mix hashes a registrable domain: FNV-1a, finished so that near names land far apart.
func mix(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// distinct orders rows by their key, so that training depends on no file's order, and keeps one row of each mail domain.
func distinct(rows []example) []example {
	slices.SortStableFunc(rows, func(a, b example) int {
		switch {
		case a.key != b.key && a.key < b.key:
			return -1
		case a.key != b.key:
			return 1
		}
		return strings.Compare(a.domain, b.domain)
	})
	return slices.CompactFunc(rows, func(a, b example) bool { return a.domain == b.domain && a.bad == b.bad })
}

// How the model learns: logistic regression by AdaGrad (Duchi, Hazan and Singer, 2011).
const (
	rounds = 3
	rate   = 0.05
	decay  = 2e-5 // of each weight, at each example that has it
	calm   = 1    // what keeps the first steps of a weight short
)

// learn fits one weight a slot and gives them in the form that spelling reads. Products are rounded before they are added
// (Go specification, floating-point operators), so that every machine gives the same bytes.
func learn(rows []example) spelling.Weights {
	weights, seen := make([]float64, spelling.Slots), make([]float64, spelling.Slots)
	for range rounds {
		for i := range rows {
			e := &rows[i]
			sum := 0.0
			for _, f := range e.features {
				sum += weights[f.Slot]
			}
			miss := 1 / (1 + math.Exp(-sum))
			if e.bad {
				miss--
			}
			miss *= e.weight
			for _, f := range e.features {
				g := miss + float64(decay*weights[f.Slot])
				seen[f.Slot] += float64(g * g)
				weights[f.Slot] -= float64(rate*g) / math.Sqrt(seen[f.Slot]+calm)
			}
		}
	}
	return spelling.Encode(weights)
}

// measure prints how well domains that were kept back are told apart, among those of labelled addresses.
func measure(out io.Writer, rows []example, folds int) error {
	type judged struct {
		e   *example
		sum int
	}
	var all []judged
	for k := range folds {
		var kept []example
		for i := range rows {
			if int(rows[i].key%uint64(folds)) != k {
				kept = append(kept, rows[i])
			}
		}
		w := learn(kept)
		for i := range rows {
			if e := &rows[i]; e.mail && int(e.key%uint64(folds)) == k {
				all = append(all, judged{e, w.Sum(e.features)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b judged) int { return b.sum - a.sum })
	for _, j := range all {
		label := 0
		if j.e.bad {
			label = 1
		}
		odds := float64(j.sum) * spelling.Quantum
		if _, err := fmt.Fprintf(out, "%d\t%.2f\t%s\t%s\n", label, odds, j.e.domain, j.e.source); err != nil {
			return err
		}
	}
	return nil
}
