package linear

import (
	"fmt"
	"testing"
)

// BenchmarkRestore measures every strategy, without the call that writes and with it. "never" measures only the call.
func BenchmarkRestore(b *testing.B) {
	poke := func(b *testing.B, g *guest) { // a stack, a buffer and a heap
		for _, at := range []uint64{16, activeAt, 0x4000, 0x8000} {
			g.call(b, "poke", at, 7)
		}
	}
	for _, pages := range []uint64{1, 2, 4, 8} {
		for name, s := range strategies() {
			b.Run(fmt.Sprintf("%dKiB/%s", pages*64, name), func(b *testing.B) {
				g := newEngine(b, assemble(pages), s).startWithSnapshot(b)
				b.Run("alone", func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						poke(b, g)
						b.StartTimer()
						g.restore(b)
					}
				})
				b.Run("with-call", func(b *testing.B) {
					for b.Loop() {
						poke(b, g)
						g.restore(b)
					}
				})
			})
		}
		b.Run(fmt.Sprintf("%dKiB/never/with-call", pages*64), func(b *testing.B) {
			g := newEngine(b, assemble(pages), strategy{maxCopied: maxSize}).startWithSnapshot(b)
			for b.Loop() {
				poke(b, g)
			}
		})
	}
}
