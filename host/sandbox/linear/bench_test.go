package linear

import (
	"fmt"
	"testing"

	"assay/internal/expect"
)

// Facts of typical checks.
var (
	ibanFacts = map[string]string{
		"iban.country": "DE", "iban.listed": "yes", "iban.structure": "ok", "iban.check": "ok",
		"iban.check_digits": "12", "iban.bban": "500105170648489890", "iban.bank": "50010517",
		"iban.account": "0648489890", "iban.sepa": "yes", "entity.country": "DE",
	}
	emailFacts = map[string]string{
		"email.domain": "mailbox-secure.example", "email.local": "paypal-support",
		"domain.name":        "mailbox-secure.example",
		"domain.registrable": "mailbox-secure.example", "domain.suffix": "example", "domain.suffix_kind": "icann",
	}
)

// BenchmarkRestore measures every strategy, without the call that writes and with it. "never" measures only the call.
func BenchmarkRestore(b *testing.B) {
	type benchmark struct {
		name string
		wasm func() ([]byte, error)
		call func(*testing.B, *guest)
	}
	guests := []benchmark{
		{"go-iban", ibanLayer, func(b *testing.B, g *guest) { g.score(b, ibanFacts) }},
		{"go-email", emailLayer, func(b *testing.B, g *guest) { g.score(b, emailFacts) }},
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
				g := newEngine(b, built(b, test.wasm), s).startWithSnapshot(b)
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
			g := newEngine(b, built(b, test.wasm), strategy{maxCopied: maxSize}).startWithSnapshot(b)
			for b.Loop() {
				test.call(b, g)
			}
		})
	}
}

// BenchmarkStart measures an instance from its reservation to its end, which is the cost of replacing one.
func BenchmarkStart(b *testing.B) {
	for name, compile := range map[string]func() ([]byte, error){
		"go-iban":   ibanLayer,
		"assembled": func() ([]byte, error) { return assemble(1), nil },
	} {
		b.Run(name, func(b *testing.B) {
			e := newEngine(b, built(b, compile), strategy{maxCopied: defaultMaxCopied})
			e.startWithSnapshot(b) // keeps the image in the store
			for b.Loop() {
				g := expect.Value(e.instantiate())(b)
				expect.NoError(b, g.memory.Snapshot())
				expect.NoError(b, g.Close(b.Context()))
			}
		})
	}
}
