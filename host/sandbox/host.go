package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"

	"assay/host/check"
	"assay/host/sandbox/meter"
	"assay/registry"
	"assay/sdk"
)

// hostModule is the module name of the host functions.
const hostModule = "assay"

// call is the state of one call of a guest: its facts and the answer so far.
type call struct {
	plugin        *Plugin
	facts         check.Input
	signals       []check.Signal
	points        int
	warranted     int // the highest declared points of the answer's signals that warrant a band
	threat        string
	output        []byte     // the guest's log and output, at most sdk.LogBytes
	droppedOutput int        // bytes of output beyond that limit
	level         sdk.Level  // highest level of the guest's log lines
	violation     *violation // the first one
	fuel          fuelTank
	trace         *Trace // nil unless the layer's author wants to see the call
}

// current is the context of an instance's calls. Through it, host functions find the call that the instance serves. It
// is reused, to save allocating a context for each call.
type current struct {
	context.Context
	call *call
}

type callKey struct{}

// Value implements context.Context.
func (c *current) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// callOf returns the call that a host function serves. A guest's initialisation is also a call, without facts.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// violation is a rule of the interface that a guest broke.
type violation struct {
	rule string // without the guest's text, for logs
	err  error  // for the author
}

// reject records a violation of the interface's rules. Only the first one counts.
func (c *call) reject(rule, format string, args ...any) {
	if c.violation == nil {
		c.violation = &violation{rule, fmt.Errorf(format, args...)}
	}
}

// write collects the guest's output, and returns the part that it kept.
func (c *call) write(p []byte) []byte {
	kept := min(sdk.LogBytes-len(c.output), len(p))
	c.copied(kept)
	c.output = append(c.output, p[:kept]...)
	c.droppedOutput += len(p) - kept
	return p[:kept]
}

// copied charges fuel for bytes that the host copies for the guest, at the price of memory.copy.
func (c *call) copied(bytes int) { c.fuel.charge(int64(bytes) / 64) }

// result returns the guest's answer after it has returned outcome.
func (c *call) result(outcome sdk.Outcome) (check.Result, error) {
	fuel := c.fuel.burned()
	switch {
	case c.violation != nil:
		return check.Result{}, c.failure(check.Refused, c.violation.rule, c.violation.err)
	case outcome == sdk.Abstained:
		return check.Result{Abstained: true, Fuel: fuel}, nil
	case outcome != sdk.Scored:
		return check.Result{}, c.failure(check.Trap, "the layer returned a failure",
			fmt.Errorf("the layer returned %d, a failure", outcome))
	}
	score := min(max(c.points, c.plugin.lowest), c.plugin.highest)
	if c.warranted > 0 && score < c.warranted {
		return check.Result{}, c.failure(check.Refused, "other signals take points from one that warrants a band",
			fmt.Errorf("the score is %d, below the %d points of a signal that warrants a band", score, c.warranted))
	}
	return check.Result{Score: score, Signals: c.signals, Threat: c.threat, Fuel: fuel}, nil
}

func (c *call) failure(reason check.FailureReason, rule string, err error) *check.Failure {
	text := string(c.output)
	if c.droppedOutput > 0 {
		text += fmt.Sprintf(" [%d bytes more]", c.droppedOutput)
	}
	return &check.Failure{Reason: reason, Rule: rule, Err: err, Output: check.Output{
		Text: text, Lines: bytes.Count(c.output, []byte{'\n'}), Bytes: len(c.output), Level: int(c.level)}}
}

// trapRules maps the host's own errors, which trap a guest, to rules. All other errors are crashes.
var trapRules = map[error]string{
	errStackTooDeep:  "the calls are nested too deeply",
	errOutsideMemory: "a pointer or a length is outside of the memory",
	errExited:        "the layer exited",
}

