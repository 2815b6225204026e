// Command patterns learns the odds of the patterns layer's features from labelled domains, and evaluates them on
// held-out domains.
//
//	go run ./plugins/internal/train/patterns -target rows.jsonl -pool more.jsonl.gz -out plugins/patterns
//
// Rows are {"type": "domain", "value", "label", "source", "category"}. The same rows give the same bytes.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/train"
	"assay/plugins/patterns/feature"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) error {
	measure := true
	options, err := train.Parse(args, stderr,
		func(flags *flag.FlagSet) { flags.BoolVar(&measure, "measure", true, "evaluate on held-out domains") })
	if err != nil {
		return err
	}
	progress := train.NewProgress(stderr)
	domains, err := options.Domains(scores, progress)
	if err != nil {
		return err
	}
	rows := newRows(domains)
	train.Weigh(domains)
	if measure {
		evaluate(stdout, rows, domains, options, progress)
	}
	if options.Out == "" {
		return nil
	}
	m := learn(rows)
	progress("trained on all rows")
	if err := os.WriteFile(filepath.Join(options.Out, "odds.go"), m.source(), 0o644); err != nil {
		return fmt.Errorf("writing odds: %w", err)
	}
	return nil
}

// scores reports whether the layer scores a host. It abstains for restricted suffixes, such as those of governments.
func scores(h *suffix.Host) bool { return h.Private || !suffix.Restricted(h.Suffix) }

// row is a domain to train or test on.
type row struct {
	*train.Domain
	name *feature.Name
}

func newRows(domains []*train.Domain) []row {
	rows := make([]row, len(domains))
	for i, d := range domains {
		d.Hosted = d.Host.OnSharedHosting()
		rows[i] = row{d, new(feature.Name)}
		rows[i].name.Read(&d.Host)
	}
	return rows
}

// evaluate prints the quality of held-out domains' scores.
func evaluate(out io.Writer, rows []row, domains []*train.Domain, options train.Options, progress train.Progress) {
	fit := func(indices []int32) func(int32) float64 {
		some := make([]row, len(indices))
		for i, at := range indices {
			some[i] = rows[at]
		}
		m := learn(some)
		return func(i int32) float64 { return float64(m.score(rows[i])) }
	}
	train.WriteHeader(out)
	bySite := train.HoldOutSites(domains)
	heldOut := slices.Concat(bySite.Run(domains, options.Jobs, fit, progress)...)
	q := train.WriteSubsets(out, bySite.Name, heldOut)
	train.WriteTable(out, "share at or above the threshold, by source", heldOut, q.Threshold, train.BySource)
	fmt.Fprintln(out)
	if !options.Absent {
		return
	}
	for _, h := range train.HoldOutFamilies(domains) {
		train.WriteSplits(out, h.Name, h.Run(domains, options.Jobs, fit, progress))
	}
}
