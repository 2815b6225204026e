package eval

import (
	"fmt"
	"html/template"
	"math"

	"assay/host/internal/plot"
)

func newPlot(label string) *plot.Plot { return plot.New(label, 440, 300) }

// ROCPlot draws the ROC curve, and marks the bands on it.
func (r *TypeReport) ROCPlot() template.HTML {
	p := newROCPlot()
	p.Line("curve", rocPoints(r.curve))
	review, block := r.bands()[1], r.bands()[2]
	if overlap(p, review, block) {
		markBand(p, review, "")
		markBand(p, block, "review and block")
	} else {
		markBand(p, review, "review")
		markBand(p, block, "block")
	}
	return p.HTML()
}

// newROCPlot returns a plot for ROC curves. False positives are on a logarithmic axis, because only small shares of
// them are usable in practice.
func newROCPlot() *plot.Plot {
	const least = 1e-4
	p := newPlot("Recall by share of false positives")
	p.Axes(plot.Logarithmic(least, 1), plot.Linear(0, 1))
	for _, v := range []float64{0.0001, 0.001, 0.01, 0.1, 1} {
		p.TickX(v, Number(v*100).short()+"%")
	}
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		p.TickY(v, Number(v*100).short()+"%")
	}
	p.LabelX("false positives (log scale)")
	var chance []plot.Point
	for e := -40.0; e <= 0; e++ {
		chance = append(chance, plot.Point{math.Pow(10, e/10), math.Pow(10, e/10)})
	}
	p.Line("chance", chance)
	return p
}

// rocPoints returns the points of a curve as steps to the right, then up: no threshold lies between two points.
func rocPoints(c *Curve) []plot.Point {
	var points []plot.Point
	for i, v := range c.Points() {
		if i > 0 {
			points = append(points, plot.Point{v.FPR, points[len(points)-1][1]})
		}
		points = append(points, plot.Point{v.FPR, v.Recall})
	}
	return points
}

// markBand marks the recall and the false positives of treating a band and all above it as malicious.
func markBand(p *plot.Plot, b namedBand, name string) {
	p.Dot("mark", plot.Point{float64(b.FPR), float64(b.Recall)}, 5,
		fmt.Sprintf("%s from %d: %s of the fraud, %s of the benign",
			b.Name, b.From, b.Recall.percent(1), b.FPR.percent(2)))
	p.Text("note", "start", p.X(float64(b.FPR))+7, p.Y(float64(b.Recall))+16, name)
}

// overlap reports whether the names of two bands would overlap.
func overlap(p *plot.Plot, a, b namedBand) bool {
	const wide, high = 50, 14 // of a name, in the units of the drawing
	return math.Abs(p.X(float64(a.FPR))-p.X(float64(b.FPR))) < wide &&
		math.Abs(p.Y(float64(a.Recall))-p.Y(float64(b.Recall))) < high
}

// HistogramPlot draws how many benign rows (up) and malicious rows (down) have each score, on a logarithmic scale.
func (r *TypeReport) HistogramPlot(reviewFrom, blockFrom int) template.HTML {
	const width = 5 // scores in a bar: the default bands begin at multiples of it. The last bar also has 100.
	p := newPlot("Rows by score")
	var benign, malicious [100/width + 1]int
	largest := 1
	for score := range r.Histogram.Benign {
		i := min(score/width, 100/width-1)
		benign[i] += r.Histogram.Benign[score]
		malicious[i] += r.Histogram.Malicious[score]
		largest = max(largest, benign[i], malicious[i])
	}
	decades := math.Ceil(math.Log10(float64(largest) + 1))
	height := func(n int) float64 { return math.Log10(float64(n) + 1) }
	p.Axes(plot.Linear(0, 100), plot.Linear(-decades, decades))
	for d := 1.0; d <= decades; d++ {
		label := count(int(math.Pow(10, d)))
		p.TickY(d, label)
		p.TickY(-d, label)
	}
	for _, v := range []float64{0, 20, 40, 60, 80, 100} {
		p.TickX(v, fmt.Sprint(v))
	}
	p.LabelX("score")
	for i := range 100 / width {
		from, to := float64(i*width), float64((i+1)*width)
		last := (i+1)*width - 1
		if i == 100/width-1 {
			last = 100
		}
		scores := fmt.Sprintf("%d to %d", i*width, last)
		if benign[i] > 0 {
			p.Bar("benign", plot.Point{from + .3, 0}, plot.Point{to - .3, height(benign[i])},
				fmt.Sprintf("%s: %s benign", scores, count(benign[i])))
		}
		if malicious[i] > 0 {
			p.Bar("malicious", plot.Point{from + .3, 0}, plot.Point{to - .3, -height(malicious[i])},
				fmt.Sprintf("%s: %s malicious", scores, count(malicious[i])))
		}
	}
	for _, v := range []int{reviewFrom, blockFrom} {
		p.Line("band", []plot.Point{{float64(v), -decades}, {float64(v), decades}})
	}
	p.Text("note", "start", p.X(float64(reviewFrom))+4, p.Top+12, "review")
	p.Text("note", "start", p.X(float64(blockFrom))+4, p.Top+12, "block")
	return p.HTML()
}