// trapped returns the failure of a call whose guest was trapped by err.
func (c *call) trapped(err error) *check.Failure {
	for known, rule := range trapRules {
		if errors.Is(err, known) {
			return c.failure(check.Trap, rule, err)
		}
	}
	return c.failure(check.Trap, "the layer crashed", err)
}

// exportHost provides the functions that a guest may import, and the meter's refill function. Given a pointer outside
// the guest's memory, the host's four functions trap the guest, and those of WASI return an error.
func (p *Plugin) exportHost(ctx context.Context) error {
	for module, functions := range imports {
		b := p.engine.NewHostModuleBuilder(module)
		for name, f := range functions {
			params, results := engineTypes(f.Params), engineTypes(f.Results)
			run := func(ctx context.Context, m api.Module, stack []uint64) {
				callOf(ctx).fuel.charge(meter.ImportCost) // here, because a guest may call it indirectly
				f.run(ctx, m, stack)
			}
			b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(run), params, results).Export(name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	b := p.engine.NewHostModuleBuilder(meter.ImportModule)
	b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(hostRefill), nil, nil).Export(meter.ImportName)
	_, err := b.Instantiate(ctx)
	return err
}

// engineTypes converts types to wazero's, which have the same numbers.
func engineTypes(types []meter.ValueType) []api.ValueType {
	out := make([]api.ValueType, len(types))
	for i, t := range types {
		out[i] = api.ValueType(t)
	}
	return out
}

// read returns a view of the guest's memory, which is valid until the guest continues. It copies nothing, so that the
// caller can check the length before it touches the bytes. It traps the guest if the range is outside the memory.
func read(m api.Module, ptr, length uint64) []byte {
	view, ok := m.Memory().Read(uint32(ptr), uint32(length))
	if !ok {
		panic(fmt.Errorf("the guest passed %d bytes at %d, %w of %d bytes", uint32(length), uint32(ptr),
			errOutsideMemory, m.Memory().Size()))
	}
	return view
}

var errOutsideMemory = errors.New("outside its memory")

// hostFact implements fact(name_ptr, name_len, buf_ptr, buf_cap) -> i32.
func hostFact(ctx context.Context, m api.Module, stack []uint64) {
	c := callOf(ctx)
	name := read(m, stack[0], stack[1])
	name = name[:min(len(name), sdk.MaxFactName+1)] // no manifest declares a longer name, and hashing one takes long
	value, known := c.fact(name)
	if c.trace != nil {
		c.trace.read(c.plugin.module.Manifest, name, value, known)
	}
	if !known {
		stack[0] = api.EncodeI32(-1)
		return
	}
	if len(value) <= int(uint32(stack[3])) {
		c.copied(len(value))
		copy(read(m, stack[2], uint64(len(value))), value)
	}
	stack[0] = api.EncodeI32(int32(len(value)))
}

// fact returns the value of a fact. A fact that the manifest does not declare is absent.
func (c *call) fact(name []byte) (string, bool) {
	if declared, ok := c.plugin.facts[string(name)]; ok {
		return c.facts.Get(declared)
	}
	return "", false
}

// hostSignal implements signal(points, code_ptr, code_len, text_ptr, text_len).
func hostSignal(ctx context.Context, m api.Module, stack []uint64) {
	points := int32(stack[0])
	code, text := read(m, stack[1], stack[2]), read(m, stack[3], stack[4])
	callOf(ctx).signal(points, code, text)
}

func (c *call) signal(points int32, code, text []byte) {
	switch {
	case c.violation != nil: // only the first one counts
	case len(c.signals) == sdk.MaxSignals:
		c.reject("too many signals", "more than %d signals", sdk.MaxSignals)
	case points < -sdk.MaxPoints || points > sdk.MaxPoints:
		c.reject("a signal is worth too many points", "signal %q is worth %d points, outside -%d to %d",
			clip(code), points, sdk.MaxPoints, sdk.MaxPoints)
	case len(code) > sdk.MaxCodeBytes:
		c.reject("a signal's code is too long", "a signal code of %d bytes is longer than %d", len(code),
			sdk.MaxCodeBytes)
	}
	if c.violation != nil {
		return
	}
	declared, ok := c.plugin.codes[string(code)]
	worth := int(points)
	for _, earlier := range c.signals {
		if earlier.Code == declared.Code {
			worth += earlier.Points
		}
	}
	switch {
	case !ok:
		c.reject("the manifest does not declare the signal", "the manifest declares no signal code %q", clip(code))
	case declared.Points != 0 && int(points) < declared.Points:
		c.reject("a signal is worth fewer points than its manifest promises",
			"%s: a signal is worth %d points, and its manifest promises %d", declared.Code, points, declared.Points)
	case declared.Warrants == registry.WarrantsReview && worth > declared.Points:
		c.reject("a signal that warrants a review is worth more points than its manifest says",
			"%s: it is worth %d points, and its manifest says %d", declared.Code, worth, declared.Points)
	}
	if c.violation != nil {
		return
	}
	kept := text[:min(len(text), sdk.MaxTextBytes+1)]
	c.fuel.charge(int64(len(kept))) // every character is examined
	copied := sdk.CutText(string(kept))
	if len(kept) > sdk.MaxTextBytes {
		c.plugin.cut.Do(func() {
			c.plugin.log.Warn("a layer's text is too long and was cut; further ones are not logged", "plugin",
				c.plugin.module.Ref(), "signal", declared.Code) // the text's length could encode a customer's value
		})
	}
	if err := sdk.ValidText(copied); err != nil {
		c.reject("a signal's text cannot be shown to a person", "%s: %w", declared.Code, err)
		return
	}
	c.signals = append(c.signals, check.Signal{Points: int(points), Code: declared.Code, Text: copied,
		Threat: string(declared.Threat), YieldsTo: declared.YieldsTo})
	c.points += int(points)
	if declared.Warrants != "" {
		c.warranted = max(c.warranted, declared.Points)
	}
}

// hostThreat implements threat(ptr, len).
func hostThreat(ctx context.Context, m api.Module, stack []uint64) {
	name := read(m, stack[0], stack[1])
	c := callOf(ctx)
	if len(name) > maxThreatBytes {
		c.reject("a threat's name is too long", "a threat of %d bytes is longer than %d", len(name), maxThreatBytes)
		return
	}
	threats := c.plugin.module.Manifest.Threats
	i := slices.IndexFunc(threats, func(t sdk.Threat) bool { return string(t) == string(name) })
	if i < 0 {
		c.reject("the manifest does not declare the threat", "the manifest declares no threat %q", clip(name))
		return
	}
	c.threat = string(threats[i])
}

// maxThreatBytes is more than the length of the longest threat (sdk/ABI.md section 6).
const maxThreatBytes = 64

// hostLog implements log(level, ptr, len).
func hostLog(ctx context.Context, m api.Module, stack []uint64) {
	text := read(m, stack[1], stack[2])
	c := callOf(ctx)
	level := levelOf(int32(stack[0]))
	c.level = max(c.level, level)
	kept := c.write(text)
	if c.trace != nil && (len(kept) > 0 || len(text) == 0) {
		c.trace.Log = append(c.trace.Log, LogLine{level, string(kept)})
	}
	c.write([]byte{'\n'})
}

// levelOf returns the highest of the published levels up to n.
func levelOf(n int32) sdk.Level {
	for _, level := range []sdk.Level{sdk.Error, sdk.Warn, sdk.Info} {
		if n >= int32(level) {
			return level
		}
	}
	return sdk.Debug
}

// clip shortens a guest's bytes for an error text. Bytes that are not UTF-8 become hexadecimal.
func clip(b []byte) string {
	const maxBytes = 64
	b = b[:min(len(b), maxBytes)]
	if !utf8.Valid(b) {
		return fmt.Sprintf("%x", b)
	}
	return string(b)
}
