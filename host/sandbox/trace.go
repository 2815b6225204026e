package sandbox

import (
	"context"
	"slices"
	"time"

	"assay/host/check"
	"assay/registry"
	"assay/sdk"
)

// Trace records what a layer did in one call, for the layer's author.
type Trace struct {
	Facts   []FactRead     // in the order of the first reading
	Signals []check.Signal // including those of a refused answer
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
	Declared bool   `json:"declared"` // by the manifest; undeclared facts are never known
}

// LogLine is a line that a layer logged.
type LogLine struct {
	Level sdk.Level `json:"level"`
	Text  string    `json:"text"`
}

// Trace is like Score, and also returns a trace, which is complete even if the call failed.
func (p *Plugin) Trace(ctx context.Context, facts check.Input) (check.Result, Trace, error) {
	var trace Trace
	result, err := p.score(ctx, facts, &trace)
	return result, trace, err
}

// Instance is an instance outside the plugin's pool, so it does not serve other calls. It is not restored after a call,
// so that measurements can tell whether earlier calls change later ones. It takes one call at a time.
type Instance struct {
	Started int64 // fuel that the initialisation burned

	plugin *Plugin
	in     *instance
}

// NewInstance starts an instance, which the caller must close.
func (p *Plugin) NewInstance(ctx context.Context) (*Instance, error) {
	in, err := p.instantiate(ctx)
	if err != nil {
		return nil, err
	}
	return &Instance{in.started, p, in}, nil
}

// Trace is [Plugin.Trace] with this instance. After a call that trapped, it starts another instance.
func (i *Instance) Trace(ctx context.Context, facts check.Input) (check.Result, Trace, error) {
	var trace Trace
	result, trapped, err := i.plugin.call(ctx, i.in, facts, &trace)
	if trapped {
		next, again := i.plugin.instantiate(ctx)
		if again != nil {
			return result, trace, again
		}
		i.in.close()
		i.in = next
	}
	return result, trace, err
}

// Close ends the instance.
func (i *Instance) Close() { i.in.close() }

// read records that the layer asked for a fact.
func (t *Trace) read(m registry.Manifest, raw []byte, value string, known bool) {
	name := clip(raw)
	if !slices.ContainsFunc(t.Facts, func(f FactRead) bool { return f.Name == name }) {
		t.Facts = append(t.Facts, FactRead{name, value, known, slices.Contains(m.Facts, string(raw))})
	}
}

// end records the values that are known only when the call has ended.
func (t *Trace) end(in *instance, c *call) {
	t.Time = c.plugin.clocks.wall().Sub(t.began)
	t.Signals, t.Dropped, t.Fuel = c.signals, c.droppedOutput, c.fuel.burned()
	t.Memory = int(in.module.Memory().Size())
}
