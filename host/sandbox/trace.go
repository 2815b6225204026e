package sandbox

import (
	"context"
	"slices"
	"time"

	"assay/host/check"
	"assay/registry"
	"assay/sdk"
)

// Trace is what a layer did in one call, for the layer's author.
type Trace struct {
	Facts   []FactRead     // in the order of the first reading
	Signals []check.Signal // also of an answer that was refused
	Log     []LogLine
	Printed string        // to standard output and standard error
	Dropped int           // bytes of log and output beyond sdk.LogBytes
	Fuel    int64         // burned, also by a call that failed
	Memory  int           // bytes of the guest's memory after the call
	Time    time.Duration // of the call

	began time.Time
}

// FactRead is a fact that a layer asked for.
type FactRead struct {
	Name     string `json:"name"`
	Value    string `json:"value,omitempty"`
	Known    bool   `json:"known"`
	Declared bool   `json:"declared"` // by the manifest; a fact that is not is never known
}

// LogLine is a line that a layer logged.
type LogLine struct {
	Level sdk.Level `json:"level"`
	Text  string    `json:"text"`
}

// Trace is Rehearse, and says what the layer did. The trace is complete if the call failed, too.
func (p *Plugin) Trace(ctx context.Context, facts check.Input) (check.Result, Trace, error) {
	var trace Trace
	result, _, err := p.score(ctx, facts, &trace)
	return result, trace, err
}

// read records that the layer asked for a fact.
func (t *Trace) read(m registry.Manifest, raw []byte, value string, known bool) {
	name := clip(raw)
	if !slices.ContainsFunc(t.Facts, func(f FactRead) bool { return f.Name == name }) {
		t.Facts = append(t.Facts, FactRead{name, value, known, slices.Contains(m.Facts, string(raw))})
	}
}

// end records what is known when the call has ended.
func (t *Trace) end(in *instance, c *call) {
	t.Time = c.plugin.clocks.wall().Sub(t.began)
	t.Signals, t.Dropped, t.Fuel = c.signals, c.droppedOutput, c.fuel.burned()
	t.Memory = int(in.module.Memory().Size())
}
