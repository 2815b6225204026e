package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"assay/host/internal/plot"
	"assay/registry/expect"
)

func TestPlot(t *testing.T) {
	t.Parallel()
	p := plot.New("Rows by day", 300, 200)
	p.Left, p.Right, p.Top, p.Bottom = 100, 200, 10, 110
	p.Axes(plot.Linear(0, 10), plot.Linear(0, 100))
	p.TickX(5, "five")
	p.TickY(50, "fifty")
	p.Bar("allow", plot.Point{2, 0}, plot.Point{1, 20}, "20 rows")
	p.Line("curve", []plot.Point{{0, 0}, {10, 100}})
	p.Dot("mark", plot.Point{0, 100}, 3, "the largest")
	got := string(p.HTML())
	for _, want := range []string{
		`<svg viewBox="0 0 300 200" role="img" aria-label="Rows by day">`,
		`<line class="grid" x1="150.0" x2="150.0" y1="10.0" y2="110.0"/>`,
		`<text class="tick" text-anchor="middle" x="150.0" y="126.0">five</text>`,
		`<line class="grid" x1="100.0" x2="200.0" y1="60.0" y2="60.0"/>`,
		`<rect class="allow" x="110.0" y="90.0" width="10.0" height="20.0"><title>20 rows</title></rect>`,
		`<polyline class="curve" points="100.0,110.0 200.0,10.0 "/>`,
		`<circle class="mark" cx="100.0" cy="10.0" r="3.0"><title>the largest</title></circle>`,
	} {
		expect.That(t, strings.Contains(got, want), "the plot lacks %s:\n%s", want, got)
	}
}

func TestPlotEscapesTexts(t *testing.T) {
	t.Parallel()
	const hostile = `"><script>alert(1)</script>&`
	p := plot.New(hostile, 300, 200)
	p.Axes(plot.Linear(0, 1), plot.Linear(0, 1))
	p.TickX(0, hostile)
	p.LabelX(hostile)
	p.Dot("mark", plot.Point{0, 0}, 1, hostile)
	p.Bar("bar", plot.Point{0, 0}, plot.Point{1, 1}, hostile)
	got := string(p.HTML())
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		expect.Must(t, err == nil, "the plot is not well-formed: %v:\n%s", err, got)
		e, ok := token.(xml.StartElement)
		expect.Must(t, !ok || e.Name.Local != "script", "the plot contains a script:\n%s", got)
	}
}

func TestLogarithmic(t *testing.T) {
	t.Parallel()
	scale := plot.Logarithmic(0.001, 1)
	for v, want := range map[float64]float64{0: 0, 0.001: 0, 0.01: 1.0 / 3, 1: 1} {
		got := scale(v)
		expect.That(t, math.Abs(got-want) <= 1e-9, "the scale maps %g to %g, want %g", v, got, want)
	}
}
