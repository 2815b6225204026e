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

//go:embed plugin.html
var pluginPage string

// titled is the argument of the pages' templates that write a list under a title, if there is anything to list.
type titled struct {
	Title string
	Items any // a slice
}

// WriteHTML writes the report as a self-contained page, without scripts, fonts or requests. Plots are inline SVG.
func (r *Report) WriteHTML(out io.Writer) error { return writePage(out, "report", r) }

// WriteHTML writes the report as a page like that of [Report.WriteHTML].
func (r *PluginReport) WriteHTML(out io.Writer) error { return writePage(out, "plugin", r) }

func writePage(out io.Writer, name string, report any) error {
	pages, err := template.New("report").Funcs(template.FuncMap{
		"count":     count,
		"fixed":     func(digits int, n interface{ fixed(int) string }) string { return n.fixed(digits) },
		"signed":    func(digits int, n interface{ signed(int) string }) string { return n.signed(digits) },
		"percent":   func(digits int, n interface{ percent(int) string }) string { return n.percent(digits) },
		"points":    func(n interface{ points() string }) string { return n.points() },
		"minus":     func(a, b Number) Number { return a - b },
		"weight":    func(w float64) string { return fmt.Sprintf("%.2f", w) },
		"upper":     func(s any) string { return strings.ToUpper(fmt.Sprint(s)) },
		"join":      func(s []string) string { return strings.Join(s, ", ") },
		"printable": printable,
		"breakable": breakable,
		"lookups":   lookupsText,
		"bands":     func(t *TypeReport) []namedBand { return t.bands() },
		"compared":  (*PluginType).compared,
		"folded":    howFolded,
		"benign":    func(t *TypeReport) int { return t.N - t.Positives },
		"only": func(malicious bool, groups []Group) []Group {
			return slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Malicious != malicious })
		},
		"labelled": onlyLabel,
		"titled":   func(title string, items any) titled { return titled{title, items} },
	}).Parse(reportPage)
	if err == nil {
		_, err = pages.New("plugin").Parse(pluginPage)
	}
	if err != nil {
		return err
	}
	return pages.ExecuteTemplate(out, name, report)
}

// breakable allows line breaks after the separators of a name, because names of sources are long.
func breakable(name string) template.HTML {
	escaped := template.HTMLEscapeString(printable(name))
	broken := strings.NewReplacer("_", "_<wbr>", ":", ":<wbr>").Replace(escaped)
	return template.HTML(broken) //nolint:gosec // escaped above
}
