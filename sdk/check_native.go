//go:build !wasip1

package sdk

import "fmt"

// Check is one call: the facts to read and the answer to build.
type Check struct {
	facts  Facts
	result Result
	logged int // bytes, with a line end each
}

// Register is for guests, where it makes layer the one that assay_v1_score runs; natively tests call Run.
func Register(Layer) {}

// Facts holds what is known of an entity, by dotted name (ABI.md section 7).
type Facts map[string]string

// Signal is one reason.
type Signal struct {
	Points int    `json:"points"` // -100 to 100
	Code   string `json:"code"`
	Text   string `json:"text"`
}

// Result is what a layer made of one call when run natively.
type Result struct {
	Outcome Outcome
	Score   int // 0 to 100; 0 unless the layer scored and nothing is refused
	Signals []Signal
	Threat  Threat // "" when the layer named none
	Log     []string
	Read    []string // the facts asked for, in order, known or not
	Refused error    // why a host would refuse the answer; nil when it would not
}

// Run calls layer natively, as the host would call it sandboxed, and reports what it did. A layer's tests call it.
func Run(layer Layer, facts Facts) Result {
	c := &Check{facts: facts}
	c.result.Outcome = layer(c)
	if c.result.Outcome != Scored || c.result.Refused != nil {
		return c.result
	}
	sum := 0
	for _, s := range c.result.Signals {
		sum += s.Points
	}
	c.result.Score = min(max(sum, 0), 100)
	return c.result
}

// Fact returns the named fact and whether it is known. A fact that the manifest does not declare is never known.
func (c *Check) Fact(name string) (value string, known bool) {
	c.result.Read = append(c.result.Read, name)
	if len(name) > MaxFactName {
		return "", false
	}
	value, known = c.facts[name]
	return value, known
}

// Signal gives one reason: points from -100 (reassuring) to 100 (alarming), a code of the manifest, and a sentence that
// names the evidence. The layer's score is the sum of its points, held to 0..100.
func (c *Check) Signal(points int, code, text string) {
	c.refuse(ValidCode(code))
	c.refuse(ValidText(text))
	if points < -MaxPoints || points > MaxPoints {
		c.refuse(fmt.Errorf("signal %s is worth %d points, outside -%d to %d", code, points, MaxPoints, MaxPoints))
	}
	if len(c.result.Signals) == MaxSignals {
		c.refuse(fmt.Errorf("more than %d signals", MaxSignals))
		return
	}
	c.result.Signals = append(c.result.Signals, Signal{points, code, text})
}

// Threat names the category of fraud that this layer sees; the last call counts.
func (c *Check) Threat(t Threat) {
	for _, known := range Threats() {
		if t == known {
			c.result.Threat = t
			return
		}
	}
	c.refuse(fmt.Errorf("threat %q is not on the published list", t))
}

// Log writes a line for the layer's author. It is bounded and never shown to customers.
func (c *Check) Log(_ Level, text string) {
	if room := LogBytes - c.logged; room > 0 {
		c.result.Log = append(c.result.Log, text[:min(room, len(text))])
		c.logged += len(text) + 1
	}
}

func (c *Check) refuse(err error) {
	if c.result.Refused == nil {
		c.result.Refused = err
	}
}
