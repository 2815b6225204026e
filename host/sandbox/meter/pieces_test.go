package meter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

const (
	bulkMemory  = 8 * 65536
	bulkSegment = 200_000
)

// pattern differs from itself wherever it is moved to.
func pattern(n int) []byte {
	b := make([]byte, n)
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// bulk exports the bulk memory instructions, each with its operands as parameters, and data.drop. Its memory is
// bulkMemory bytes, its passive segment bulkSegment.
func bulk() []byte {
	get := []byte{0x20, 0, 0x20, 1, 0x20, 2}
	return module(section(idType, sig(i32+i32+i32, "")), section(idFunction, u(0), u(0), u(0), u(0)),
		section(idMemory, cat([]byte{1}, u(bulkMemory>>16), u(bulkMemory>>16))),
		section(idExport, export("fill", 0, 0), export("copy", 0, 1), export("init", 0, 2), export("drop", 0, 3),
			export("memory", 2, 0)),
		rawSection(idCount, u(2)),
		section(idCode, fn(nil, cat(get, []byte{opMisc, memoryFill, 0})...),
			fn(nil, cat(get, []byte{opMisc, memoryCopy, 0, 0})...),
			fn(nil, cat(get, []byte{opMisc, memoryInit, 1, 0})...), fn(nil, opMisc, 9, 1)),
		section(idData, cat(u(1), sized([]byte("another"))), cat(u(1), sized(pattern(bulkSegment)))))
}

// twins are a module and what metering makes of it.
type twins struct {
	plain, metered api.Module
	fuel           *supply
}

func newTwins(t testing.TB, slice int64) *twins {
	t.Helper()
	fuel := &supply{slice: slice, refills: -1}
	guest, _ := metered(t, bulk(), defaultScheme(), fuel)
	plain, err := newWorld(t, compiler(), &supply{}).start(bulk())
	if err != nil {
		t.Fatal(err)
	}
	w := &twins{plain, guest, fuel}
	w.reset()
	return w
}

func (w *twins) reset() {
	w.plain.Memory().Write(0, pattern(bulkMemory))
	w.metered.Memory().Write(0, pattern(bulkMemory))
}

// agree does the same in both and says whether it trapped.
func (w *twins) agree(t testing.TB, name string, target, source, size uint32) (trapped bool) {
	t.Helper()
	args := []uint64{uint64(target), uint64(source), uint64(size)}
	_, want := w.plain.ExportedFunction(name).Call(context.Background(), args...)
	_, got := w.metered.ExportedFunction(name).Call(context.Background(), args...)
	if (want == nil) != (got == nil) {
		t.Fatalf("%s %d, %d, %d: %v, plain %v", name, target, source, size, got, want)
	}
	a, _ := w.plain.Memory().Read(0, bulkMemory)
	b, _ := w.metered.Memory().Read(0, bulkMemory)
	if !bytes.Equal(a, b) {
		t.Fatalf("%s %d, %d, %d: the memories differ", name, target, source, size)
	}
	return got != nil
}

// TestPieces tries the bulk memory instructions at their edges against the engine's own (core specification 4.4.7).
func TestPieces(t *testing.T) {
	t.Parallel()
	const piece, top, end = pieceBytes, math.MaxUint32, bulkMemory
	w := newTwins(t, 100)
	for _, c := range []struct {
		name                 string
		target, source, size uint32
		traps                bool
	}{
		{"fill", 0, 7, 0, false}, {"fill", end, 7, 0, false}, {"fill", end + 1, 7, 0, true}, {"fill", top, 7, 0, true},
		{"fill", 1, 7, piece - 1, false}, {"fill", 3, 8, piece, false}, {"fill", 5, 9, piece + 1, false},
		{"fill", 7, 0x1ff, 3*piece + 11, false}, {"fill", 9, 0, 2 * piece, false}, {"fill", 0, 0xffffff01, end, false},
		{"fill", end - 2*piece, 3, 2 * piece, false}, {"fill", end - 2*piece, 3, 2*piece + 1, true},
		{"fill", 0, 3, end + 1, true},
		{"fill", 1, 3, end, true}, {"fill", 1, 3, top, true}, {"fill", top, 3, piece + 1, true},
		{"fill", top - piece, 3, piece + 1, true},
		{"fill", top, 3, top, true},

		{"copy", 0, 0, 0, false}, {"copy", end, end, 0, false}, {"copy", end + 1, 0, 0, true},
		{"copy", 0, end + 1, 0, true},
		{"copy", 0, 4 * piece, piece, false}, {"copy", 0, 4 * piece, piece + 1, false},
		{"copy", 4 * piece, 0, 3*piece + 5, false},
		{"copy", 5, 5, 3 * piece, false}, {"copy", 1, 0, 3*piece + 5, false}, {"copy", 0, 1, 3*piece + 5, false},
		{"copy", piece, 0, 3*piece + 5, false}, {"copy", 0, piece, 3*piece + 5, false},
		{"copy", piece + 1, 0, 3 * piece, false},
		{"copy", 0, piece + 1, 3 * piece, false}, {"copy", piece - 1, 0, 5 * piece, false},
		{"copy", 0, piece - 1, 5 * piece, false},
		{"copy", 0, 1, end - 1, false}, {"copy", 1, 0, end - 1, false}, {"copy", 1, 0, end, true},
		{"copy", 0, 1, end, true},
		{"copy", 0, end - piece, piece + 1, true}, {"copy", end - piece, 0, piece + 1, true},
		{"copy", 0, top, piece + 1, true},
		{"copy", top, 0, piece + 1, true}, {"copy", top, top, top, true}, {"copy", 0, top - piece, piece + 1, true},

		{"init", 0, 0, 0, false}, {"init", end, bulkSegment, 0, false}, {"init", 0, bulkSegment + 1, 0, true},
		{"init", end + 1, 0, 0, true},
		{"init", 3, 5, piece, false}, {"init", 3, 5, piece + 1, false}, {"init", 3, 5, 3 * piece, false},
		{"init", 9, 0, bulkSegment, false},
		{"init", 0, 1, bulkSegment, true}, {"init", 0, 0, bulkSegment + 1, true},
		{"init", end - bulkSegment, 0, bulkSegment, false},
		{"init", end - bulkSegment + 1, 0, bulkSegment, true}, {"init", 0, top, piece + 1, true},
		{"init", top, 0, piece + 1, true},
		{"init", 0, top - piece, piece + 1, true},
		{"drop", 0, 0, 0, false}, {"init", 0, 0, 0, false}, {"init", end, 0, 0, false}, {"init", 0, 0, 1, true},
		{"init", 0, 0, piece + 1, true},
		{"init", 0, 1, 0, true},
	} {
		if w.agree(t, c.name, c.target, c.source, c.size) != c.traps {
			t.Errorf("%s %d, %d, %d: trapped is %v", c.name, c.target, c.source, c.size, !c.traps)
		}
	}
}

// TestPiecesAtRandom does so for operands without a plan, a few of which lie outside.
func TestPiecesAtRandom(t *testing.T) {
	t.Parallel()
	w, random, trapped := newTwins(t, 1), rand.New(rand.NewPCG(3, 4)), 0
	const rounds = 1000
	for range rounds {
		name := []string{"fill", "copy", "init"}[random.IntN(3)]
		if w.agree(t, name, random.Uint32N(bulkMemory), random.Uint32N(bulkSegment), random.Uint32N(3*pieceBytes)) {
			trapped++
		}
	}
	if trapped == 0 || trapped == rounds {
		t.Errorf("%d of %d trapped: nothing was tried", trapped, rounds)
	}
}

func FuzzPieces(f *testing.F) {
	w := newTwins(f, 1000)
	f.Add(byte(1), uint32(1), uint32(0), uint32(3*pieceBytes))
	f.Fuzz(func(t *testing.T, which byte, target, source, size uint32) {
		w.agree(t, []string{"fill", "copy", "init"}[which%3], target, source, size)
	})
}

// TestPiecesStop ends each instruction between two pieces: the fuel is looked at before each.
func TestPiecesStop(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]uint64{"fill": 1, "copy": 4 * pieceBytes, "init": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, 1)
			w.fuel.refills = 2
			_, err := w.metered.ExportedFunction(name).Call(context.Background(), 0, source, 3*pieceBytes)
			if !errors.Is(err, errStopped) {
				t.Fatal(err)
			}
			memory, _ := w.metered.Memory().Read(0, bulkMemory)
			for i, changed := range []bool{true, true, false} {
				if here := memory[i*pieceBytes:][:pieceBytes]; bytes.Equal(here,
					pattern(bulkMemory)[i*pieceBytes:][:pieceBytes]) == changed {
					t.Errorf("piece %d: changed is %v", i, !changed)
				}
			}
		})
	}
}

// TestPiecesCost has an instruction in pieces cost what it would in one, whatever the slices.
func TestPiecesCost(t *testing.T) {
	t.Parallel()
	for _, slice := range []int64{1, 500, math.MaxInt32} {
		for name, size := range map[string]uint64{"fill": 5*pieceBytes + 70, "copy": 3*pieceBytes + 1,
			"init": bulkSegment} {
			w := newTwins(t, slice)
			before := w.fuel.burned()
			if _, err := w.metered.ExportedFunction(name).Call(context.Background(), 0, 0, size); err != nil {
				t.Fatal(err)
			}
			const own = 3 + 4 // the entry, and the instructions
			if burned := w.fuel.burned() - before; burned != own+int64(size)/64 {
				t.Errorf("%s of %d in slices of %d: %d units", name, size, slice, burned)
			}
			if looks := int(size / pieceBytes); slice == 1 && w.fuel.calls < looks {
				t.Errorf("%s of %d: looked at the fuel %d times", name, size, w.fuel.calls)
			}
		}
	}
}
