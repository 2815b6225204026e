package eval

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed report.html
var reportPage string

// Arguments of the page's templates.
type (
	titledGroups struct {
		Title  string
		Caught string // "caught" or "flagged", for rows at or above the threshold
		Groups []Group
	}
	titledMistakes struct {
		Title    string
		Mistakes []Mistake
	}
)

// WriteHTML writes the report as a self-contained page, without scripts, fonts or requests. Plots are inline SVG.
func (r *Report) WriteHTML(out io.Writer) error {
	page, err := template.New("report").Funcs(template.FuncMap{
		"count":     count,
		"fixed":     func(digits int, n Number) string { return n.fixed(digits) },
		"signed":    func(digits int, n Number) string { return n.signed(digits) },
		"percent":   func(digits int, n Number) string { return n.percent(digits) },
		"within":    func(digits int, i Interval) string { return i.percent(digits) },
		"between":   func(digits int, i Interval) string { return i.fixed(digits) },
		"minus":     func(a, b Number) Number { return a - b },
		"weight":    func(w float64) string { return fmt.Sprintf("%.2f", w) },
		"upper":     func(s any) string { return strings.ToUpper(fmt.Sprint(s)) },
		"join":      func(s []string) string { return strings.Join(s, ", ") },
		"printable": printable,
		"breakable": breakable,
		"bands":     func(t *TypeReport) []namedBand { return t.bands() },
		"benign":    func(t *TypeReport) int { return t.N - t.Positives },
		"origin":    Mistake.origin,
		"silent":    Mistake.hasNoSignals,
		"roc":       (*TypeReport).rocPlot,
		"histogram": func(t *TypeReport) template.HTML {
			return t.histogramPlot(r.Lineup.Bands.Review, r.Lineup.Bands.Block)
		},
		"reliability": (*TypeReport).reliabilityPlot,
		"layers":      (*TypeReport).layersPlot,
		"only": func(malicious bool, groups []Group) []Group {
			return slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Malicious != malicious })
		},
		"group": func(title, caught string, groups []Group) titledGroups {
			return titledGroups{title, caught, groups}
		},
		"mistakes": func(title string, mistakes []Mistake) titledMistakes { return titledMistakes{title, mistakes} },
	}).Parse(reportPage)
	if err != nil {
		return err
	}
	return page.Execute(out, r)
}

// breakable allows line breaks after the separators of a name, because names of sources are long.
func breakable(name string) template.HTML {
	escaped := template.HTMLEscapeString(printable(name))
	broken := strings.NewReplacer("_", "_<wbr>", ":", ":<wbr>").Replace(escaped)
	return template.HTML(broken) //nolint:gosec // escaped above
}
