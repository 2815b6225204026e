package sandbox

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

// The sandbox looks at the length of what a guest passes before it looks at the bytes: 48 MiB cost neither memory nor
// time, and the guest learns that its answer is refused.
func TestLengthsAreCheckedFirst(t *testing.T) { //nolint:paralleltest // it measures allocations of the process
	const large, maxAllocated = 48 << 20, 64 << 10
	passing := func(code ...[]byte) func() []byte {
		return scoring(growTo64MiB, opDrop, concat(code...), returnScored).encode
	}
	vectors := make([]byte, 0, 8*maxVectors)
	for range maxVectors {
		vectors = binary.LittleEndian.AppendUint32(vectors, bufferAt)
		vectors = binary.LittleEndian.AppendUint32(vectors, large)
	}
	printing := newGuest().importing(wasiWriteImport)
	printing.text(string(vectors))
	printing.scoring(growTo64MiB, opDrop, i32Const(1), i32Const(dataAt), i32Const(maxVectors), i32Const(0),
		callFunc(fnLog+1), opDrop, returnScored)
	longText := newGuest()
	for _, c := range []struct {
		name string
		wasm func() []byte
		want check.FailureReason
	}{
		{"signal text", longText.scoring(growTo64MiB, opDrop, i32Const(1), longText.text(codeOne), i32Const(bufferAt),
			i32Const(large), callFunc(fnSignal), returnScored).encode, check.Refused},
		{"signal code", passing(i32Const(1), i32Const(bufferAt), i32Const(large), i32Const(0), i32Const(1),
			callFunc(fnSignal)), check.Refused},
		{"threat", passing(i32Const(bufferAt), i32Const(large), callFunc(fnThreat)), check.Refused},
		{"fact name", passing(i32Const(bufferAt), i32Const(large), i32Const(0), i32Const(0), callFunc(fnFact), opDrop),
			""},
		{"log", passing(i32Const(0), i32Const(bufferAt), i32Const(large), callFunc(fnLog)), ""},
		{"printed output", printing.encode, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			box := sandboxOf(t, 1)
			p := expect.Value(box.OpenShared(t.Context(), hostileGuest{wasm: c.wasm, memoryMB: 64}.module()))(t)
			defer closePlugin(t, p)
			score := func() check.FailureReason {
				if _, err := p.Score(t.Context(), facts(testEntity, "")); err != nil {
					return failureOf(t, err).Reason
				}
				return ""
			}
			const calls = 20
			score() // grows the memory
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				got := score()
				expect.Must(t, got == c.want, "reason %q, want %q", got, c.want)
			}
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) / calls; allocated > maxAllocated {
				t.Errorf("%d bytes allocated by a call, want at most %d", allocated, maxAllocated)
			}
		})
	}
}

// What the host copies and examines for a guest costs fuel by its size.
func TestHostWorkCostsFuel(t *testing.T) {
	t.Parallel()
	fuel := func(build func(g *guest) []byte) int64 {
		g := newGuest()
		result, err := openGuest(t, g.scoring(build(g), returnScored)).Score(t.Context(), facts(testEntity, ""))
		expect.NoError(t, err)
		return result.Fuel
	}
	sized := func(size int) string { return strings.Repeat("x", size) }
	type testCase struct {
		build func(g *guest, size int) []byte
		want  int64 // fuel for 128 more bytes
	}
	expect.Each(t, map[string]testCase{
		"signal text": {func(g *guest, size int) []byte { return g.signal(1, codeOne, sized(size)) }, 128},
		"log":         {func(g *guest, size int) []byte { return g.log(sized(size)) }, 2},
	}, func(t *testing.T, c testCase) {
		small := fuel(func(g *guest) []byte { return c.build(g, 64) })
		large := fuel(func(g *guest) []byte { return c.build(g, 64+128) })
		expect.That(t, large-small == c.want, "%d units for 64 bytes, %d for 128 more, want %d more", small, large,
			c.want)
	})
	t.Run("fact", func(t *testing.T) {
		t.Parallel()
		g := newGuest()
		p := openGuest(t, g.scoring(g.fact("entity.value", 4096), opDrop, returnScored))
		fuelFor := func(value string) int64 {
			result := expect.Value(p.Score(t.Context(), facts(value, "")))(t)
			return result.Fuel
		}
		small, large := fuelFor(sized(64)), fuelFor(sized(64+1024))
		expect.That(t, large-small == 1024/64, "%d units for 64 bytes, %d for 1024 more", small, large)
	})
}
