//go:build !wasip1

package sdk

import (
	"fmt"
	"strings"
)

// Check is one call of a layer: the facts to read and the answer to build.
type Check struct {
	facts  Facts
	result Result
	logged int // bytes, including line ends
}

// Register sets the layer that assay_v1_score runs in a guest. Natively it does nothing; tests call Run.
func Register(Layer) {}

// Facts holds the known facts about an entity by their dotted names (ABI.md section 7).
type Facts map[string]string

// Signal is one reason for a score.
type Signal struct {
	Points int    `json:"points"` // -100 to 100
	Code   string `json:"code"`
	Text   string `json:"text"`
}

// Result is a layer's answer to one native call.
type Result struct {
	Outcome Outcome
	// Score is the sum of the points, -100 to 100; 0 unless the layer scored and the answer is accepted. A host also
	// limits it to the manifest's score_range.
	Score   int
	Signals []Signal
	Threat  Threat // "" if the layer named none
	Log     []string
	Read    []string // names of the facts that the layer read, in order, known or not
	Refused error    // why a host would refuse the answer; nil if it would accept it
}

// Run calls layer natively with the same limits as the sandbox, and returns its answer. Tests of layers call it.
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
	c.result.Score = min(max(sum, -MaxPoints), MaxPoints)
	return c.result
}

// Fact returns the named fact and whether it is known. Facts that the manifest does not declare are never known.
func (c *Check) Fact(name TextFact) (value string, known bool) {
	c.result.Read = append(c.result.Read, string(name))
	if len(name) > MaxFactName {
		return "", false
	}
	value, known = c.facts[string(name)]
	return value, known
}

// Has reports whether the named fact is known. In a guest it costs less than Fact.
func (c *Check) Has(name TextFact) bool {
	_, known := c.Fact(name)
	return known
}

// Join returns the concatenated parts of a signal's text. In a guest it costs less than the operator +, which allocates
// memory.
func Join(parts ...string) string { return strings.Join(parts, "") }

// Signal adds one reason: points from -100 (reassuring) to 100 (alarming), a code that the manifest declares, and a
// sentence that names the evidence. The layer's score is the sum of its points, limited to the manifest's score_range.
// The caller may overwrite text after the call.
func (c *Check) Signal(points int, code, text string) {
	c.refuse(ValidCode(code))
	text = CutText(text)
	c.refuse(ValidText(text))
	if points < -MaxPoints || points > MaxPoints {
		c.refuse(fmt.Errorf("signal %s is worth %d points, outside -%d to %d", code, points, MaxPoints, MaxPoints))
	}
	if len(c.result.Signals) == MaxSignals {
		c.refuse(fmt.Errorf("more than %d signals", MaxSignals))
		return
	}
	c.result.Signals = append(c.result.Signals, Signal{points, code, strings.Clone(text)})
}

// Threat names the category of fraud that this layer found. The last call counts.
func (c *Check) Threat(t Threat) {
	if !t.Published() {
		c.refuse(fmt.Errorf("threat %q is not on the published list", t))
		return
	}
	c.result.Threat = t
}

// Log writes a line for the layer's author, up to LogBytes a call. Customers never see it.
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
