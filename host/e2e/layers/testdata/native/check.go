// Package sdk, with this file in place of check_native.go, only runs the layer: it validates nothing and does not
// record which facts are read.
package sdk

import "strings"

// Check is one call.
type Check struct {
	facts  Facts
	result Result
}

// Register does nothing natively.
func Register(Layer) {}

// Facts holds the known facts about an entity, by dotted name.
type Facts map[string]string

// Signal is one reason for a score.
type Signal struct {
	Points int
	Code   string
	Text   string
}

// Result is a layer's answer to one call.
type Result struct {
	Outcome Outcome
	Points  int
	Signals []Signal
	Threat  Threat
}

// Run calls layer.
func Run(layer Layer, facts Facts) Result {
	c := &Check{facts: facts}
	c.result.Outcome = layer(c)
	return c.result
}

// Fact returns the named fact and whether it is known.
func (c *Check) Fact(name string) (value string, known bool) {
	value, known = c.facts[name]
	return value, known
}

// Has reports whether the named fact is known.
func (c *Check) Has(name string) bool {
	_, known := c.facts[name]
	return known
}

// Join returns the concatenated parts.
func Join(parts ...string) string { return strings.Join(parts, "") }

// Signal adds a reason.
func (c *Check) Signal(points int, code, text string) {
	c.result.Signals = append(c.result.Signals, Signal{points, code, text})
	c.result.Points += points
}

// Threat sets the category.
func (c *Check) Threat(t Threat) { c.result.Threat = t }

// Log drops its text.
func (c *Check) Log(Level, string) {}
