// Command mutants breaks single lines of the product, one at a time, and says which test finds each.
//
//	go run ./.ci/mutants -seed 7 -count 150
//
// The seed chooses the lines, spread over the packages by their length; the same seed and tree give the same mutants. A
// mutant is an overlay of the go command and never touches the tree. The tests that execute its line run until one
// fails: those of its own package, then those of the packages that import it, nearest first. Programs that tests build
// themselves, such as a host and layers in WebAssembly, come from the tree, without the mutant.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// roots are the folders whose packages are broken.
var roots = []string{"./host/...", "./plugins/...", "./sdk/...", "./registry/..."}

// Result is the result of testing a mutant.
type Result struct {
	Mutant
	Package  string  `json:"package"`
	Found    string  `json:"found,omitempty"`    // the test that failed, as PACKAGE.TEST
	Outcome  string  `json:"outcome"`            // one of the outcomes
	Executed bool    `json:"executed"`           // by the tests
	Untested int     `json:"untested,omitempty"` // packages left out: time was up, or they fail without the mutant
	Seconds  float64 `json:"seconds"`
}

// Outcomes of mutants.
const (
	found    = "found"    // a test failed
	hung     = "timeout"  // a package's tests took much longer than without the mutant, which counts as found
	survived = "survived" // no test failed
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "chooses the mutants")
	count := flags.Int("count", 150, "`number` of mutants")
	bound := flags.Duration("timeout", 10*time.Minute, "`time` for the tests of a mutant")
	only := flags.String("only", "", "`patterns` of the packages to break, separated by spaces")
	parallel := flags.Int("parallel", 2, "`number` of mutants that are tested at a time")
	list := flags.Bool("list", false, "print the chosen mutants without testing them")
	race := flags.Bool("race", true, "test mutants without locks under the race detector")
	file := flags.String("json", "", "`file` for the results")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *count < 1 || *parallel < 1 {
		return errors.New("want no arguments but flags, and a -count and -parallel of 1 or more")
	}
	module, err := load(ctx, roots, strings.Fields(*only))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return fmt.Errorf("creating a folder for mutants: %w", err)
	}
	defer os.RemoveAll(dir)
	lab := &lab{module: module, dir: dir, bound: *bound, race: *race, clean: map[string]func() (clean, error){}}
	draw := newDraw(module.targets, *seed, *count)
	var mu sync.Mutex
	var results []Result
	add := func(r Result) {
		mu.Lock()
		defer mu.Unlock()
		results = append(results, r)
		fmt.Fprintf(out, "%s:%d  %s  %s\n", r.File, r.Line, r.Kind, r.verdict())
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(*parallel)
	for chosen := 0; chosen < *count && within.Err() == nil; {
		p, m, ok := draw.next()
		if !ok {
			fmt.Fprintf(out, "there are no more than %d mutants\n", chosen)
			break
		}
		overlay, err := lab.compile(within, p, m)
		if errors.Is(err, errNotCompiled) {
			draw.replace(p)
			continue
		}
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		chosen++
		group.Go(func() error {
			r, err := Result{Mutant: m, Package: p.path}, error(nil)
			if !*list {
				r, err = lab.try(within, p, m, overlay)
			}
			if err == nil {
				add(r)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintln(out, "interrupted")
	}
	if !*list {
		table(out, results)
	}
	return save(*file, results)
}

func (r Result) verdict() string {
	note := ""
	if r.Untested > 0 {
		note = fmt.Sprintf("; the tests of %d packages were left out", r.Untested)
	}
	switch r.Outcome {
	case found:
		return "found by " + r.Found
	case hung:
		return "found by a timeout of " + r.Found
	case survived:
		if !r.Executed && r.Untested == 0 {
			note = "; no test executes it"
		}
		return fmt.Sprintf("SURVIVED  %s -> %s%s", r.Before, r.After, note)
	}
	return fmt.Sprintf("%s -> %s", r.Before, r.After)
}

// table prints how many mutants of each package were found.
func table(out io.Writer, results []Result) {
	type row struct{ mutants, found, hung, survived, unexecuted, leftOut int }
	rows := map[string]*row{"total": {}}
	for _, r := range results {
		if rows[r.Package] == nil {
			rows[r.Package] = &row{}
		}
		for _, n := range []*row{rows[r.Package], rows["total"]} {
			n.mutants++
			switch {
			case r.Outcome == found:
				n.found++
			case r.Outcome == hung:
				n.hung++
			default:
				n.survived++
				if !r.Executed {
					n.unexecuted++
				}
				if r.Untested > 0 {
					n.leftOut++
				}
			}
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\npackage\tmutants\tfound\ttimeouts\tsurvived\tof those, not executed\tor not by all tests")
	total := rows["total"]
	delete(rows, "total")
	line := func(name string, n *row) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", name, n.mutants, n.found, n.hung, n.survived, n.unexecuted,
			n.leftOut)
	}
	for _, name := range sorted(rows) {
		line(name, rows[name])
	}
	line("total", total)
	_ = w.Flush()
}

func save(file string, results []Result) error {
	if file == "" {
		return nil
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(results); err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(file, data.Bytes(), 0o644); err != nil {
		return fmt.Errorf("saving the results: %w", err)
	}
	return nil
}
