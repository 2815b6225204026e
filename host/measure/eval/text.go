package eval

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/host/check"
	"assay/host/internal/plot"
)

// WriteText writes the report as plain text.
func (r *Report) WriteText(out io.Writer) error {
	p := &page{}
	p.line("%s rows of %s through %s (bias %v, review from %d, block from %d), %s, in %s s", count(r.Rows),
		strings.Join(r.Files, ", "), r.Lineup.Name(),
		r.Lineup.Bias, r.Lineup.Bands.Review, r.Lineup.Bands.Block, lookupsText(r.Lookups), r.Seconds.fixed(1))
	if r.Skipped > 0 {
		p.line("NOTE  %s invalid lines are skipped", count(r.Skipped))
	}
	for _, w := range r.Warnings {
		p.line("NOTE  %s", w)
	}
	r.writeFalsePositives(p)
	for _, t := range r.Types {
		t.write(p)
	}
	_, err := out.Write(p.Bytes())
	return err
}

// Name names the lineup in a sentence.
func (l LineupLine) Name() string {
	if l.Revision != 0 {
		return fmt.Sprintf("lineup revision %d", l.Revision)
	}
	return "the given lineup"
}

func lookupsText(lookups bool) string {
	if lookups {
		return "with current lookups"
	}
	return "without lookups"
}

// writeFalsePositives writes the share of honest values of each type that are reviewed or blocked.
func (r *Report) writeFalsePositives(p *page) {
	var all []FalsePositives
	for _, t := range r.Types {
		review, block := t.Bands.Review, t.Bands.Block
		benign := t.N - t.Positives
		all = append(all, FalsePositives{string(t.Type), rate(review.FalsePositives, benign),
			rate(block.FalsePositives, benign)})
	}
	writeFalsePositives(p, "BENIGN", all)
}

func writeFalsePositives(p *page, title string, all []FalsePositives) {
	var rows [][]string
	for _, f := range all {
		rows = append(rows, []string{printable(f.Group), count(f.Review.N), count(f.Review.Count),
			f.Review.Share.percent(2), f.Review.Interval.percent(2), count(f.Block.Count), f.Block.Share.percent(2),
			f.Block.Interval.percent(2)})
	}
	p.tableIfAny("lrrrlrrl", []string{title, "ROWS", "REVIEW OR BLOCK", "", "95%", "BLOCK", "", "95%"}, rows)
}

// write writes which threats flagged rows are given. t may be nil.
func (t *Threats) write(p *page) {
	if t == nil {
		return
	}
	var rows [][]string
	for _, c := range t.Categories {
		var want []string
		for _, w := range c.Want {
			want = append(want, string(w))
		}
		rows = append(rows, []string{printable(c.Category), strings.Join(want, " or "), count(c.Right.N),
			count(c.Right.Count), c.Right.Share.percent(1), c.Right.Interval.percent(1), count(c.Scam), count(c.Wrong)})
	}
	p.line("\nThreat of flagged rows: macro-averaged recall %s", t.MacroRecall.percent(1))
	p.table("llrrrlrr", []string{"CATEGORY", "RIGHT NAME", "FLAGGED", "RIGHT", "", "95%", "\"SCAM\" INSTEAD", "WRONG"},
		rows)
}

