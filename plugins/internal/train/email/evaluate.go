package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"assay/host/eval"
	"assay/plugins/internal/train"
	"assay/registry"
)

// address is a labelled address.
type address struct {
	value, host, site string
	bad               bool
	list              string
	source            string
}

func readAddresses(folder string) ([]address, error) {
	var all []address
	err := eachLine(filepath.Join(folder, addressFile), func(l *line, _ []byte) error {
		host := l.host()
		all = append(all, address{l.Value, host, siteOf(host), l.Label == 1, l.list(), l.Source})
		return nil
	})
	return all, err
}

const (
	folds     = 5 // by site or host
	listFolds = 4 // by list
)

// result has the layers' points for one way to hold addresses out of training.
type result struct {
	name           string
	email, lexical []int // points by index of the address
	detailed       bool
}

// evaluate scores every address with layers trained without it, in several ways, and prints the quality of the scores.
func evaluate(folder string, rows []example, lineup registry.LineupDocument, out, progress io.Writer) error {
	all, err := readAddresses(folder)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "assay-train-")
	if err != nil {
		return fmt.Errorf("creating folder for layers: %w", err)
	}
	defer os.RemoveAll(scratch)
	r, err := newRunner(scratch, all)
	if err != nil {
		return err
	}
	e := &evaluation{folder: folder, rows: rows, all: all, runner: r, progress: progress}
	fixed := map[string][]int{}
	for _, layer := range []string{"domain", "patterns"} {
		if fixed[layer], err = r.run(layer, nil); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%-30s %6s  %-15s  %-17s  %s\n", "", "rows", "AUC", "recall at 1%",
		"benign, then bad: blocked / reviewed or blocked")
	return e.each(func(res result) {
		scores := fuse(lineup, res, fixed)
		report(out, res.name, all, scores, lineup.Bands)
		if res.detailed {
			report(out, "  email layer alone", all, toScores(res.email), lineup.Bands)
			writeSources(out, all, scores)
		}
	})
}

// evaluation trains and runs layers on the labelled addresses.
type evaluation struct {
	folder   string
	rows     []example
	all      []address
	runner   *runner
	progress io.Writer
}

// each calls done with the result of each way to hold addresses out.
func (e *evaluation) each(done func(result)) error {
	sites := map[string]bool{}
	for i := range e.all {
		sites[e.all[i].site] = true
	}
	newSite := func(l *line) bool { return !sites[siteOf(l.host())] }
	lexical, err := e.runner.runLexical(e.folder, newSite)
	if err != nil {
		return err
	}
	bySite, err := e.email("sites", func(a *address) int { return foldOf(a.site) },
		func(e *example, k int) bool { return foldOf(e.site) != k })
	if err != nil {
		return err
	}
	done(result{"sites held out", bySite, lexical, true})
	byHost, err := e.email("hosts", func(a *address) int { return foldOf(a.host) },
		func(e *example, k int) bool { return !e.mail || foldOf(e.domain) != k })
	if err != nil {
		return err
	}
	done(result{name: "mail hosts held out", email: byHost, lexical: lexical})
	both := result{name: "lists of both labels absent", email: slices.Clone(bySite), lexical: slices.Clone(lexical)}
	for _, bad := range []bool{true, false} {
		r := result{name: "good lists absent", email: slices.Clone(bySite), lexical: slices.Clone(lexical)}
		if bad {
			r.name = "bad lists absent"
		}
		group := e.foldLists(bad)
		testFold := func(a *address) int {
			if a.bad != bad {
				return -1
			}
			return group[train.Publisher(a.list)]
		}
		heldOut := func(list string, label bool, k int) bool {
			g, known := group[train.Publisher(list)]
			return label == bad && known && g == k
		}
		siteFolds := map[string]map[int]bool{} // the folds that test addresses at each site
		for i := range e.all {
			if a := &e.all[i]; siteFolds[a.site] == nil {
				siteFolds[a.site] = map[int]bool{testFold(a): true}
			} else {
				siteFolds[a.site][testFold(a)] = true
			}
		}
		email, err := e.email("lists", testFold, func(e *example, k int) bool {
			return !heldOut(e.list, e.bad, k) && !siteFolds[e.site][k]
		})
		if err != nil {
			return err
		}
		for k := range listFolds {
			fmt.Fprintf(e.progress, "lexical without lists, fold %d of %d\n", k+1, listFolds)
			points, err := e.runner.runLexical(e.folder, func(l *line) bool {
				return newSite(l) && !heldOut(l.list(), l.Label == 1, k)
			})
			if err != nil {
				return err
			}
			for i := range e.all {
				if testFold(&e.all[i]) == k {
					r.email[i], r.lexical[i] = email[i], points[i]
					both.email[i], both.lexical[i] = email[i], points[i]
				}
			}
		}
		done(r)
	}
	done(both)
	return nil
}

