package meter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"assay/registry/expect"
)

const (
	bulkMemory  = 8 * 65536
	bulkSegment = 200_000
)

// pattern returns n random bytes, so that moved content differs.
func pattern(n int) []byte {
	b := make([]byte, n)
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// bulkModule exports each bulk memory instruction with its operands as parameters, and data.drop. Its memory has
// bulkMemory bytes, its passive segment bulkSegment.
func bulkModule() []byte {
	get := []byte{0x20, 0, 0x20, 1, 0x20, 2}
	return module(section(idType, sig(i32+i32+i32, "")), section(idFunction, u(0), u(0), u(0), u(0)),
		section(idMemory, cat([]byte{1}, u(bulkMemory>>16), u(bulkMemory>>16))),
		section(idExport, export("fill", FunctionKind, 0), export("copy", FunctionKind, 1),
			export("init", FunctionKind, 2), export("drop", FunctionKind, 3), export("memory", MemoryKind, 0)),
		rawSection(idDataCount, u(2)), section(idCode, fn(nil, cat(get, []byte{opMisc, memoryFill, 0})...),
			fn(nil, cat(get, []byte{opMisc, memoryCopy, 0, 0})...),
			fn(nil, cat(get, []byte{opMisc, memoryInit, 1, 0})...), fn(nil, opMisc, 9, 1)),
		section(idData, cat(u(1), sized([]byte("another"))), cat(u(1), sized(pattern(bulkSegment)))))
}

// bulkGuests are a plain and a metered instance of bulkModule.
type bulkGuests struct {
	plain, metered api.Module
	fuel           *fuelSupply
}

func newBulkGuests(t testing.TB, slice int64) *bulkGuests {
	t.Helper()
	fuel := &fuelSupply{slice: slice, refills: -1}
	g := &bulkGuests{
		plain:   newHost(t, compiler(), &fuelSupply{}).mustStart(t, bulkModule()),
		metered: startMetered(t, bulkModule(), defaultPolicy(), fuel),
		fuel:    fuel,
	}
	g.plain.Memory().Write(0, pattern(bulkMemory))
	g.metered.Memory().Write(0, pattern(bulkMemory))
	return g
}

// compare runs an instruction in both instances and reports whether it trapped.
func (g *bulkGuests) compare(t testing.TB, name string, target, source, size uint32) (trapped bool) {
	t.Helper()
	args := []uint64{uint64(target), uint64(source), uint64(size)}
	_, want := g.plain.ExportedFunction(name).Call(context.Background(), args...)
	_, got := g.metered.ExportedFunction(name).Call(context.Background(), args...)
	expect.Must(t, (want == nil) == (got == nil), "%s %d, %d, %d: %v, plain %v", name, target, source, size, got, want)
	a, _ := g.plain.Memory().Read(0, bulkMemory)
	b, _ := g.metered.Memory().Read(0, bulkMemory)
	expect.Must(t, bytes.Equal(a, b), "%s %d, %d, %d: the memories differ", name, target, source, size)
	return got != nil
}

// TestChunksAtBounds compares bulk memory instructions with those of the engine (section 4.4.7) around chunk and memory
// bounds.
func TestChunksAtBounds(t *testing.T) {
	t.Parallel()
	const chunk, top, end = chunkBytes, math.MaxUint32, bulkMemory
	g := newBulkGuests(t, 100)
	for _, c := range []struct {
		name                 string
		target, source, size uint32
		traps                bool
	}{
		{"fill", 0, 7, 0, false}, {"fill", end, 7, 0, false}, {"fill", end + 1, 7, 0, true},
		{"fill", top, 7, 0, true}, {"fill", 1, 7, chunk - 1, false}, {"fill", 3, 8, chunk, false},
		{"fill", 5, 9, chunk + 1, false}, {"fill", 7, 0x1ff, 3*chunk + 11, false}, {"fill", 9, 0, 2 * chunk, false},
		{"fill", 0, 0xffffff01, end, false}, {"fill", end - 2*chunk, 3, 2 * chunk, false},
		{"fill", end - 2*chunk, 3, 2*chunk + 1, true}, {"fill", 0, 3, end + 1, true}, {"fill", 1, 3, end, true},
		{"fill", 1, 3, top, true}, {"fill", top, 3, chunk + 1, true}, {"fill", top - chunk, 3, chunk + 1, true},
		{"fill", top, 3, top, true},

		{"copy", 0, 0, 0, false}, {"copy", end, end, 0, false}, {"copy", end + 1, 0, 0, true},
		{"copy", 0, end + 1, 0, true}, {"copy", 0, 4 * chunk, chunk, false},
		{"copy", 0, 4 * chunk, chunk + 1, false}, {"copy", 4 * chunk, 0, 3*chunk + 5, false},
		{"copy", 5, 5, 3 * chunk, false}, {"copy", 1, 0, 3*chunk + 5, false}, {"copy", 0, 1, 3*chunk + 5, false},
		{"copy", chunk, 0, 3*chunk + 5, false}, {"copy", 0, chunk, 3*chunk + 5, false},
		{"copy", chunk + 1, 0, 3 * chunk, false}, {"copy", 0, chunk + 1, 3 * chunk, false},
		{"copy", chunk - 1, 0, 5 * chunk, false}, {"copy", 0, chunk - 1, 5 * chunk, false},
		{"copy", 0, 1, end - 1, false}, {"copy", 1, 0, end - 1, false}, {"copy", 1, 0, end, true},
		{"copy", 0, 1, end, true}, {"copy", 0, end - chunk, chunk + 1, true},
		{"copy", end - chunk, 0, chunk + 1, true}, {"copy", 0, top, chunk + 1, true},
		{"copy", top, 0, chunk + 1, true}, {"copy", top, top, top, true}, {"copy", 0, top - chunk, chunk + 1, true},

		{"init", 0, 0, 0, false}, {"init", end, bulkSegment, 0, false}, {"init", 0, bulkSegment + 1, 0, true},
		{"init", end + 1, 0, 0, true}, {"init", 3, 5, chunk, false}, {"init", 3, 5, chunk + 1, false},
		{"init", 3, 5, 3 * chunk, false}, {"init", 9, 0, bulkSegment, false}, {"init", 0, 1, bulkSegment, true},
		{"init", 0, 0, bulkSegment + 1, true}, {"init", end - bulkSegment, 0, bulkSegment, false},
		{"init", end - bulkSegment + 1, 0, bulkSegment, true}, {"init", 0, top, chunk + 1, true},
		{"init", top, 0, chunk + 1, true}, {"init", 0, top - chunk, chunk + 1, true}, {"drop", 0, 0, 0, false},
		{"init", 0, 0, 0, false}, {"init", end, 0, 0, false}, {"init", 0, 0, 1, true},
		{"init", 0, 0, chunk + 1, true}, {"init", 0, 1, 0, true},
	} {
		expect.That(t, g.compare(t, c.name, c.target, c.source, c.size) == c.traps, "%s %d, %d, %d: trapped: %v",
			c.name, c.target, c.source, c.size, !c.traps)
	}
}

func FuzzChunks(f *testing.F) {
	g := newBulkGuests(f, 1000)
	f.Add(byte(1), uint32(1), uint32(0), uint32(3*chunkBytes))
	f.Fuzz(func(t *testing.T, which byte, target, source, size uint32) {
		g.compare(t, []string{"fill", "copy", "init"}[which%3], target, source, size)
	})
}

// TestChunksCheckFuel traps each instruction between two chunks.
func TestChunksCheckFuel(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]uint64{"fill": 1, "copy": 4 * chunkBytes, "init": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newBulkGuests(t, 1)
			g.fuel.refills = 2
			_, err := g.metered.ExportedFunction(name).Call(context.Background(), 0, source, 3*chunkBytes)
			expect.Must(t, errors.Is(err, errOutOfFuel), "%v", err)
			memory, _ := g.metered.Memory().Read(0, bulkMemory)
			for i, changed := range []bool{true, true, false} {
				here := memory[i*chunkBytes:][:chunkBytes]
				expect.That(t, bytes.Equal(here, pattern(bulkMemory)[i*chunkBytes:][:chunkBytes]) != changed,
					"chunk %d changed: %v", i, !changed)
			}
		})
	}
}

// TestChunksCost checks that an operation costs the same in chunks as at once, with slices of any size.
func TestChunksCost(t *testing.T) {
	t.Parallel()
	for _, slice := range []int64{1, 500, math.MaxInt32} {
		for name, size := range map[string]uint64{"fill": 5*chunkBytes + 70, "copy": 3*chunkBytes + 1,
			"init": bulkSegment} {
			g := newBulkGuests(t, slice)
			before := g.fuel.burned()
			expect.Value(g.metered.ExportedFunction(name).Call(context.Background(), 0, 0, size))(t)
			const function = 3 + 4 // entry and instructions
			if burned := g.fuel.burned() - before; burned != function+int64(size)/64 {
				t.Errorf("%s of %d in slices of %d: %d units", name, size, slice, burned)
			}
			if checks := int(size / chunkBytes); slice == 1 && g.fuel.calls < checks {
				t.Errorf("%s of %d: fuel checked %d times", name, size, g.fuel.calls)
			}
		}
	}
}
