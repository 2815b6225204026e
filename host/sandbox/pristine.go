package sandbox

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"assay/host/sandbox/linear"
	"assay/host/sandbox/meter"
)

// pristine is how the instances of one plugin are put back to where they stood after their initialisation.
type pristine struct {
	images      *linear.Images
	least, most uint64 // bytes of memory
	globals     []string
	replace     bool // the guest can keep state where it cannot be put back: every call needs a new instance
}

// frozenGlobal is a mutable global of an instance and what it held after initialisation.
type frozenGlobal struct {
	api.MutableGlobal
	value uint64
}

const pageBytes = 64 << 10

func newPristine(m *meter.Module) *pristine {
	p := &pristine{
		images:  linear.NewImages(),
		least:   uint64(m.MemoryMin) * pageBytes,
		most:    uint64(m.MemoryMax) * pageBytes,
		replace: len(m.Unrestored) > 0,
	}
	for _, g := range m.Globals {
		p.globals = append(p.globals, g.Name)
	}
	return p
}

// reserve returns memory for a new instance that can be put back, nil when it is not to be.
func (p *pristine) reserve() (*linear.Memory, error) {
	if p == nil {
		return nil, nil
	}
	return p.images.Reserve(p.least, p.most)
}

// withMemory makes the engine use memory, if there is one.
func withMemory(ctx context.Context, memory *linear.Memory) context.Context {
	if memory == nil {
		return ctx
	}
	return experimental.WithMemoryAllocator(ctx, memory)
}

// freeze remembers what the instance holds now.
func (in *instance) freeze(p *pristine) error {
	if p == nil {
		return nil
	}
	for _, name := range p.globals {
		g, ok := in.module.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			return fmt.Errorf("freezing: the global %s cannot be set", name)
		}
		in.globals = append(in.globals, frozenGlobal{g, g.Get()})
	}
	if err := in.memory.Freeze(); err != nil {
		return fmt.Errorf("freezing: %w", err)
	}
	return nil
}

// restore undoes what a call has written. ok is false when that cannot be done: the memory has grown, or the guest may
// keep state elsewhere.
func (in *instance) restore(p *pristine) (ok bool, err error) {
	if p.replace {
		return false, nil
	}
	for _, g := range in.globals {
		if g.Get() != g.value {
			g.Set(g.value)
		}
	}
	return in.memory.Restore()
}
