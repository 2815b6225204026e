package meter

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"

	"assay/registry/expect"
)

// benchmarkCall compares the original module, the instrumented module, and wazero's own interruption.
func benchmarkCall(b *testing.B, wasm []byte, name string, arg uint64) {
	for _, variant := range []struct {
		name   string
		wasm   []byte
		config wazero.RuntimeConfig
	}{
		{"plain", wasm, compiler()},
		{"metered", mustInstrument(b, wasm).Wasm, compiler()},
		{"closeOnContextDone", wasm, compiler().WithCloseOnContextDone(true)},
	} {
		b.Run(variant.name, func(b *testing.B) {
			guest := newHost(b, variant.config, &fuelSupply{slice: Slice, refills: -1}).mustStart(b, variant.wasm)
			f := guest.ExportedFunction(name)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for b.Loop() {
				expect.Value(f.Call(ctx, arg))(b)
			}
		})
	}
}

func BenchmarkLoop(b *testing.B) { benchmarkCall(b, hashLoop(), "run", 100_000) }

func BenchmarkFibonacci(b *testing.B) { benchmarkCall(b, fibonacci(), "run", 20) }

// goGuest returns testdata/layer as Go compiles it.
func goGuest(b *testing.B) []byte {
	b.Helper()
	file := filepath.Join(b.TempDir(), "layer.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-o", file, "./testdata/layer")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	expect.Value(cmd.CombinedOutput())(b)
	return expect.Value(os.ReadFile(file))(b)
}

func BenchmarkGoLayer(b *testing.B) {
	guest := goGuest(b)
	for name, arg := range map[string]uint64{"score": 1, "work": 100, "loop": 100_000} {
		b.Run(name, func(b *testing.B) { benchmarkCall(b, guest, name, arg) })
	}
}

func BenchmarkInstrument(b *testing.B) {
	wasm := goGuest(b)
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		mustInstrument(b, wasm)
	}
}

// BenchmarkSlice measures how long a slice lasts, which is how late a deadline may be noticed. The cases are cheap
// instructions, loads that miss every cache, and bulk operations.
func BenchmarkSlice(b *testing.B) {
	chase := module(section(idType, sig("", "")), section(idFunction, u(0)), section(idMemory, cat([]byte{0}, u(256))),
		section(idExport, export("run", FunctionKind, 0), export("memory", MemoryKind, 0)),
		section(idCode, fn(locals(1, I32), endless(0x20, 0, 0x28, 2, 0, 0x21, 0)...)))
	for name, wasm := range map[string][]byte{
		"hash loop":   hashLoop(),
		"chase":       chase,
		"fill 64 KiB": withMemory(endless(0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 4, opMisc, memoryFill, 0)...),
		"straight":    function(i32, i32, cat([]byte{0x20, 0}, repeat(300_000, 0x20, 0, 0x6d))...),
		"call tree":   callTree(),
		"fibonacci":   fibonacci(),
	} {
		b.Run(name, func(b *testing.B) {
			fuel := &fuelSupply{slice: Slice, refills: -1}
			guest := startMetered(b, wasm, defaultPolicy(), fuel)
			if name == "chase" { // a cycle through 16 MiB in steps that no prefetcher follows
				const words = 16 << 20 / 4
				for i, at := 0, uint32(0); i < words; i++ {
					next := (at*1664525 + 1013904223) % words
					guest.Memory().WriteUint32Le(at*4, next*4)
					at = next
				}
			}
			fuel.refills = b.N
			args := make([]uint64, len(guest.ExportedFunction("run").Definition().ParamTypes()))
			for i := range args {
				args[i] = 1 << 31
			}
			b.ResetTimer()
			for fuel.refills > 0 {
				err := run(guest, args...)
				expect.Must(b, err != nil || fuel.calls != 0, "the guest never checked its fuel")
			}
		})
	}
}
