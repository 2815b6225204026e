// Package sdk with this in the place of check_native.go does nothing beside the layer's own work: no text is checked
// and no fact that is read is written down.
package sdk

// Check is one call.
type Check struct {
	facts  Facts
	result Result
}

// Register does nothing natively.
func Register(Layer) {}

// Facts holds what is known of an entity, by dotted name.
type Facts map[string]string

// Signal is one reason.
type Signal struct {
	Points int
	Code   string
	Text   string
}

// Result is what a layer made of one call.
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

// Signal keeps a reason.
func (c *Check) Signal(points int, code, text string) {
	c.result.Signals = append(c.result.Signals, Signal{points, code, text})
	c.result.Points += points
}

// Threat keeps a category.
func (c *Check) Threat(t Threat) { c.result.Threat = t }

// Log drops its text.
func (c *Check) Log(Level, string) {}
