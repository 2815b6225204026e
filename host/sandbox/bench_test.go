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
	"assay/registry/expect"
)

// BenchmarkSmallLayer measures a whole call of a small layer with its deadline. The layer looks for five words and
// emits three signals. It is written in Go and in C, and runs on restored and on shared instances.
func BenchmarkSmallLayer(b *testing.B) {
	facts := check.Input{Entity: entity.Facts{"domain.ascii": "paypal-secure-login.example"}}
	for language, build := range map[string]func(testing.TB) registry.Module{"go": smallInGo, "c": smallInC} {
		b.Run(language, func(b *testing.B) {
			m, box := build(b), sandboxOf(b, 1)
			for name, open := range map[string]func(context.Context, registry.Module) (*Plugin, error){
				"shared": box.OpenShared, "restored": box.Open,
			} {
				b.Run(name, func(b *testing.B) {
					p := expect.Value(open(b.Context(), m))(b)
					defer closePlugin(b, p)
					ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
					defer cancel()
					b.ReportAllocs()
					for b.Loop() {
						r, err := p.Score(ctx, facts)
						expect.Must(b, err == nil && r.Score == 30 && len(r.Signals) == 3, "%+v, %v", r, err)
					}
				})
			}
		})
	}
}

func smallInGo(t testing.TB) registry.Module { return buildGo(t, "small") }

// smallInC builds testdata/small.c with clang, or skips the benchmark without clang.
func smallInC(t testing.TB) registry.Module {
	t.Helper()
	file := filepath.Join(t.TempDir(), "small.wasm")
	if text, err := exec.CommandContext(t.Context(), "clang", "--target=wasm32", "-O2", "-mbulk-memory", "-nostdlib",
		"-Wl,--no-entry", filepath.Join("testdata", "small.c"), "-o", file).CombinedOutput(); err != nil {
		t.Skipf("install clang and lld to run this: %v\n%s", err, text)
	}
	wasm := expect.Value(os.ReadFile(file))(t)
	manifest := expect.Value(os.ReadFile(filepath.Join("testdata", "small", "manifest.json")))(t)
	packed := expect.Value(registry.Pack(wasm, manifest, nil))(t)
	return openModule(t, packed)
}
