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
	stack  guestStack        // of entry
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
	memory, err := p.pristine.reserve()
	if err != nil {
		return nil, fmt.Errorf("starting an instance: %w", err)
	}
	output := &outputSwitch{}
	module, err := p.engine.InstantiateModule(withMemory(ctx, memory), p.compiled, wazero.NewModuleConfig().
		WithName("").         // instances of one name would collide
		WithStartFunctions(). // initialise runs them
		WithWalltime(func() (int64, int32) { return frozenSeconds, 0 }, sys.ClockResolution(1)).
		WithNanotime(func() int64 { return frozenNanoseconds }, sys.ClockResolution(1)).
		WithRandSource(zeros{}).
		WithStdout(output).WithStderr(output))
	if err != nil {
		if memory != nil {
			memory.Free() // the engine forgets memories of modules that it gives up
		}
		return nil, fmt.Errorf("starting an instance: %w", err)
	}
	in := &instance{module: module, output: output, memory: memory}
	if err := in.initialise(ctx, p); err != nil {
		return nil, errors.Join(fmt.Errorf("starting an instance: %w", err), module.Close(ctx))
	}
	return in, nil
}

// initialise runs the guest's start function and its initialisation, as a call without facts, and freezes what came of
// it.
func (in *instance) initialise(ctx context.Context, p *Plugin) error {
	gauge, ok := in.module.ExportedGlobal(meter.FuelExport).(api.MutableGlobal)
	if !ok {
		return errors.New("it exports no fuel gauge")
	}
	in.gauge = gauge
	c := &call{plugin: p}
	c.fuel.began = time.Now()
	c.fuel.deadline = c.fuel.began.Add(startTimeout)
	for _, name := range []string{meter.StartExport, exportInit} {
		if f := in.module.ExportedFunction(name); f != nil {
			stack, err := stackOf(f)
			if err == nil {
				err = in.run(ctx, f, stack, c, nil)
			}
			if err != nil {
				return fmt.Errorf("%w%s", err, quoted(c.output))
			}
		}
	}
	if err := in.enter(); err != nil {
		return err
	}
	return in.freeze(p.pristine)
}

// enter looks the scoring function up, with a new stack.
func (in *instance) enter() error {
	in.entry = in.module.ExportedFunction(exportScore)
	var err error
	in.stack, err = stackOf(in.entry)
	return err
}

func quoted(output []byte) string {
	if len(output) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it printed %q)", output)
}

// score runs one call. An error means that the instance must not be used again.
func (in *instance) score(ctx context.Context, c *call) (sdk.Outcome, error) {
	if err := in.run(ctx, in.entry, in.stack, c, in.result[:]); err != nil {
		return sdk.Failed, err
	}
	switch n := in.stack.bytes(); {
	case n > mostStack: // it was back before anybody looked
		return sdk.Failed, errDeep
	case n > keptStack:
		if err := in.enter(); err != nil {
			return sdk.Failed, err
		}
	}
	return sdk.Outcome(api.DecodeI32(in.result[0])), nil
}

// run has the guest run one function of its own for c.
func (in *instance) run(ctx context.Context, f api.Function, stack guestStack, c *call, results []uint64) error {
	in.output.call = c
	defer func() { in.output.call = nil }()
	c.fuel.fill(in.gauge, stack)
	if err := f.CallWithStack(context.WithValue(ctx, callKey{}, c), results); err != nil {
		return exited(err)
	}
	return nil
}

func (in *instance) close() { _ = in.module.Close(context.Background()) }
