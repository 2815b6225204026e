// Package linear provides guests' linear memories whose content is frozen once, after the guest's initialisation, and
// restored after every call: what one customer's check writes into a guest cannot be read in the next.
//
// On Linux a large memory is a private mapping of a sealed memfd that holds the frozen content: the kernel gives a
// guest a page of its own when it first writes to it, and can be asked which these are, so that only they are copied
// back; or dropped, when they are many or the kernel does not say. A small memory, and every memory elsewhere, is
// copied back whole. Instances whose initialisation left the same content share one copy of it.
//
// Memory is all that is restored here: globals, tables and dropped segments are the caller's to keep.
package linear

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero/experimental"
)

// pageSize is the unit in which memories are sized (WebAssembly 2.0, section 4.2.8).
const pageSize = 64 << 10

// maxSize is the most that a memory with 32-bit addresses can hold.
const maxSize = 1 << 32

// Memory is the linear memory of one instance. One goroutine at a time uses it.
//
// It is the experimental.MemoryAllocator of exactly one instantiation and the experimental.LinearMemory of what came of
// it. On Linux its first byte never moves, so views that the engine hands out stay valid until Free.
type Memory struct {
	images *Images
	space  *space
	max    uint64
	size   uint64 // what the guest has
	image  *image // nil until frozen
	given  bool   // to an instantiation
	freed  bool
}

var (
	_ experimental.MemoryAllocator = (*Memory)(nil)
	_ experimental.LinearMemory    = (*Memory)(nil)
)

// Reserve returns a memory that starts with least bytes and can grow to most bytes, both multiples of the WebAssembly
// page of 64 KiB. On Linux, most is reserved as address space only. An error means that the address space or the memory
// for least is not to be had; so an instantiation, which the engine cannot end in peace for lack of memory, never has
// to find out.
func (s *Images) Reserve(least, most uint64) (*Memory, error) {
	if least > most || most > maxSize || least%pageSize != 0 || most%pageSize != 0 {
		return nil, fmt.Errorf("reserving a guest's memory: %d to %d bytes is no range of whole pages", least, most)
	}
	room, err := reserve(most)
	if err != nil {
		return nil, fmt.Errorf("reserving a guest's memory: %d bytes: %w", most, err)
	}
	if err := room.commit(least); err != nil {
		room.release()
		return nil, fmt.Errorf("reserving a guest's memory: its first %d bytes: %w", least, err)
	}
	return &Memory{images: s, space: room, max: most}, nil
}

// Allocate is called by the engine when it instantiates a module whose context carries m. It panics when called again:
// two modules would share one memory.
func (m *Memory) Allocate(_, _ uint64) experimental.LinearMemory {
	if m.given {
		panic(errors.New("a guest's memory was given to a second instantiation"))
	}
	m.given = true
	return m
}

// Reallocate is called by the engine to grow the memory. Nil, which the guest sees as a memory.grow of -1, means that
// size is beyond what was reserved or that the system has no more.
func (m *Memory) Reallocate(size uint64) []byte {
	if m.freed || size > m.max || size < m.size || m.space.commit(size) != nil {
		return nil
	}
	m.size = size
	return m.space.bytes(size)
}

// Freeze makes what the memory holds now what Restore returns to. It is called once, when the instance has initialised
// and no call is under way. After an error the instance must not be used.
func (m *Memory) Freeze() error {
	switch {
	case m.freed:
		return fmt.Errorf("freezing a guest's memory: %w", errFreed)
	case m.image != nil:
		return errors.New("freezing a guest's memory: it is frozen already")
	}
	img, err := m.images.hold(m.space.bytes(m.size))
	if err != nil {
		return fmt.Errorf("freezing a guest's memory: %w", err)
	}
	if img.file != nil {
		if err := m.space.lay(img.file); err != nil {
			m.images.drop(img)
			return fmt.Errorf("freezing a guest's memory: %w", err)
		}
	}
	m.image = img
	return nil
}

// Restore undoes every write since Freeze. It is called between calls, never during one. Not ok means that the memory
// has grown since, which an engine cannot undo: nothing was restored, and the instance must be replaced, as it must
// after an error.
func (m *Memory) Restore() (ok bool, err error) {
	switch {
	case m.freed:
		return false, fmt.Errorf("restoring a guest's memory: %w", errFreed)
	case m.image == nil:
		return false, errors.New("restoring a guest's memory: it was never frozen")
	case m.size != uint64(len(m.image.content)):
		return false, nil
	case m.image.file == nil:
		copy(m.space.bytes(m.size), m.image.content)
		return true, nil
	}
	if err := m.space.revert(m.image.file); err != nil {
		return false, fmt.Errorf("restoring a guest's memory: %w", err)
	}
	return true, nil
}

// errFreed tells of a memory used after its instance was closed; a guest that exits closes its own.
var errFreed = errors.New("its instance is closed")

// Free gives everything back. The engine calls it when the module is closed, but not when instantiating failed
// half-way: then the caller must. Further calls do nothing. No call may be under way, and no view of the memory may be
// used afterwards.
func (m *Memory) Free() {
	if m.freed {
		return
	}
	m.freed = true
	m.space.release()
	if m.image != nil {
		m.images.drop(m.image)
	}
}

// Images holds the contents that the instances of one module were frozen with, each content once. It is safe for
// concurrent use.
type Images struct {
	copyUpTo uint64 // contents of so many bytes are copied back, larger ones mapped
	mu       sync.Mutex
	held     []*image
}

// NewImages returns an empty set, for the instances of one module.
func NewImages() *Images { return &Images{copyUpTo: copyUpTo} }

// image is a frozen content. It does not change.
type image struct {
	content []byte
	file    *file // where it is kept so that it can be mapped; nil when it is to be copied
	uses    int   // guarded by Images.mu
}

// hold returns the image that equals content, made if there is none. Every hold needs a drop.
func (s *Images) hold(content []byte) (*image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, img := range s.held {
		if bytes.Equal(img.content, content) {
			img.uses++
			return img, nil
		}
	}
	img := &image{uses: 1}
	if uint64(len(content)) <= s.copyUpTo {
		img.content = slices.Clone(content)
	} else {
		f, err := keep(content)
		if err != nil {
			return nil, err
		}
		img.file, img.content = f, f.view
	}
	s.held = append(s.held, img)
	return img, nil
}

func (s *Images) drop(img *image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img.uses--
	if img.uses > 0 {
		return
	}
	s.held = slices.DeleteFunc(s.held, func(other *image) bool { return other == img })
	if img.file != nil {
		img.file.close()
	}
}
