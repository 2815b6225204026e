package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
)

// BenchmarkSmallLayer measures a whole call of a layer of a few lines, as a check makes it: an instance from the pool,
// fuel and a deadline, five words looked for, three signals taken. The same layer is written in Go and in C, and runs
// on instances that are put back after each call and on ones that are not.
func BenchmarkSmallLayer(b *testing.B) {
	facts := check.Input{Entity: entity.Facts{"domain.ascii": "paypal-secure-login.example"}}
	for language, build := range map[string]func(testing.TB) registry.Module{"go": smallInGo, "c": smallInC} {
		b.Run(language, func(b *testing.B) {
			m, box := build(b), sandboxOf(b, 1)
			m.Manifest.BudgetMS = 10_000 // a busy machine may put a process aside for longer than any layer may run
			for name, open := range map[string]func(context.Context, registry.Module) (*Plugin, error){
				"shared": box.OpenShared, "put-back": box.Open,
			} {
				b.Run(name, func(b *testing.B) {
					p, err := open(b.Context(), m)
					if err != nil {
						b.Fatal(err)
					}
					defer closePlugin(b, p)
					ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
					defer cancel()
					b.ReportAllocs()
					for b.Loop() {
						if r, err := p.Score(ctx, facts); err != nil || r.Score != 30 || len(r.Signals) != 3 {
							b.Fatalf("%+v, %v", r, err)
						}
					}
				})
			}
		})
	}
}

// smallInGo builds testdata/small as a layer's author would.
func smallInGo(t testing.TB) registry.Module {
	t.Helper()
	wasm, err := registry.CompileGo(t.Context(), filepath.Join("testdata", "small"))
	if err != nil {
		t.Fatal(err)
	}
	return unpacked(t, wasm)
}

// smallInC builds testdata/small.c with clang, where there is one.
func smallInC(t testing.TB) registry.Module {
	t.Helper()
	file := filepath.Join(t.TempDir(), "small.wasm")
	if text, err := exec.CommandContext(t.Context(), "clang", "--target=wasm32", "-O2", "-mbulk-memory", "-nostdlib",
		"-Wl,--no-entry", filepath.Join("testdata", "small.c"), "-o", file).CombinedOutput(); err != nil {
		t.Skipf("install clang and lld to run this: %v\n%s", err, text)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join("testdata", "small", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := registry.Pack(wasm, manifest)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked(t, packed)
}

func unpacked(t testing.TB, wasm []byte) registry.Module {
	t.Helper()
	m, err := registry.OpenModule(wasm)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
