// Package linear provides linear memories for WebAssembly guests. A snapshot of a memory is taken once, after the guest
// is initialised, and the memory is restored from it after every call, so that a call cannot read what another
// customer's check wrote. It does not handle other state, such as globals, tables and dropped segments.
//
// On Linux a large memory becomes a private (copy-on-write) mapping of a sealed memfd that holds the snapshot. The
// kernel reports which pages are dirty, so that only they are copied back; as long as calls cause no page faults, these
// are the same pages as before. If many pages are dirty, or the kernel does not report them, the mapping's pages are
// discarded instead. A small memory, and every memory on other systems, is copied back as a whole. Instances with equal
// snapshots share one image.
package linear

import (
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"assay/registry/fault"
)

// pageSize is the size of a WebAssembly page (WebAssembly 2.0, section 4.2.8).
const pageSize = 64 << 10

// maxSize is the maximum size of a memory with 32-bit addresses.
const maxSize = 1 << 32

// Memory is the linear memory of one instance. It is not safe for concurrent use.
//
// It is both the experimental.MemoryAllocator of a single instantiation and the resulting experimental.LinearMemory. On
// Linux its address never changes, so views that the engine returns stay valid until Free.
type Memory struct {
	images      *ImageStore
	reservation *reservation
	max         uint64 // bytes
	size        uint64 // bytes, as the guest sees it
	image       *image // nil before Snapshot
	view        engineView
	allocated   bool // by an instantiation
	freed       bool
	starved     error // why the memory did not grow although its maximum allows it
}

var (
	_ experimental.MemoryAllocator = (*Memory)(nil)
	_ experimental.LinearMemory    = (*Memory)(nil)
)

// Reserve returns a memory of minBytes that can grow to maxBytes, both multiples of 64 KiB. On Linux only
// address space is reserved for the maximum. Reserve fails if the address space or the memory for the minimum is not
// available, because the engine panics when memory runs out during instantiation.
func (s *ImageStore) Reserve(minBytes, maxBytes uint64) (*Memory, error) {
	if minBytes > maxBytes || maxBytes > maxSize || minBytes%pageSize != 0 || maxBytes%pageSize != 0 {
		return nil, fmt.Errorf("reserving a guest's memory: %d to %d bytes is not a range of whole pages", minBytes,
			maxBytes)
	}
	r, err := reserve(maxBytes)
	if err != nil {
		return nil, fmt.Errorf("reserving a guest's memory: %d bytes: %w", maxBytes, err)
	}
	if err := r.commit(minBytes); err != nil {
		r.release()
		return nil, fmt.Errorf("reserving a guest's memory: its first %d bytes: %w", minBytes, err)
	}
	return &Memory{images: s, reservation: r, max: maxBytes}, nil
}

// Allocate implements experimental.MemoryAllocator: the engine calls it to instantiate a module whose context carries
// m. A second call panics, because two modules would share the memory.
func (m *Memory) Allocate(_, _ uint64) experimental.LinearMemory {
	if m.allocated {
		panic(errors.New("a guest's memory was passed to a second instantiation"))
	}
	m.allocated = true
	return m
}

// Reallocate implements experimental.LinearMemory: the engine calls it to grow the memory. It returns nil, which makes
// memory.grow return -1, if size exceeds the maximum or the system has no memory left (see Starved).
func (m *Memory) Reallocate(size uint64) []byte {
	if m.freed || size > m.max || size < m.size {
		return nil
	}
	if err := m.reservation.commit(size); err != nil {
		m.starved = fmt.Errorf("growing a guest's memory to %d bytes: %w", size, err)
		return nil
	}
	m.size = size
	return m.reservation.bytes(size)
}

// Starved returns an error if the system had no memory for the guest since Starved was last called. The guest's
// behaviour then depended on the load of the machine, so its result must not count. A nil Memory returns nil.
func (m *Memory) Starved() (err error) {
	if m != nil {
		err, m.starved = m.starved, nil
	}
	return err
}

// Snapshot saves the current content for Restore. It must be called once, between calls of the guest. After an error
// the instance must not be used.
func (m *Memory) Snapshot() error {
	switch {
	case m.freed:
		return fmt.Errorf("saving a guest's memory: %w", errFreed)
	case m.image != nil:
		return errors.New("saving a guest's memory: there is a snapshot already")
	}
	img, err := m.images.acquire(m.reservation.bytes(m.size))
	if err != nil {
		return fmt.Errorf("saving a guest's memory: %w", err)
	}
	if img.file != nil {
		if err := m.reservation.mapImage(img.file); err != nil {
			m.images.release(img)
			return fmt.Errorf("saving a guest's memory: %w", err)
		}
	}
	m.image = img
	return nil
}

// Bind tells m which module uses it, so that Restore can undo growth. It fails if this version of wazero has another
// layout.
func (m *Memory) Bind(module api.Module) (err error) {
	m.view, err = viewOf(module)
	return err
}

// Enter and Leave surround each call of the guest, on one goroutine. Between them, this goroutine alone may write to
// the memory, and it runs on one thread. Restore is faster after a call that Enter and Leave surrounded, because they
// notice whether it wrote to pages that earlier calls did not. Without them, Restore checks every page.
func (m *Memory) Enter() { m.reservation.enter() }

// Leave follows the call that Enter preceded.
func (m *Memory) Leave() { m.reservation.leave() }

// Restore undoes every write since Snapshot, and growth. It must be called between calls of the guest. After an error
// the memory may still hold the writes, so the instance must be replaced.
func (m *Memory) Restore() error {
	switch {
	case m.freed:
		return fmt.Errorf("restoring a guest's memory: %w", errFreed)
	case m.image == nil:
		return errors.New("restoring a guest's memory: there is no snapshot")
	}
	if err := m.shrink(uint64(len(m.image.content))); err != nil {
		return fmt.Errorf("restoring a guest's memory: %w", err)
	}
	if m.image.file == nil {
		copy(m.reservation.bytes(m.size), m.image.content)
		return nil
	}
	return fault.Wrap(m.reservation.restore(m.image.file), "restoring a guest's memory")
}

// shrink releases the memory beyond size. If the guest grows the memory again, it reads zeros there.
func (m *Memory) shrink(size uint64) error {
	switch {
	case m.size == size:
		return nil
	case m.view.buffer == nil:
		return errors.New("the memory has grown and is not bound to a module")
	}
	if err := m.reservation.clear(size, m.size); err != nil {
		return err
	}
	m.size = size
	m.view.resize(m.reservation.bytes(size))
	return nil
}

// errFreed is the error of using a memory after its instance was closed.
var errFreed = errors.New("the instance is closed")

// Free releases the memory. The engine calls it when it closes the module, but not after a failed instantiation: then
// the caller must. Repeated calls do nothing. No call of the guest may be running, and no view of the memory may be
// used afterwards.
func (m *Memory) Free() {
	if m.freed {
		return
	}
	m.freed = true
	m.reservation.release()
	if m.image != nil {
		m.images.release(m.image)
	}
}
