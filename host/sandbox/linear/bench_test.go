package linear

import (
	"fmt"
	"testing"

	"assay/registry/expect"
)

// BenchmarkRestore measures every strategy, without the call that writes and with it. "never" measures only the call.
func BenchmarkRestore(b *testing.B) {
	type benchmark struct {
		name string
		wasm func() ([]byte, error)
		call func(*testing.B, *guest)
	}
	guests := []benchmark{
		{"go", statefulLayer, func(b *testing.B, g *guest) { g.score(b, map[string]string{"entity.value": "a.de"}) }},
	}
	for _, pages := range []uint64{1, 2, 4, 8} {
		guests = append(guests, benchmark{
			fmt.Sprintf("assembled-%dKiB", pages*64),
			func() ([]byte, error) { return assemble(pages), nil },
			func(b *testing.B, g *guest) { // a stack, a buffer and a heap
				for _, at := range []uint64{16, activeAt, 0x4000, 0x8000} {
					g.call(b, "poke", at, 7)
				}
			},
		})
	}
	for _, test := range guests {
		for name, s := range strategies() {
			b.Run(test.name+"/"+name, func(b *testing.B) {
				g := newEngine(b, expect.Value(test.wasm())(b), s).startWithSnapshot(b)
				b.Run("alone", func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						test.call(b, g)
						b.StartTimer()
						g.restore(b)
					}
				})
				b.Run("with-call", func(b *testing.B) {
					for b.Loop() {
						test.call(b, g)
						g.restore(b)
					}
				})
			})
		}
		b.Run(test.name+"/never/with-call", func(b *testing.B) {
			g := newEngine(b, expect.Value(test.wasm())(b), strategy{maxCopied: maxSize}).startWithSnapshot(b)
			for b.Loop() {
				test.call(b, g)
			}
		})
	}
}

// BenchmarkStart measures an instance from its reservation to its end, which is the cost of replacing one.
func BenchmarkStart(b *testing.B) {
	for name, compile := range map[string]func() ([]byte, error){
		"go": statefulLayer, "assembled": func() ([]byte, error) { return assemble(1), nil },
	} {
		b.Run(name, func(b *testing.B) {
			e := newEngine(b, expect.Value(compile())(b), strategy{maxCopied: defaultMaxCopied})
			e.startWithSnapshot(b) // keeps the image in the store
			for b.Loop() {
				g := expect.Value(e.instantiate())(b)
				expect.NoError(b, g.memory.Snapshot())
				expect.NoError(b, g.Close(b.Context()))
			}
		})
	}
}
