package sandbox

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"

	"assay/host/check"
	"assay/host/sandbox/meter"
	"assay/sdk"
)

// hostModule is the name under which guests import the host's functions.
const hostModule = "assay"

// call is the state of one call of a guest: what it may read and what it has said.
type call struct {
	plugin  *Plugin
	facts   check.Input
	signals []check.Signal
	points  int
	threat  string
	output  []byte // what the guest logged or printed, up to sdk.LogBytes
	dropped int    // bytes of output beyond
	refused error  // the first rule of the interface that it broke
	fuel    fuelTank
}

type callKey struct{}

// callOf returns the call that a host function works for. A guest's initialisation is a call too, one without facts.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

func (c *call) refuse(format string, args ...any) {
	if c.refused == nil {
		c.refused = fmt.Errorf(format, args...)
	}
}

// Write takes what the guest prints to stdout and stderr.
func (c *call) Write(p []byte) (int, error) {
	room := sdk.LogBytes - len(c.output)
	c.output = append(c.output, p[:min(room, len(p))]...)
	c.dropped += max(0, len(p)-room)
	return len(p), nil
}

// result is what the guest said, once it has returned.
func (c *call) result(outcome sdk.Outcome) (check.Result, *check.Failure) {
	switch {
	case c.refused != nil:
		return check.Result{}, c.lost(check.Refused, c.refused)
	case outcome == sdk.Abstained:
		return check.Result{Abstained: true, Fuel: c.fuel.burned()}, nil
	case outcome != sdk.Scored:
		return check.Result{}, c.lost(check.Trap, fmt.Errorf("the layer returned %d, a failure", outcome))
	}
	return check.Result{Score: min(max(c.points, 0), 100), Signals: c.signals, Threat: c.threat, Fuel: c.fuel.burned()},
		nil
}

func (c *call) lost(reason check.FailureReason, err error) *check.Failure {
	output := string(c.output)
	if c.dropped > 0 {
		output += fmt.Sprintf(" [%d bytes more]", c.dropped)
	}
	return &check.Failure{Reason: reason, Err: err, Output: output}
}

// exportHost offers the four functions of sdk/ABI.md section 3. Every one checks its pointers against the guest's
// memory and copies what it keeps; a pointer outside traps the guest.
func (p *Plugin) exportHost(ctx context.Context) error {
	b := p.engine.NewHostModuleBuilder(hostModule)
	for name, f := range map[string]api.GoModuleFunc{"fact": hostFact, "signal": hostSignal, "threat": hostThreat,
		"log": hostLog} {
		s := imports[hostModule][name]
		b = b.NewFunctionBuilder().WithGoModuleFunction(f, engineTypes(s.Params), engineTypes(s.Results)).Export(name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return err
	}
	_, err := p.engine.NewHostModuleBuilder(meter.ImportModule).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(hostRefill), nil,
		nil).Export(meter.ImportName).Instantiate(ctx)
	return err
}

// engineTypes are types as the engine's interface has them: the same numbers.
func engineTypes(types []meter.ValueType) []api.ValueType {
	out := make([]api.ValueType, len(types))
	for i, t := range types {
		out[i] = api.ValueType(t)
	}
	return out
}

// read returns a view of the guest's memory, valid until the guest runs on. Outside of it, the guest traps.
func read(m api.Module, ptr, length uint64) []byte {
	view, ok := m.Memory().Read(uint32(ptr), uint32(length))
	if !ok {
		panic(fmt.Errorf("the guest gave %d bytes at %d, outside its memory of %d", uint32(length), uint32(ptr),
			m.Memory().Size()))
	}
	return view
}

// hostFact: fact(name_ptr, name_len, buf_ptr, buf_cap) -> i32.
func hostFact(ctx context.Context, m api.Module, stack []uint64) {
	c := callOf(ctx)
	name := read(m, stack[0], stack[1])
	value, known := c.fact(name)
	if !known {
		stack[0] = api.EncodeI32(-1)
		return
	}
	if len(value) <= int(uint32(stack[3])) {
		copy(read(m, stack[2], uint64(len(value))), value)
	}
	stack[0] = api.EncodeI32(int32(len(value)))
}

// fact looks a fact up. One that the manifest does not declare reads as absent.
func (c *call) fact(name []byte) (string, bool) {
	if len(name) > sdk.MaxFactName || !c.plugin.facts[string(name)] {
		return "", false
	}
	return c.facts.Get(string(name))
}

// hostSignal: signal(points, code_ptr, code_len, text_ptr, text_len).
func hostSignal(ctx context.Context, m api.Module, stack []uint64) {
	points := int32(stack[0])
	code, text := read(m, stack[1], stack[2]), read(m, stack[3], stack[4])
	callOf(ctx).signal(points, code, text)
}

func (c *call) signal(points int32, code, text []byte) {
	if c.refused != nil {
		return
	}
	if len(c.signals) == sdk.MaxSignals {
		c.refuse("more than %d signals", sdk.MaxSignals)
		return
	}
	if points < -sdk.MaxPoints || points > sdk.MaxPoints {
		c.refuse("a signal is worth %d points, outside -%d to %d", points, sdk.MaxPoints, sdk.MaxPoints)
		return
	}
	known, ok := c.plugin.codes[string(code)]
	if !ok {
		c.refuse("the manifest declares no signal code %q", clip(code))
		return
	}
	if err := sdk.ValidText(string(text)); err != nil {
		c.refuse("%s: %w", known, err)
		return
	}
	c.signals = append(c.signals, check.Signal{Points: int(points), Code: known, Text: string(text)})
	c.points += int(points)
}

// hostThreat: threat(ptr, len).
func hostThreat(ctx context.Context, m api.Module, stack []uint64) {
	name := read(m, stack[0], stack[1])
	c := callOf(ctx)
	i := slices.IndexFunc(c.plugin.module.Manifest.Threats,
		func(t sdk.Threat) bool { return string(t) == string(name) })
	if i < 0 {
		c.refuse("the manifest declares no threat %q", clip(name))
		return
	}
	c.threat = string(c.plugin.module.Manifest.Threats[i])
}

// hostLog: log(level, ptr, len).
func hostLog(ctx context.Context, m api.Module, stack []uint64) {
	text := read(m, stack[1], stack[2])
	c := callOf(ctx)
	_, _ = c.Write(text)
	_, _ = c.Write([]byte{'\n'})
}

// clip makes a guest's bytes fit for an error text.
func clip(b []byte) string {
	const most = 64
	if len(b) > most {
		b = b[:most]
	}
	if !utf8.Valid(b) {
		return fmt.Sprintf("%x", b)
	}
	return string(b)
}
