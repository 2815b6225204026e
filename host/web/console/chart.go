package console

import (
	"fmt"
	"html/template"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/internal/plot"
)

// maxTicks limits the grid lines of a chart above zero.
const maxTicks = 5

// chart draws an account's checks as stacked bars in two sizes, because labels are unreadable in a drawing that is
// scaled down to a phone. The style sheet shows one of them. Labels are a week, 6 hours or 12 hours apart.
func chart(spans []decision.Span) template.HTML {
	return `<div class="large">` + drawChart(spans, 720, 230, 6) + `</div><div class="small">` +
		drawChart(spans, 320, 190, 12) + `</div>`
}

// drawChart draws one size. Labels of hourly bars are the given number of hours apart.
func drawChart(spans []decision.Span, width, height float64, hours int) template.HTML {
	highest := maxTicks
	for _, s := range spans {
		highest = max(highest, s.Checks())
	}
	unit, every, layout := spans[0].Unit, 7, "2 Jan"
	if unit == decision.Hourly {
		every, layout = hours, "15:04"
	}
	step := tickStep(highest)
	top := (highest + step - 1) / step * step
	p := plot.New("Checks by "+unit.Name+" and verdict; the table below has the same numbers", width, height)
	p.Left, p.Right, p.Top, p.Bottom = 16+11*float64(len(count(top))), width-6, 18, height-32
	p.Axes(plot.Linear(-0.5, float64(len(spans))-0.5), plot.Linear(0, float64(top)))
	for n := 0; n <= top; n += step {
		p.TickY(float64(n), count(n))
	}
	for i, s := range spans {
		if (len(spans)-1-i)%every == 3 { // clear of both ends, where a label would be cut off
			p.LabelTickX(float64(i), s.Start.UTC().Format(layout))
		}
		bottom := 0
		for _, part := range []struct {
			verdict check.Verdict
			n       int
		}{{check.Block, s.Block}, {check.Review, s.Review}, {check.Allow, s.Allow}} {
			if part.n == 0 {
				continue
			}
			p.Bar(string(part.verdict), plot.Point{float64(i) - 0.35, float64(bottom)},
				plot.Point{float64(i) + 0.35, float64(bottom + part.n)}, tooltip(s))
			bottom += part.n
		}
	}
	return p.HTML()
}

func tooltip(s decision.Span) string {
	return fmt.Sprintf("%s: %s allow, %s review, %s block", s, count(s.Allow), count(s.Review), count(s.Block))
}

// tickStep returns the smallest of 1, 2, 5, 10, 20, 50, ... that reaches highest in at most maxTicks steps.
func tickStep(highest int) int {
	for power := 1; ; power *= 10 {
		for _, step := range []int{power, 2 * power, 5 * power} {
			if step*maxTicks >= highest {
				return step
			}
		}
	}
}

// total sums the checks of all spans.
func total(spans []decision.Span) (sum decision.Span) {
	for _, s := range spans {
		sum.Allow += s.Allow
		sum.Review += s.Review
		sum.Block += s.Block
	}
	return sum
}
