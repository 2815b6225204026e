package replay

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"assay/host/check"
	"assay/host/internal/plot"
)

// maxSignals is the number of signals that WriteText shows.
const maxSignals = 10

// WriteText writes a report for a terminal.
func (r *Report) WriteText(out io.Writer) error {
	w := &writer{}
	r.writeChecks(w)
	for _, t := range r.Types {
		t.write(w)
		if t.Checks < Enough {
			w.printf("  Only %d checks, fewer than %d: the reference values decide.\n", t.Checks, Enough)
		}
	}
	r.writeSignals(w)
	r.writeFailures(w)
	r.writeReferences(w)
	_, err := io.WriteString(out, w.String())
	return err
}

func (r *Report) writeFailures(w *writer) {
	if len(r.Failures) == 0 {
		return
	}
	w.printf("\nLayers that fail:\n")
	for _, f := range r.Failures {
		w.printf("  %s: %d checks (%s)\n", f.Layer, f.Checks, f.Reason)
	}
}

// writer builds a text.
type writer struct{ strings.Builder }

func (w *writer) printf(format string, args ...any) { fmt.Fprintf(w, format, args...) }

func (w *writer) table(rows ...[]string) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, "  "+strings.Join(row, "\t"))
	}
	_ = table.Flush() // writing to a string cannot fail
}

// checks returns the number of checks that were scored.
func (r *Report) checks() (n int) {
	for _, t := range r.Types {
		n += t.Checks
	}
	return n
}

// writeSpan writes the period of the checks.
func (r *Report) writeSpan(w *writer) {
	if r.From != nil && r.To != nil {
		w.printf(", %s to %s UTC", r.From.UTC().Format(time.DateTime), r.To.UTC().Format(time.DateTime))
	}
}

func (r *Report) writeChecks(w *writer) {
	replayed := r.checks()
	switch {
	case r.Remembered == 0:
		w.printf("No recent checks to replay: the reference values decide.\n")
		return
	case replayed < r.Remembered:
		w.printf("Replayed %d of %d recent checks", replayed, r.Remembered)
	default:
		w.printf("Replayed %d recent checks", replayed)
	}
	r.writeSpan(w)
	w.printf(".\n")
	if replayed < r.Remembered {
		w.printf("There was no time for the others.\n")
	}
}

// percent formats a share without rounding small ones to zero.
func percent(n, of int) string { return fmt.Sprintf("%.3g%%", 100*float64(n)/float64(max(of, 1))) }

func (t TypeReport) write(w *writer) {
	w.printf("\n%s: %d of %d verdicts change (%s), %d new blocks, %d lost blocks\n", t.Type, t.Flips, t.Checks,
		percent(t.Flips, t.Checks), t.NewBlocks, t.LostBlocks)
	if t.Refused > 0 {
		w.printf("  The candidate refuses %d checks (%s) with 503.\n", t.Refused, percent(t.Refused, t.Checks))
	}
	if t.Missing > 0 {
		w.printf("  A new layer scored %d checks without facts that had not been looked up.\n", t.Missing)
	}
	var rows [][]string
	for _, from := range verdicts {
		for _, to := range verdicts {
			if n := t.Verdicts[from][to]; n > 0 && from != to {
				rows = append(rows, []string{fmt.Sprintf("%s to %s", from, to), fmt.Sprint(n)})
			}
		}
	}
	w.table(rows...)
	if t.Before == t.After {
		w.printf("  The scores are distributed as before.\n")
		return
	}
	pairs := make([]plot.Pair, len(t.Before))
	for i := range pairs {
		last := 5*i + 4
		if i == len(pairs)-1 {
			last = 100
		}
		pairs[i] = plot.Pair{Label: fmt.Sprintf("%d to %d", 5*i, last), Before: t.Before[i], After: t.After[i]}
	}
	w.printf("\n  scores, with bars of logarithmic length\n")
	for line := range strings.Lines(plot.Bars(pairs)) {
		w.printf("  %s", line)
	}
}

func (r *Report) writeSignals(w *writer) {
	if len(r.Signals) == 0 {
		return
	}
	w.printf("\nWhat weighs most in the flips:\n")
	rows := [][]string{{"FLIPS", "TYPE", "VERDICT", "CAUSE"}}
	rest := 0
	for i, s := range r.Signals {
		if i >= maxSignals {
			rest += s.Flips
			continue
		}
		rows = append(rows, []string{fmt.Sprint(s.Flips), string(s.Type), fmt.Sprintf("%s to %s", s.From, s.To),
			s.cause()})
	}
	w.table(rows...)
	if rest > 0 {
		w.printf("  and others in %d flips\n", rest)
	}
}

func (s SignalFlips) cause() string {
	switch s.Code {
	case codeBias:
		return "the lineup's bias"
	case codeBands:
		return "the lineup's bands"
	case codeScore:
		return fmt.Sprintf("the score of %s beyond its signals", s.Layer)
	case codeDegraded:
		return fmt.Sprintf("%s fails in one of the lineups", s.Layer)
	}
	return s.Code + " of " + s.Layer
}

func (r *Report) writeReferences(w *writer) {
	if len(r.References) == 0 {
		return
	}
	all := 0
	for _, n := range r.References {
		all += n
	}
	w.printf("\nReference values: %d of %d verdicts change\n", len(r.ReferenceFlips), all)
	if len(r.ReferenceFlips) == 0 {
		return
	}
	rows := [][]string{{"NAME", "TYPE", "VALUE", "BEFORE", "AFTER"}}
	scored := func(v check.Verdict, score int) string { return fmt.Sprintf("%s (%d)", v, score) }
	for _, f := range r.ReferenceFlips {
		rows = append(rows, []string{f.Name, string(f.Type), f.Value, scored(f.From, f.Before), scored(f.To, f.After)})
	}
	w.table(rows...)
}