// ReliabilityPlot draws the predicted against the observed share of fraud. Larger dots stand for more rows.
func (r *TypeReport) ReliabilityPlot() template.HTML {
	p := newPlot("What scores say against what was found")
	p.Axes(plot.Linear(0, 1), plot.Linear(0, 1))
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		p.TickX(v, Number(v*100).short()+"%")
		p.TickY(v, Number(v*100).short()+"%")
	}
	p.LabelX("chance of fraud that the score says")
	p.Line("chance", []plot.Point{{0, 0}, {1, 1}})
	var path []plot.Point
	for _, b := range r.Calibration.Bins {
		if b.N > 0 {
			path = append(path, plot.Point{float64(b.Predicted), float64(b.Observed)})
		}
	}
	p.Line("curve thin", path)
	for _, b := range r.Calibration.Bins {
		if b.N > 0 {
			p.Dot("mark", plot.Point{float64(b.Predicted), float64(b.Observed)},
				3+6*math.Sqrt(float64(b.N)/float64(r.N)),
				fmt.Sprintf("scores %d to %d: %s rows, %s said, %s found", b.From, b.To, count(b.N),
					b.Predicted.percent(1), b.Observed.percent(1)))
		}
	}
	return p.HTML()
}

// LayersPlot draws the recall at 1% false positives of each layer alone, and the recall that the lineup loses without
// it.
func (r *TypeReport) LayersPlot() template.HTML {
	p := newPlot("Recall at 1% false positives, by layer")
	p.Left = 90
	n := float64(len(r.Layers))
	largest := 0.05
	for _, l := range r.Layers {
		for _, v := range []Number{l.Recall1, r.Recall1 - l.Without.Recall1} {
			if v.Defined() {
				largest = max(largest, float64(v))
			}
		}
	}
	largest = min(1, math.Ceil(largest*10)/10)
	p.Axes(plot.Linear(0, largest), plot.Linear(n, 0))
	for i := range 6 {
		v := largest * float64(i) / 5
		p.TickX(v, Number(v*100).short()+"%")
	}
	p.LabelX("recall at 1% false positives")
	thick := min(0.3, 26*n/(p.Bottom-p.Top)) // of a bar, as a share of the height of a layer's row
	for i, l := range r.Layers {
		middle := float64(i) + 0.5
		p.Text("tick", "end", p.Left-8, p.Y(middle)+4, l.Name)
		if l.Recall1.Defined() {
			p.Bar("curve-fill", plot.Point{0, middle - thick}, plot.Point{float64(l.Recall1), middle},
				fmt.Sprintf("%s alone: %s", l.Name, l.Recall1.percent(1)))
		}
		if adds := r.Recall1 - l.Without.Recall1; adds.Defined() {
			p.Bar("added", plot.Point{0, middle}, plot.Point{max(0, float64(adds)), middle + thick},
				fmt.Sprintf("%s adds: %s", l.Name, adds.percent(1)))
		}
	}
	return p.HTML()
}

// short formats a number with at most four digits.
func (n Number) short() string { return fmt.Sprintf("%.4g", float64(n)) }
