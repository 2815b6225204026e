package eval

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// plot is an SVG drawing under construction: a frame with axes, in which values are placed by x and y. Colours come
// from the page's style, by class, so that it looks right in light and dark.
type plot struct {
	strings.Builder
	left, right, top, bottom float64 // the frame, in the drawing's units
	x, y                     func(float64) float64
}

const (
	plotWidth  = 440.0
	plotHeight = 300.0
)

func newPlot(title string) *plot {
	p := &plot{left: 60, right: plotWidth - 22, top: 12, bottom: plotHeight - 44}
	p.draw(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(title))
	return p
}

// axes sets the scales; both run from 0 to 1 across the frame.
func (p *plot) axes(x, y func(float64) float64) {
	p.x = func(v float64) float64 { return p.left + x(v)*(p.right-p.left) }
	p.y = func(v float64) float64 { return p.bottom - y(v)*(p.bottom-p.top) }
}

func (p *plot) draw(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *plot) text(class, anchor string, x, y float64, s string) {
	p.draw(`<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y, html.EscapeString(s))
}

// tickX marks a value on the horizontal axis with a line up and a label.
func (p *plot) tickX(v float64, label string) {
	p.draw(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, p.x(v), p.x(v), p.top, p.bottom)
	p.text("tick", "middle", p.x(v), p.bottom+16, label)
}

func (p *plot) tickY(v float64, label string) {
	p.draw(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, p.left, p.right, p.y(v), p.y(v))
	p.text("tick", "end", p.left-6, p.y(v)+4, label)
}

func (p *plot) labelX(s string) { p.text("axis", "middle", (p.left+p.right)/2, plotHeight-8, s) }

// line draws a path through points.
func (p *plot) line(class string, points [][2]float64) {
	p.draw(`<polyline class="%s" points="`, class)
	for _, v := range points {
		p.draw("%.1f,%.1f ", p.x(v[0]), p.y(v[1]))
	}
	p.draw(`"/>`)
}

// dot draws a circle that tells its meaning when pointed at.
func (p *plot) dot(class string, x, y, radius float64, means string) {
	p.draw(`<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s</title></circle>`, class, p.x(x), p.y(y), radius,
		html.EscapeString(means))
}

// bar draws a rectangle between two corners.
func (p *plot) bar(class string, x1, y1, x2, y2 float64, means string) {
	left, right, top, bottom := min(p.x(x1), p.x(x2)), max(p.x(x1), p.x(x2)), min(p.y(y1), p.y(y2)),
		max(p.y(y1), p.y(y2))
	p.draw(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`, class, left, top,
		right-left, bottom-top, html.EscapeString(means))
}

func (p *plot) end() template.HTML {
	p.draw(`</svg>`)
	return template.HTML(p.String()) //nolint:gosec // every text in it was escaped as it was drawn
}

func linear(from, to float64) func(float64) float64 {
	return func(v float64) float64 { return (v - from) / (to - from) }
}

// logarithmic is a scale of powers of ten; what lies below from is put there.
func logarithmic(from, to float64) func(float64) float64 {
	return func(v float64) float64 { return math.Log(max(v, from)/from) / math.Log(to/from) }
}

// rocPlot is the ROC curve with false positives on a logarithmic axis: only its left end is of use.
func (r *TypeReport) rocPlot() template.HTML {
	const least = 1e-4
	p := newPlot("Recall by share of false positives")
	p.axes(logarithmic(least, 1), linear(0, 1))
	for _, v := range []float64{0.0001, 0.001, 0.01, 0.1, 1} {
		p.tickX(v, Number(v*100).short()+"%")
	}
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		p.tickY(v, Number(v*100).short()+"%")
	}
	p.labelX("false positives (log scale)")
	var chance, points [][2]float64
	for e := -40.0; e <= 0; e++ {
		chance = append(chance, [2]float64{math.Pow(10, e/10), math.Pow(10, e/10)})
	}
	p.line("chance", chance)
	for i, v := range r.curve.Points() {
		if i > 0 { // a step first to the right, then up: between two thresholds there is nothing to choose
			points = append(points, [2]float64{v.FPR, points[len(points)-1][1]})
		}
		points = append(points, [2]float64{v.FPR, v.Recall})
	}
	p.line("curve", points)
	review, block := r.bands()[1], r.bands()[2]
	if p.overlap(review, block) {
		p.markBand(review, "")
		p.markBand(block, "review and block")
	} else {
		p.markBand(review, "review")
		p.markBand(block, "block")
	}
	return p.end()
}

// markBand puts a dot where calling everything from a band on malicious leads, and its name below.
func (p *plot) markBand(b namedBand, name string) {
	p.dot("mark", float64(b.FPR), float64(b.Recall), 5, fmt.Sprintf("%s from %d: %s of the fraud, %s of the benign",
		b.Name, b.From, b.Recall.percent(1), b.FPR.percent(2)))
	p.text("note", "start", p.x(float64(b.FPR))+7, p.y(float64(b.Recall))+16, name)
}

// overlap says whether the names of two bands would be written over each other.
func (p *plot) overlap(a, b namedBand) bool {
	const wide, high = 50, 14 // of a name, in the drawing's units
	return math.Abs(p.x(float64(a.FPR))-p.x(float64(b.FPR))) < wide &&
		math.Abs(p.y(float64(a.Recall))-p.y(float64(b.Recall))) < high
}

// histogramPlot shows how many benign rows (up) and malicious rows (down) have each score, on a logarithmic scale.
func (r *TypeReport) histogramPlot(reviewFrom, blockFrom int) template.HTML {
	const width = 5 // scores in a bar, so that none lies on both sides of a usual band's edge; the last has 100 too
	p := newPlot("Rows by score")
	var benign, malicious [100/width + 1]int
	most := 1
	for score := range r.Histogram.Benign {
		i := min(score/width, 100/width-1)
		benign[i] += r.Histogram.Benign[score]
		malicious[i] += r.Histogram.Malicious[score]
		most = max(most, benign[i], malicious[i])
	}
	decades := math.Ceil(math.Log10(float64(most) + 1))
	height := func(n int) float64 { return math.Log10(float64(n) + 1) }
	p.axes(linear(0, 100), linear(-decades, decades))
	for d := 1.0; d <= decades; d++ {
		label := count(int(math.Pow(10, d)))
		p.tickY(d, label)
		p.tickY(-d, label)
	}
	for _, v := range []float64{0, 20, 40, 60, 80, 100} {
		p.tickX(v, fmt.Sprint(v))
	}
	p.labelX("score")
	for i := range 100 / width {
		from, to := float64(i*width), float64((i+1)*width)
		last := (i+1)*width - 1
		if i == 100/width-1 {
			last = 100
		}
		scores := fmt.Sprintf("%d to %d", i*width, last)
		if benign[i] > 0 {
			p.bar("benign", from+.3, 0, to-.3, height(benign[i]),
				fmt.Sprintf("%s: %s benign", scores, count(benign[i])))
		}
		if malicious[i] > 0 {
			p.bar("malicious", from+.3, 0, to-.3, -height(malicious[i]), fmt.Sprintf("%s: %s malicious", scores,
				count(malicious[i])))
		}
	}
	for _, v := range []int{reviewFrom, blockFrom} {
		p.line("band", [][2]float64{{float64(v), -decades}, {float64(v), decades}})
	}
	p.text("note", "start", p.x(float64(reviewFrom))+4, p.top+12, "review")
	p.text("note", "start", p.x(float64(blockFrom))+4, p.top+12, "block")
	return p.end()
}

// reliabilityPlot shows what scores say against what was found; the larger a dot, the more rows.
func (r *TypeReport) reliabilityPlot() template.HTML {
	p := newPlot("What scores say against what was found")
	p.axes(linear(0, 1), linear(0, 1))
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		p.tickX(v, Number(v*100).short()+"%")
		p.tickY(v, Number(v*100).short()+"%")
	}
	p.labelX("chance of fraud that the score says")
	p.line("chance", [][2]float64{{0, 0}, {1, 1}})
	var path [][2]float64
	for _, b := range r.Calibration.Bins {
		if b.N > 0 {
			path = append(path, [2]float64{float64(b.Predicted), float64(b.Observed)})
		}
	}
	p.line("curve thin", path)
	for _, b := range r.Calibration.Bins {
		if b.N > 0 {
			p.dot("mark", float64(b.Predicted), float64(b.Observed), 3+6*math.Sqrt(float64(b.N)/float64(r.N)),
				fmt.Sprintf("scores %d to %d: %s rows, %s said, %s found", b.From, b.To, count(b.N),
					b.Predicted.percent(1), b.Observed.percent(1)))
		}
	}
	return p.end()
}

// layersPlot shows each layer's recall at 1% false positives alone, and what the lineup loses without it.
func (r *TypeReport) layersPlot() template.HTML {
	p := newPlot("Recall at 1% false positives, by layer")
	p.left = 90
	n := float64(len(r.Layers))
	most := 0.05
	for _, l := range r.Layers {
		for _, v := range []Number{l.Recall1, r.Recall1 - l.Without.Recall1} {
			if v.Defined() {
				most = max(most, float64(v))
			}
		}
	}
	most = min(1, math.Ceil(most*10)/10)
	p.axes(linear(0, most), linear(n, 0))
	for i := range 6 {
		v := most * float64(i) / 5
		p.tickX(v, Number(v*100).short()+"%")
	}
	p.labelX("recall at 1% false positives")
	thick := min(0.3, 26*n/(p.bottom-p.top)) // of a layer's band, that a bar takes
	for i, l := range r.Layers {
		middle := float64(i) + 0.5
		p.text("tick", "end", p.left-8, p.y(middle)+4, l.Name)
		if l.Recall1.Defined() {
			p.bar("curve-fill", 0, middle-thick, float64(l.Recall1), middle,
				fmt.Sprintf("%s alone: %s", l.Name, l.Recall1.percent(1)))
		}
		if adds := r.Recall1 - l.Without.Recall1; adds.Defined() {
			p.bar("added", 0, middle, max(0, float64(adds)), middle+thick,
				fmt.Sprintf("%s adds: %s", l.Name, adds.percent(1)))
		}
	}
	return p.end()
}

// short writes a number with as few digits as it needs.
func (n Number) short() string { return fmt.Sprintf("%.4g", float64(n)) }
