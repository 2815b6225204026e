package meter

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// tight is a loop of seven instructions as clang writes it: a hash of the numbers below its argument.
func tight() []byte {
	return module(section(idType, sig(i32, i32)), section(idFunction, u(0)), section(idExport, export("run", 0, 0)),
		section(idCode, fn([][]byte{{2, 0x7f}}, 0x03, 0x40, 0x20, 1, 0x20, 2, 0x73, 0x41, 0x93, 0x83, 0x80, 8, 0x6c,
			0x21, 1,
			0x20, 2, 0x41, 1, 0x6a, 0x22, 2, 0x20, 0, 0x49, 0x0d, 0, 0x0b, 0x20, 1)))
}

// hold is the refill of a host that caches the global and has no deadline.
func hold(b *testing.B, config wazero.RuntimeConfig, wasm []byte) api.Module {
	b.Helper()
	w := newWorld(b, config, &supply{slice: Slice, refills: -1})
	m, err := w.start(wasm)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func threeWays(b *testing.B, wasm []byte, name string, arg uint64) {
	m, err := Instrument(wasm, DefaultLimits())
	if err != nil {
		b.Fatal(err)
	}
	for _, way := range []struct {
		name   string
		wasm   []byte
		config wazero.RuntimeConfig
	}{
		{"plain", wasm, compiler()},
		{"metered", m.Wasm, compiler()},
		{"closeOnContextDone", wasm, compiler().WithCloseOnContextDone(true)},
	} {
		b.Run(way.name, func(b *testing.B) {
			guest := hold(b, way.config, way.wasm)
			run := guest.ExportedFunction(name)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for b.Loop() {
				if _, err := run.Call(ctx, arg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoop(b *testing.B) { threeWays(b, tight(), "run", 100_000) }

func BenchmarkFib(b *testing.B) { threeWays(b, fib(), "run", 20) }

func BenchmarkGoLayer(b *testing.B) {
	wasm, err := goGuest()
	if err != nil {
		b.Fatal(err)
	}
	for name, arg := range map[string]uint64{"score": 1, "work": 100, "loop": 100_000} {
		b.Run(name, func(b *testing.B) { threeWays(b, wasm, name, arg) })
	}
}

func BenchmarkInstrument(b *testing.B) {
	wasm, err := goGuest()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Instrument(wasm, DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSlice measures how long a slice lasts: what a deadline may be late by. Its cases are the cheapest unit, the
// dearest we know (loads that miss every cache), and bulk operations; units/op is the overdraft included.
func BenchmarkSlice(b *testing.B) {
	chase := module(section(idType, sig("", "")), section(idFunction, u(0)), section(idMemory, cat([]byte{0}, u(256))),
		section(idExport, export("run", 0, 0), export("memory", 2, 0)),
		section(idCode, fn([][]byte{{1, 0x7f}}, looping(0x20, 0, 0x28, 2, 0, 0x21, 0)...)))
	for name, wasm := range map[string][]byte{
		"tight":       tight(),
		"chase":       chase,
		"fill 64 KiB": one(nil, looping(0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 4, 0xfc, 11, 0)...),
		"straight":    function(i32, i32, append([]byte{0x20, 0}, bytes.Repeat([]byte{0x20, 0, 0x6d}, 300_000)...)...),
		"call tree":   callTree(),
		"fib":         fib(),
	} {
		b.Run(name, func(b *testing.B) {
			m, err := Instrument(wasm, DefaultLimits())
			if err != nil {
				b.Fatal(err)
			}
			fuel := &supply{slice: Slice, refills: -1}
			guest, err := newWorld(b, compiler(), fuel).start(m.Wasm)
			if err != nil {
				b.Fatal(err)
			}
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
				if _, err := guest.ExportedFunction("run").Call(context.Background(), args...); err == nil &&
					fuel.calls == 0 {
					b.Fatal(fmt.Errorf("never looked at its fuel"))
				}
			}
		})
	}
}
