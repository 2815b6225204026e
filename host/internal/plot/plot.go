// Package plot draws charts as inline SVG: lines, bars, dots and axes. It sets no colours: the page's style sheet does,
// by class, so that charts follow light and dark mode. The caller decides what to chart.
package plot

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Point is a pair of an x and a y value.
type Point [2]float64

// Scale maps values to 0..1 across an axis.
type Scale func(float64) float64

// Linear returns a scale that maps from to 0 and to to 1.
func Linear(from, to float64) Scale {
	return func(v float64) float64 { return (v - from) / (to - from) }
}

// Logarithmic returns a logarithmic scale that maps from to 0 and to to 1. Values below from are mapped to 0.
func Logarithmic(from, to float64) Scale {
	return func(v float64) float64 { return math.Log(max(v, from)/from) / math.Log(to/from) }
}

// Plot is an SVG drawing under construction. Its frame is the area in which values are placed. Lengths and positions
// are in units of the drawing's view box, with y pointing down, except where a method takes values.
type Plot struct {
	Left, Right, Top, Bottom float64 // the frame; change it before calling Axes

	svg    strings.Builder
	height float64
	x, y   func(float64) float64
}

// New returns an empty plot. Screen readers announce the label in place of the drawing.
func New(label string, width, height float64) *Plot {
	p := &Plot{Left: 60, Right: width - 22, Top: 12, Bottom: height - 44, height: height}
	p.draw(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(label))
	return p
}

// Axes sets the scales of the frame, from left to right and from bottom to top.
func (p *Plot) Axes(x, y Scale) {
	left, right, top, bottom := p.Left, p.Right, p.Top, p.Bottom
	p.x = func(v float64) float64 { return left + x(v)*(right-left) }
	p.y = func(v float64) float64 { return bottom - y(v)*(bottom-top) }
}

// X returns the position of an x value.
func (p *Plot) X(v float64) float64 { return p.x(v) }

// Y returns the position of a y value.
func (p *Plot) Y(v float64) float64 { return p.y(v) }

func (p *Plot) draw(format string, args ...any) { fmt.Fprintf(&p.svg, format, args...) }

// Text writes a text at a position. The anchor is start, middle or end.
func (p *Plot) Text(class, anchor string, x, y float64, text string) {
	p.draw(`<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y,
		html.EscapeString(text))
}

// TickX marks an x value with a vertical grid line and a label below the frame.
func (p *Plot) TickX(v float64, label string) {
	p.draw(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, p.x(v), p.x(v), p.Top, p.Bottom)
	p.LabelTickX(v, label)
}

// LabelTickX writes the label of an x value below the frame, without a grid line.
func (p *Plot) LabelTickX(v float64, label string) {
	p.Text("tick", "middle", p.x(v), p.Bottom+16, label)
}

// TickY marks a y value with a horizontal grid line and a label left of the frame.
func (p *Plot) TickY(v float64, label string) {
	p.draw(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, p.Left, p.Right, p.y(v), p.y(v))
	p.Text("tick", "end", p.Left-6, p.y(v)+4, label)
}

// LabelX writes the title of the x axis.
func (p *Plot) LabelX(text string) { p.Text("axis", "middle", (p.Left+p.Right)/2, p.height-8, text) }

// Line draws a line through values.
func (p *Plot) Line(class string, points []Point) {
	p.draw(`<polyline class="%s" points="`, class)
	for _, v := range points {
		p.draw("%.1f,%.1f ", p.x(v[0]), p.y(v[1]))
	}
	p.draw(`"/>`)
}

// Dot draws a circle around a value. The tooltip appears when a mouse points at it.
func (p *Plot) Dot(class string, at Point, radius float64, tooltip string) {
	p.draw(`<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s</title></circle>`, class, p.x(at[0]), p.y(at[1]),
		radius, html.EscapeString(tooltip))
}

// Bar draws a rectangle between two opposite corners. The tooltip appears when a mouse points at it.
func (p *Plot) Bar(class string, a, b Point, tooltip string) {
	left, right := min(p.x(a[0]), p.x(b[0])), max(p.x(a[0]), p.x(b[0]))
	top, bottom := min(p.y(a[1]), p.y(b[1])), max(p.y(a[1]), p.y(b[1]))
	p.draw(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`, class, left, top,
		right-left, bottom-top, html.EscapeString(tooltip))
}

// HTML returns the finished drawing.
func (p *Plot) HTML() template.HTML {
	return template.HTML(p.svg.String() + `</svg>`) //nolint:gosec // every text was escaped when it was drawn
}