func (r *TypeReport) write(p *page) {
	p.line("\n%s: %s rows, %s malicious, %s benign", strings.ToUpper(string(r.Type)), count(r.N), count(r.Positives),
		count(r.N-r.Positives))
	p.table("lrlrrr", []string{"", "VALUE", "95% INTERVAL", "FROM SCORE", "FALSE POSITIVES", "UNROUNDED"}, [][]string{
		{"AUC", r.AUC.fixed(4), r.AUCInterval.fixed(4), "", "", r.Unrounded.AUC.fixed(4)},
		{"recall at 1% false positives", r.Recall1.fixed(4), r.Interval1.fixed(4), r.Threshold1.fixed(0),
			r.FPR1.percent(2), r.Unrounded.Recall1.fixed(4)},
		{"recall at 0.1% false positives", r.Recall01.fixed(4), r.Interval01.fixed(4), r.Threshold01.fixed(0),
			r.FPR01.percent(2), r.Unrounded.Recall01.fixed(4)},
	})

	var rows [][]string
	for _, b := range r.bands() {
		rows = append(rows, []string{b.Name, fmt.Sprintf("%d-%d", b.From, b.To), count(b.Benign), count(b.Malicious),
			b.FPR.percent(2), b.FPRInterval.percent(2), b.Recall.percent(1), b.RecallInterval.percent(1)})
	}
	p.table("lrrrrlrl", []string{"BAND", "SCORES", "BENIGN", "MALICIOUS", "BENIGN FROM HERE", "95%",
		"MALICIOUS FROM HERE", "95%"}, rows)

	p.line("\nCalibration at %s malicious: Brier %s, expected calibration error %s",
		r.Calibration.Prevalence.percent(1), r.Calibration.Brier.fixed(4), r.Calibration.ECE.fixed(4))
	rows = nil
	for _, b := range r.Calibration.Bins {
		if b.N > 0 {
			rows = append(rows, []string{fmt.Sprintf("%d-%d", b.From, b.To), count(b.N), b.Predicted.percent(1),
				b.Observed.percent(1)})
		}
	}
	p.table("rrrr", []string{"SCORES", "ROWS", "PREDICTED", "OBSERVED"}, rows)

	rows = nil
	for _, l := range r.Layers {
		rows = append(rows, []string{l.Name + "@" + l.Version, strconv.FormatFloat(l.Weight, 'f', 2, 64),
			count(l.Scored), l.AUC.fixed(4), l.Recall1.fixed(4),
			l.Without.AUC.fixed(4), l.Without.Recall1.fixed(4), (r.Recall1 - l.Without.Recall1).signed(4)})
	}
	p.table("lrrrrrrr", []string{"LAYER", "WEIGHT", "SCORED", "AUC ALONE", "RECALL@1% ALONE", "AUC WITHOUT",
		"RECALL@1% WITHOUT", "GAIN"}, rows)

	writeFalsePositives(p, "BENIGN SUFFIX", r.Suffixes)
	writeFalsePositives(p, "BENIGN SITES", r.TopSites)
	r.Threats.write(p)
	writeGroups(p, "SOURCE", r.Sources)
	writeGroups(p, "CATEGORY", r.Categories)
	writeMistakes(p, "Benign, scored highest:", r.Errors.Benign)
	writeMistakes(p, "Malicious, scored lowest:", r.Errors.Malicious)
}

type namedBand struct {
	Name string
	Band
}

func (f Figures) bands() []namedBand {
	return []namedBand{{string(check.Allow), f.Bands.Allow}, {string(check.Review), f.Bands.Review},
		{string(check.Block), f.Bands.Block}}
}

func writeGroups(p *page, what string, groups []Group) {
	for _, malicious := range []bool{true, false} {
		header := []string{"BENIGN " + what, "ROWS", "FALSE@1%", "95%", "REVIEW OR BLOCK", "BLOCK", "MEAN SCORE"}
		if malicious {
			header[0], header[2] = "MALICIOUS "+what, "RECALL@1%"
		}
		var rows [][]string
		for _, g := range groups {
			if g.Malicious == malicious {
				rows = append(rows, []string{printable(g.Name), count(g.N), g.AtOnePct.percent(1),
					g.Interval.percent(1), g.Review.percent(1), g.Block.percent(1), g.MeanScore.fixed(1)})
			}
		}
		p.tableIfAny("lrrlrrr", header, rows)
	}
}

func writeMistakes(p *page, title string, mistakes []Mistake) {
	if len(mistakes) == 0 {
		return
	}
	p.line("\n%s", title)
	for _, m := range mistakes {
		p.line("\n  %3d  %s  %s", m.Score, printable(m.Value), m.Origin())
		for _, o := range m.Layers {
			switch {
			case o.Failure != "":
				p.line("       %s: failed, %s", o.Layer, o.Failure)
			case len(o.Signals) > 0:
				p.line("       %s: %d, log-odds %+.2f", o.Layer, o.Score, o.Contribution)
			}
			for _, s := range o.Signals {
				p.line("         %+4d  %s  %s", s.Points, s.Code, s.Text)
			}
		}
		if m.HasNoSignals() {
			p.line("       no layer has a signal")
		}
	}
}

// Origin returns the category and source of the row.
func (m Mistake) Origin() string {
	origin := printable(m.Category)
	if m.Source != "" {
		origin = strings.TrimSpace(origin + " (" + printable(m.Source) + ")")
	}
	return origin
}

