package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"assay/host/sandbox/linear"
	"assay/host/sandbox/meter"
	"assay/sdk"
)

// instance is one running copy of a guest. It serves one call at a time.
type instance struct {
	module     api.Module
	entry      api.Function      // assay_v1_score
	stack      guestStack        // of entry
	stackBytes int               // length of stack at the start of each call
	started    int64             // fuel that the initialisation burned
	fuel       api.MutableGlobal // the guest's fuel counter
	result     [1]uint64

	current *current // where host functions find the call
	call    call     // the call in progress, reused

	memory   *linear.Memory
	globals  []savedGlobal
	restored bool // after each call, not only after a trap
}

// instantiate starts a new instance and runs its initialisation.
func (p *Plugin) instantiate(ctx context.Context) (*instance, error) {
	memory, err := p.memories.images.Reserve(p.memories.minMemory, p.memories.maxMemory)
	if err != nil {
		return nil, fmt.Errorf("starting an instance: %w", err)
	}
	inMemory := experimental.WithMemoryAllocator(ctx, memory)
	module, err := p.engine.InstantiateModule(inMemory, p.compiled, wazero.NewModuleConfig().
		WithName("").         // named instances would collide
		WithStartFunctions()) // initialise runs them
	if err != nil {
		if memory != nil {
			memory.Free() // wazero does not free the memory of a module that fails to instantiate
		}
		return nil, fmt.Errorf("starting an instance: %w", err)
	}
	in := &instance{module: module, memory: memory, current: &current{}}
	if err := in.initialise(ctx, p); err != nil {
		return nil, errors.Join(fmt.Errorf("starting an instance: %w", err), module.Close(ctx))
	}
	return in, nil
}

// initialise runs the guest's start function and its _initialize, as a call without facts, and takes the snapshot.
func (in *instance) initialise(ctx context.Context, p *Plugin) error {
	counter, ok := in.module.ExportedGlobal(meter.FuelExport).(api.MutableGlobal)
	if !ok {
		return errors.New("the module exports no fuel counter")
	}
	in.fuel = counter
	c := &call{plugin: p, fuel: fuelTank{bounds: bounds{startFuel, startTime}, clocks: p.clocks}}
	for _, name := range []string{meter.StartExport, exportInit} {
		if f := in.module.ExportedFunction(name); f != nil {
			stack, err := stackOf(f)
			if err == nil {
				err = in.run(ctx, f, stack, c, nil)
			}
			if err != nil && len(c.output) > 0 {
				return fmt.Errorf("%w (the guest printed %q)", err, c.output)
			}
			if err != nil {
				return err
			}
			in.started += c.fuel.burned()
		}
	}
	if err := cmp.Or(in.memory.Starved(), in.resetEntry()); err != nil {
		return err
	}
	in.restored = !p.shared
	return in.snapshot(p.memories)
}

// resetEntry looks up the scoring function again, which allocates a new stack for it. A stack that has grown is not
// kept: how far wazero grows a stack depends on its length, so the depth at which a call ends would vary.
func (in *instance) resetEntry() error {
	in.entry = in.module.ExportedFunction(exportScore)
	var err error
	if in.stack, err = stackOf(in.entry); err != nil {
		return err
	}
	in.stackBytes = in.stack.bytes()
	return nil
}

// score runs one call. After an error the instance must be restored and resetEntry called before the next one.
func (in *instance) score(ctx context.Context, c *call) (sdk.Outcome, error) {
	if in.restored {
		in.memory.Enter()
		defer in.memory.Leave()
	}
	if err := in.run(ctx, in.entry, in.stack, c, in.result[:]); err != nil {
		return sdk.Failed, err
	}
	if err := c.fuel.overrun(); err != nil { // the guest returned before it asked for fuel
		return sdk.Failed, err
	}
	if in.stack.bytes() != in.stackBytes {
		if err := in.resetEntry(); err != nil {
			return sdk.Failed, err
		}
	}
	return sdk.Outcome(api.DecodeI32(in.result[0])), nil
}

// run calls a function of the guest on behalf of c.
func (in *instance) run(ctx context.Context, f api.Function, stack guestStack, c *call, results []uint64) error {
	c.fuel.fill(in.fuel, stack)
	defer c.fuel.stop()
	in.current.call, in.current.Context = c, ctx
	err := f.CallWithStack(in.current, results)
	in.current.call, in.current.Context = nil, nil
	if err == nil {
		return nil
	}
	if exit := (*sys.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%w with code %d", errExited, exit.ExitCode())
	}
	return err
}

var errExited = errors.New("the guest exited")

func (in *instance) close() { _ = in.module.Close(context.Background()) }
