package sandbox

import (
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"assay/host/sandbox/linear"
	"assay/host/sandbox/meter"
	"assay/registry/fault"
)

// snapshotter takes a snapshot of each instance of one plugin after its initialisation, from which the instance is
// restored after calls. An instance has no other state that a call can change (vet refuses modules with such state, and
// docs/decisions/sandbox.md lists every field of wazero's instance).
type snapshotter struct {
	images    *linear.ImageStore
	minMemory uint64 // bytes
	maxMemory uint64 // bytes
	globals   []string
}

// savedGlobal is a mutable global of an instance with its value after initialisation.
type savedGlobal struct {
	api.MutableGlobal
	value uint64
}

func newSnapshotter(m *meter.Module) *snapshotter {
	s := &snapshotter{
		images:    linear.NewImageStore(),
		minMemory: uint64(m.MemoryMin) * pageBytes,
		maxMemory: uint64(m.MemoryMax) * pageBytes,
	}
	for _, g := range m.Globals {
		s.globals = append(s.globals, g.Name)
	}
	return s
}

// snapshot saves the instance's current state.
func (in *instance) snapshot(s *snapshotter) error {
	for _, name := range s.globals {
		g, ok := in.module.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			return fmt.Errorf("taking a snapshot: the global %s is not mutable", name)
		}
		in.globals = append(in.globals, savedGlobal{g, g.Get()})
	}
	return fault.Wrap(errors.Join(in.memory.Bind(in.module), in.memory.Snapshot()), "taking a snapshot")
}

// restore undoes the writes of a call, and the growth of its memory. After an error the instance must be replaced.
func (in *instance) restore() error {
	for _, g := range in.globals {
		if g.Get() != g.value {
			g.Set(g.value)
		}
	}
	return in.memory.Restore()
}
