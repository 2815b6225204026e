package console

import (
	"fmt"
	"html/template"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/internal/plot"
)

// maxTicks limits the grid lines of a chart above zero.
const maxTicks = 5

// chart draws an account's checks a day as stacked bars, with a label a week: twice, because a drawing that is scaled
// down to a phone has unreadable labels. The style sheet shows one of them.
func chart(days []decision.Day) template.HTML {
	return `<div class="large">` + drawChart(days, 720, 230) + `</div><div class="small">` + drawChart(days, 320, 190) +
		`</div>`
}

func drawChart(days []decision.Day, width, height float64) template.HTML {
	highest := maxTicks
	for _, d := range days {
		highest = max(highest, d.Allow+d.Review+d.Block)
	}
	step := tickStep(highest)
	top := (highest + step - 1) / step * step
	p := plot.New("Checks a day by verdict; the table below has the same numbers", width, height)
	p.Left, p.Right, p.Top, p.Bottom = 16+11*float64(len(count(top))), width-6, 18, height-32
	p.Axes(plot.Linear(-0.5, float64(len(days))-0.5), plot.Linear(0, float64(top)))
	for n := 0; n <= top; n += step {
		p.TickY(float64(n), count(n))
	}
	for i, d := range days {
		if (len(days)-1-i)%7 == 3 { // clear of both ends, where a label would be cut off
			p.LabelTickX(float64(i), d.Date.UTC().Format("2 Jan"))
		}
		bottom := 0
		for _, part := range []struct {
			verdict check.Verdict
			n       int
		}{{check.Block, d.Block}, {check.Review, d.Review}, {check.Allow, d.Allow}} {
			if part.n == 0 {
				continue
			}
			p.Bar(string(part.verdict), plot.Point{float64(i) - 0.35, float64(bottom)},
				plot.Point{float64(i) + 0.35, float64(bottom + part.n)}, tooltip(d))
			bottom += part.n
		}
	}
	return p.HTML()
}

func tooltip(d decision.Day) string {
	return fmt.Sprintf("%s: %s allow, %s review, %s block", d.Date.UTC().Format(time.DateOnly), count(d.Allow),
		count(d.Review), count(d.Block))
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

// total sums the checks of all days.
func total(days []decision.Day) (sum decision.Day) {
	for _, d := range days {
		sum.Allow += d.Allow
		sum.Review += d.Review
		sum.Block += d.Block
	}
	return sum
}