// HasNoSignals reports whether all layers returned a result without signals.
func (m Mistake) HasNoSignals() bool {
	return !slices.ContainsFunc(m.Layers, func(o check.Outcome) bool { return o.Failure != "" || len(o.Signals) > 0 })
}

// WriteText writes the fit as plain text.
func (f *Fit) WriteText(out io.Writer) error {
	p := &page{}
	p.line("Fitted to %s rows", count(f.Rows))
	if f.Dropped > 0 {
		p.line("NOTE  %s rows are excluded because they are invalid or a layer failed on them", count(f.Dropped))
	}
	for _, t := range f.Types {
		t.write(p)
	}
	_, err := out.Write(p.Bytes())
	return err
}

func (f *FitType) write(p *page) {
	p.line("\n%s: %s rows, %s malicious, weighted as if %s were", strings.ToUpper(string(f.Type)), count(f.N),
		count(f.Positives), f.Prevalence.percent(2))
	if !f.TargetsMet {
		p.line("NOTE  no weights meet the limits on benign rows reviewed and blocked")
	}
	if len(f.Kept) > 0 {
		p.line("NOTE  these layers scored none of the rows, so their weights are kept, or raised to meet a limit: %s",
			strings.Join(f.Kept, ", "))
	}
	if len(f.Broken) > 0 {
		p.line("NOTE  no weights meet all limits of the lineup; broken: %s", strings.Join(f.Broken, "; "))
	}
	if len(f.Binding) > 0 {
		p.line("NOTE  the lineup's limits change the AUC by %s; those that decide weights: %s",
			(f.Fitted.AUC - f.Free.AUC).signed(4), strings.Join(f.Binding, "; "))
	}
	p.line("NOTE  out of fold: %s", howFolded(f.Folds, f.ByLetters))
	var rows [][]string
	for _, v := range []namedFigures{{"before", f.Before}, {"without the lineup's limits", f.Free},
		{"fitted", f.Fitted}, {"out of fold", f.OutOfFold}} {
		review, block := v.Bands.Review, v.Bands.Block
		rows = append(rows, []string{v.Name, v.AUC.fixed(4), v.AUCInterval.fixed(3), v.Recall1.fixed(4),
			v.Recall01.fixed(4), count(review.FalsePositives), review.FPR.percent(2), review.FPRInterval.percent(2),
			count(block.FalsePositives), block.FPR.percent(2), block.FPRInterval.percent(2), review.Recall.percent(1),
			block.Recall.percent(1)})
	}
	p.table("lrlrrrrlrrlrr", []string{"", "AUC", "95%", "RECALL@1%", "RECALL@0.1%", "BENIGN FROM REVIEW", "", "95%",
		"BLOCKED", "", "95%", "FRAUD FROM REVIEW", "BLOCKED"}, rows)
}

// page builds a text.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// table writes an empty line, then rows in columns, aligned left (l) or right (r).
func (p *page) table(align string, header []string, rows [][]string) {
	p.line("")
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range append([][]string{header}, rows...) {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if align[i] == 'r' {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString(cell + "  ")
		}
		p.line("%s", strings.TrimRight(b.String(), " "))
	}
}

func (n Number) fixed(digits int) string {
	if !n.Defined() {
		return "-"
	}
	return strconv.FormatFloat(float64(n), 'f', digits, 64)
}

func (n Number) signed(digits int) string {
	if !n.Defined() {
		return "-"
	}
	text := fmt.Sprintf("%+.*f", digits, float64(n))
	if strings.Trim(text, "-0.") == "" { // rounded to zero
		return "+" + text[1:]
	}
	return text
}

func (n Number) percent(digits int) string {
	if !n.Defined() {
		return "-"
	}
	return strconv.FormatFloat(100*float64(n), 'f', digits, 64) + "%"
}

// format formats the bounds of an interval, if both are defined.
func (i Interval) format(bound func(n Number, digits int) string, digits int) string {
	if !i[0].Defined() || !i[1].Defined() {
		return "-"
	}
	return strings.TrimSuffix(bound(i[0], digits), "%") + " to " + bound(i[1], digits)
}

func (i Interval) fixed(digits int) string { return i.format(Number.fixed, digits) }

func (i Interval) percent(digits int) string { return i.format(Number.percent, digits) }

// count formats a number with thousands separators.
func count(n int) string { return plot.Thousands(strconv.Itoa(n)) }

// printable quotes s if it contains characters that are unsafe to print.
func printable(s string) string {
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}