// email returns the email layer's points for every address. The layer is trained once per fold, on the rows for which
// keep returns true. of returns the fold of an address, or -1 for none.
func (e *evaluation) email(name string, of func(*address) int, keep func(e *example, k int) bool) ([]int, error) {
	points := make([]int, len(e.all))
	for k := range folds {
		if !slices.ContainsFunc(e.all, func(a address) bool { return of(&a) == k }) {
			continue
		}
		fmt.Fprintf(e.progress, "email without %s, fold %d\n", name, k+1)
		var kept []example
		for i := range e.rows {
			if keep(&e.rows[i], k) {
				kept = append(kept, e.rows[i])
			}
		}
		got, err := e.runner.run("email", learnAll(kept).files())
		if err != nil {
			return nil, err
		}
		for i := range e.all {
			if of(&e.all[i]) == k {
				points[i] = got[i]
			}
		}
	}
	return points, nil
}

func foldOf(s string) int { return int(mix(s) % folds) }

// foldLists divides the publishers of a label's lists into folds with similar numbers of addresses.
func (e *evaluation) foldLists(bad bool) map[string]int {
	sizes := map[string]int{}
	for i := range e.all {
		if a := &e.all[i]; a.bad == bad {
			sizes[train.Publisher(a.list)]++
		}
	}
	return train.Deal(sizes, listFolds)
}

// fuse returns the fused score of each address, or -1 for an invalid one.
func fuse(lineup registry.LineupDocument, r result, fixed map[string][]int) []float64 {
	points := maps.Clone(fixed)
	points["email"], points["lexical"] = r.email, r.lexical
	scores := make([]float64, len(r.email))
	for i := range scores {
		odds := lineup.Bias.For("email")
		for _, l := range lineup.Layers {
			if p, ok := points[l.Layer]; ok {
				odds += l.Weight.For("email") * float64(p[i]) / 100
			}
		}
		scores[i] = math.Round(100 / (1 + math.Exp(-odds)))
		if r.email[i] < 0 {
			scores[i] = -1
		}
	}
	return scores
}

func toScores(points []int) []float64 {
	scores := make([]float64, len(points))
	for i, p := range points {
		scores[i] = float64(p)
	}
	return scores
}

// report prints the quality of scores, and the shares of good and of bad addresses that are blocked or reviewed.
func report(out io.Writer, name string, all []address, scores []float64, bands registry.Bands) {
	var kept []float64
	var bad []bool
	var n, blocked, reviewed [2]float64
	for i, s := range scores {
		if s < 0 {
			continue
		}
		kept, bad = append(kept, s), append(bad, all[i].bad)
		label := ones(all[i].bad)
		n[label]++
		if s >= float64(bands.Block) {
			blocked[label]++
		}
		if s >= float64(bands.Review) {
			reviewed[label]++
		}
	}
	c := eval.NewCurve(kept, bad)
	auc, interval := c.AUC()
	recall := c.Bootstrap(0.01)[0]
	fmt.Fprintf(out, "%-30s %6d  %.4f ±%.4f  %.3f %.3f-%.3f ", name, len(kept), auc,
		float64(interval[1]-interval[0])/2, c.At(0.01).Recall, float64(recall[0]), float64(recall[1]))
	for label := range n {
		fmt.Fprintf(out, "  %.2f%% / %.2f%%", 100*blocked[label]/n[label], 100*reviewed[label]/n[label])
	}
	fmt.Fprintln(out)
}

// writeSources prints the recall and the false positives by source, at the threshold for 1% false positives.
func writeSources(out io.Writer, all []address, scores []float64) {
	scored := make([]train.Scored, len(all))
	for i, a := range all {
		scored[i] = train.Scored{Domain: &train.Domain{Malicious: a.bad, Source: a.source}, Score: scores[i]}
	}
	threshold := train.Measure(scored).Threshold
	title := fmt.Sprintf("share with a score of at least %.0f, by source", threshold)
	train.WriteTable(out, title, scored, threshold, train.BySource)
	fmt.Fprintln(out)
}
