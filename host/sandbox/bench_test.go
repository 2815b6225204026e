package sandbox

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
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
						if r, err := p.Score(ctx, facts); err != nil || r.Score != 30 || len(r.Signals) != 3 {
							b.Fatalf("%+v, %v", r, err)
						}
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

// BenchmarkOvershoot measures by how much guests that do not return exceed a limit of 20 ms of processor time, on an
// idle machine and while other layers keep every processor busy. The guests have unlimited fuel. For a meaningful p99
// use -benchtime=200x or more.
func BenchmarkOvershoot(b *testing.B) {
	for _, h := range hostileGuests() {
		if !h.want.isSlow() {
			continue
		}
		b.Run(h.name+"/idle", func(b *testing.B) { h.overshoot(b, 0) })
		b.Run(h.name+"/busy", func(b *testing.B) { h.overshoot(b, runtime.GOMAXPROCS(0)) })
	}
}

func (h hostileGuest) overshoot(b *testing.B, busyCallers int) {
	b.Helper()
	const limit = 20 * time.Millisecond
	box := New(Config{Instances: 1 + busyCallers, Logger: discard()})
	guest := openIn(b, box, h.module())
	guest.bounds = bounds{fuel: math.MaxInt64 / 2, time: limit}
	other := openIn(b, box, hostileGuest{wasm: slow(500_000)}.module())
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range busyCallers {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = other.Score(context.Background(), check.Input{})
			}
		})
	}
	var over []time.Duration
	for b.Loop() {
		over = append(over, max(0, guest.timeOf(b)-limit))
	}
	stop()
	wg.Wait()
	slices.Sort(over)
	for name, rank := range map[string]int{"p50": 50, "p99": 99, "max": 100} {
		b.ReportMetric(float64(over[(len(over)-1)*rank/100].Microseconds()), name+"-us")
	}
}

// timeOf returns the processor time of a call that overruns its limit.
func (p *Plugin) timeOf(b *testing.B) time.Duration {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	if _, err := p.Score(context.Background(), facts(testEntity, "")); !errors.Is(err, errTimeLimit) {
		b.Fatalf("%v, want an overrun", err)
	}
	return threadTime() - began
}
