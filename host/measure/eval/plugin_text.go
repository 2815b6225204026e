package eval

import (
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WriteText writes the report as plain text.
func (r *PluginReport) WriteText(out io.Writer) error {
	p := &page{}
	p.line("%s with %s rows of %s, next to %s, %s, in %s s", r.Plugin, count(r.Rows), strings.Join(r.Files, ", "),
		r.Lineup.Name(), lookupsText(r.Lookups), r.Seconds.fixed(1))
	for _, note := range r.Notes() {
		p.line("NOTE  %s", note)
	}
	for _, t := range r.Types {
		t.write(p)
	}
	_, err := out.Write(p.Bytes())
	return err
}

// Notes returns remarks that a reader needs to understand the figures.
func (r *PluginReport) Notes() []string {
	var notes []string
	if r.Skipped > 0 {
		notes = append(notes, count(r.Skipped)+" invalid lines are skipped")
	}
	if r.Others > 0 {
		notes = append(notes, count(r.Others)+" rows of types that the layer does not score are left out")
	}
	if r.Replaced != "" {
		notes = append(notes, fmt.Sprintf("the lineup has %s, whose place and settings the plugin takes", r.Replaced))
	}
	return append(notes, r.Warnings...)
}

func (r *PluginType) write(p *page) {
	p.line("\n%s: %s rows, %s malicious, %s benign", strings.ToUpper(string(r.Type)), count(r.N), count(r.Positives),
		count(r.N-r.Positives))
	p.line("The layer scores %s malicious rows (%s) and %s benign rows (%s). Its weight, fitted to the lineup as it "+
		"is: %.2f.",
		count(r.Malicious.Count), r.Malicious.Share.percent(1), count(r.Benign.Count), r.Benign.Share.percent(2),
		r.Weight)
	p.line("The lineup's scores are out of fold: %s.", howFolded(r.Folds, r.ByLetters))
	var rows [][]string
	for _, v := range r.compared() {
		row := []string{v.Name, v.AUC.fixed(4), v.AUCInterval.fixed(4), v.Recall1.percent(1), v.Interval1.percent(1),
			v.Recall01.percent(1), v.Interval01.percent(1)}
		if b := v.Bands; b != nil {
			row = append(row, b.Review.Recall.percent(1), b.Review.FPR.percent(2), b.Block.Recall.percent(1),
				b.Block.FPR.percent(2))
		}
		rows = append(rows, row)
	}
	p.table("lrlrlrlrrrr", []string{"", "AUC", "95%", "RECALL@1%", "95%", "RECALL@0.1%", "95%", "FRAUD FROM REVIEW",
		"BENIGN", "FRAUD BLOCKED", "BENIGN"}, rows)
	auc, recall := r.AUCGain, r.Recall1
	p.table("lrll", []string{"WHAT THE LAYER ADDS", "GAIN", "95%", ""}, [][]string{
		{"AUC", auc.Value.signed(4), auc.Interval.signed(4), auc.Means()},
		{"points of recall at 1% false positives", recall.Value.points(), recall.Interval.points(), recall.Means()},
	})
	rows = nil
	for _, s := range r.Signals {
		rows = append(rows, []string{s.Code, count(s.Malicious.Count), s.Malicious.Share.percent(2),
			count(s.Benign.Count), s.Benign.Share.percent(2), s.Benign.Interval.percent(2)})
	}
	p.tableIfAny("lrrrrl", []string{"SIGNAL", "MALICIOUS", "", "BENIGN", "", "95%"}, rows)
	rows = nil
	for _, o := range r.Repeats {
		rows = append(rows, []string{o.Layer, o.Correlation.signed(2), o.SameLabel.signed(2), o.Also.Share.percent(1)})
	}
	p.tableIfAny("lrrr", []string{"LAYER IT MAY REPEAT", "CORRELATION", "WITHIN A LABEL", "ALSO SCORES"}, rows)
	for _, g := range []struct {
		what   string
		groups []PluginGroup
	}{{"SOURCE", r.Sources}, {"SUFFIX", r.Suffixes}} {
		for _, malicious := range []bool{true, false} {
			what := "BENIGN " + g.what
			if malicious {
				what = "MALICIOUS " + g.what
			}
			rows = nil
			for _, g := range onlyLabel(malicious, g.groups) {
				rows = append(rows, []string{printable(g.Name), count(g.Spoke.N), g.Spoke.Share.percent(1),
					g.MeanScore.fixed(1), g.Without.percent(1), g.With.percent(1), (g.With - g.Without).points()})
			}
			p.tableIfAny("lrrrrrr", []string{what, "ROWS", "SCORED", "MEAN SCORE", "FLAGGED@1% WITHOUT", "WITH",
				"CHANGE"}, rows)
		}
	}
	writeExamples(p, "Benign, scored highest by the layer:", r.Errors.Benign)
	writeExamples(p, "Malicious, scored lowest by the layer:", r.Errors.Malicious)
}

// tableIfAny prints a table if there are rows for it.
func (p *page) tableIfAny(align string, header []string, rows [][]string) {
	if len(rows) > 0 {
		p.table(align, header, rows)
	}
}

type namedFigures struct {
	Name string
	Figures
}

// compared returns the figures of the layer alone, and of the lineup without and with it.
func (r *PluginType) compared() []namedFigures {
	return []namedFigures{{"the layer alone", r.Alone}, {"the lineup without it", r.Without},
		{"the lineup with it", r.With}}
}

// howFolded says which rows were held out together.
func howFolded(folds int, byLetters []string) string {
	how := fmt.Sprintf("%d folds, each by its source, without rows that share the first six letters", folds)
	if len(byLetters) > 0 {
		how += "; by the first six letters alone: " + printable(strings.Join(byLetters, ", "))
	}
	return how
}

// Means says what a gain means.
func (g Gain) Means() string {
	switch {
	case !g.Interval[0].Defined():
		return "too few rows to tell"
	case g.Noise:
		return "within noise"
	case g.Value < 0:
		return "a loss"
	}
	return "a gain"
}

// signed formats an interval of differences.
func (i Interval) signed(digits int) string { return i.format(Number.signed, digits) }

// points formats a difference of shares in percentage points.
func (n Number) points() string { return (100 * n).signed(1) }

func (i Interval) points() string { return Interval{100 * i[0], 100 * i[1]}.signed(1) }

// onlyLabel returns the groups of one label.
func onlyLabel(malicious bool, groups []PluginGroup) []PluginGroup {
	return slices.DeleteFunc(slices.Clone(groups), func(g PluginGroup) bool { return g.Malicious != malicious })
}

func writeExamples(p *page, title string, examples []Example) {
	if len(examples) == 0 {
		return
	}
	p.line("\n%s", title)
	for _, e := range examples {
		p.line("\n  %3d  %s  %s  (lineup: %d)", e.Score, printable(e.Value), printable(e.Source), e.Lineup)
		for _, s := range e.Signals {
			p.line("         %+4d  %s  %s", s.Points, s.Code, s.Text)
		}
		for _, line := range e.Details() {
			p.line("       %s", line)
		}
	}
}

// Details returns a line for each fact that the plugin read, and what it logged.
func (c Called) Details() []string {
	var lines []string
	if c.Failure != "" {
		lines = append(lines, "failed: "+printable(c.Failure))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Facts)) {
		lines = append(lines, fmt.Sprintf("%s = %s", printable(name), strconv.Quote(c.Facts[name])))
	}
	if len(c.Absent) > 0 {
		lines = append(lines, "absent: "+printable(strings.Join(c.Absent, ", ")))
	}
	for _, text := range c.Log {
		lines = append(lines, "log: "+printable(text))
	}
	return lines
}

// ROCPlot draws the curves of the layer alone, and of the lineup without and with it.
func (r *PluginType) ROCPlot() template.HTML {
	p := newROCPlot()
	p.Line("curve alone", rocPoints(r.curves.alone))
	p.Line("curve without", rocPoints(r.curves.without))
	p.Line("curve", rocPoints(r.curves.with))
	return p.HTML()
}
