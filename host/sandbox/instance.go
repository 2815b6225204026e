package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"assay/host/sandbox/linear"
	"assay/host/sandbox/meter"
	"assay/sdk"
)

// instance is one running copy of a guest. One call at a time uses it.
type instance struct {
	module api.Module
	entry  api.Function
	gauge  api.MutableGlobal // its fuel
	output *outputSwitch
	result [1]uint64

	memory  *linear.Memory // nil when the instance is not put back after a call
	globals []frozenGlobal
}

// The clocks that guests see stand still, at 2000-01-01T00:00:00Z and at one nanosecond: Go's runtime takes a monotonic
// clock of zero for a broken one.
const (
	frozenSeconds     = 946684800
	frozenNanoseconds = 1
)

// zeros is the randomness that guests get: always the same, so that an answer depends on the facts alone.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// outputSwitch leads what a guest prints to the call under way.
type outputSwitch struct{ call *call }

func (o *outputSwitch) Write(p []byte) (int, error) {
	if o.call == nil {
		return len(p), nil
	}
	return o.call.Write(p)
}

// instantiate starts a new instance and runs its initialisation.
func (p *Plugin) instantiate(ctx context.Context) (*instance, error) {
	starting := &call{plugin: p}
	starting.fuel.deadline = time.Now().Add(startTimeout)
	output := &outputSwitch{call: starting}
	memory, err := p.pristine.reserve()
	if err != nil {
		return nil, fmt.Errorf("starting an instance: %w", err)
	}
	module, err := p.engine.InstantiateModule(withMemory(context.WithValue(ctx, callKey{}, starting), memory), p.compiled, wazero.NewModuleConfig().
		WithName(""). // instances of one name would collide
		WithStartFunctions(exportInit).
		WithWalltime(func() (int64, int32) { return frozenSeconds, 0 }, sys.ClockResolution(1)).
		WithNanotime(func() int64 { return frozenNanoseconds }, sys.ClockResolution(1)).
		WithRandSource(zeros{}).
		WithStdout(output).WithStderr(output))
	if err != nil {
		if memory != nil {
			memory.Free() // the engine forgets memories of modules that it gives up
		}
		return nil, fmt.Errorf("starting an instance: %w%s", exited(err), quoted(output.call.output))
	}
	output.call = nil
	// wazero takes an exit with code 0 for success, but it leaves nothing that could be called.
	if module.IsClosed() {
		return nil, errors.New("starting an instance: the guest ended itself with exit code 0")
	}
	gauge, ok := module.ExportedGlobal(meter.FuelExport).(api.MutableGlobal)
	if !ok {
		return nil, errors.Join(errors.New("starting an instance: it exports no fuel gauge"), module.Close(ctx))
	}
	in := &instance{module: module, entry: module.ExportedFunction(exportScore), gauge: gauge, output: output, memory: memory}
	if err := in.freeze(p.pristine); err != nil {
		return nil, errors.Join(fmt.Errorf("starting an instance: %w", err), module.Close(ctx))
	}
	return in, nil
}

func quoted(output []byte) string {
	if len(output) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it printed %q)", output)
}

// score runs one call. An error means that the instance must not be used again.
func (in *instance) score(ctx context.Context, c *call) (sdk.Outcome, error) {
	in.output.call = c
	defer func() { in.output.call = nil }()
	c.fuel.fill(in.gauge)
	if err := in.entry.CallWithStack(context.WithValue(ctx, callKey{}, c), in.result[:]); err != nil {
		return sdk.Failed, exited(err)
	}
	if in.memory != nil && c.fuel.burned() > deepFuel {
		in.entry = in.module.ExportedFunction(exportScore)
	}
	return sdk.Outcome(api.DecodeI32(in.result[0])), nil
}

// deepFuel is what a call must burn to have gone deep. The engine's stack grows up to 80 MiB and never shrinks, and belongs to
// the function that was looked up: after such a call it is looked up anew, of plugins that are not trusted. A frame costs at
// least a unit for each 32 bytes.
const deepFuel = 100_000

func (in *instance) close() { _ = in.module.Close(context.Background()) }
