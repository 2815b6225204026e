package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
)

// BenchmarkDomainLayers measures what the sandbox costs the layers that score a domain: an operation is one domain
// through all of them in turn. Three ways run the same code on the same facts: in the sandbox; natively as the layers'
// tests run it, where sdk.Run checks the texts as the host does; and bare, where nothing is checked. "ratio" takes the
// ways in turns, so that what else the machine does falls on all of them, and reports medians.
func BenchmarkDomainLayers(b *testing.B) {
	source, err := registry.FindSource(".", filepath.Join(sharedDir, "layers"))
	if err != nil {
		b.Fatal(err)
	}
	layers := []string{"domain", "patterns"}
	facts := benchFacts(b, registry.Manifest{Entities: []string{"domain"}})
	guests := sandboxLayers(b, source, layers, facts)
	native := buildNatively(b, source, layers, facts, nil)
	bare := buildNatively(b, source, layers, facts, map[string]string{"sdk/check_native.go": "check.go"})

	b.Run("sandboxed", func(b *testing.B) {
		b.ReportAllocs()
		b.ResetTimer()
		guests.run(b, b.N)
	})
	b.Run("native", func(b *testing.B) { native.run(b, b.N).report(b) })
	b.Run("bare", func(b *testing.B) { bare.run(b, b.N).report(b) })
	b.Run("ratio", func(b *testing.B) {
		const calls = 40 // about as long as a machine's scheduler lets a process run on
		var toNative, toBare, took []float64
		for b.Loop() {
			n, w, s := native.run(b, calls), bare.run(b, calls), guests.run(b, calls)
			toNative = append(toNative, s.ns/n.ns)
			toBare = append(toBare, s.ns/w.ns)
			took = append(took, s.ns/calls)
		}
		b.ReportMetric(0, "ns/op") // of a round: it says nothing
		b.ReportMetric(median(toNative), "sandboxed/native")
		b.ReportMetric(median(toBare), "sandboxed/bare")
		b.ReportMetric(median(took), "sandboxed-ns")
	})
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// spent is what a number of operations took.
type spent struct{ calls, ns, allocs, bytes float64 }

// report puts what a process of its own measured in the place of this one's figures.
func (s spent) report(b *testing.B) {
	b.ReportMetric(s.ns/s.calls, "ns/op")
	b.ReportMetric(s.allocs/s.calls, "allocs/op")
	b.ReportMetric(s.bytes/s.calls, "B/op")
}

// sandboxedLayers are plugins that score the same facts, opened as first-party ones are.
type sandboxedLayers struct {
	plugins []*sandbox.Plugin
	facts   []entity.Facts
}

func sandboxLayers(b *testing.B, source registry.Source, layers []string, facts []entity.Facts) *sandboxedLayers {
	b.Helper()
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quietLog(&terminal{err: b.Output()})})
	s := &sandboxedLayers{facts: facts}
	for _, name := range layers {
		m, err := source.Build(b.Context(), filepath.Join(source.Root, "plugins", name))
		if err != nil {
			b.Fatal(err)
		}
		m.Manifest.BudgetMS = 10_000 // a busy machine may put a process aside for longer than any layer may run
		p, err := box.OpenShared(b.Context(), m)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = p.Close(b.Context()) })
		s.plugins = append(s.plugins, p)
	}
	return s
}

func (s *sandboxedLayers) run(b *testing.B, calls int) spent {
	b.Helper()
	ctx := b.Context()
	began := b.Elapsed()
	for i := range calls {
		for _, p := range s.plugins {
			if _, err := p.Score(ctx, check.Input{Entity: s.facts[i%len(s.facts)]}); err != nil {
				b.Fatal(err)
			}
		}
	}
	return spent{calls: float64(calls), ns: float64((b.Elapsed() - began).Nanoseconds())}
}

// nativeLayers are processes, one a layer: commands cannot be linked into one.
type nativeLayers []nativeLayer

type nativeLayer struct {
	in  io.Writer
	out io.Reader
}

// buildNatively builds each layer with testdata/native's main.go in the place of its own, and so with more files of the
// checkout, and starts it.
func buildNatively(
	b *testing.B, source registry.Source, layers []string, facts []entity.Facts, more map[string]string,
) nativeLayers {
	b.Helper()
	dir := b.TempDir()
	var all nativeLayers
	for _, name := range layers {
		ours := func(file string) string { return filepath.Join(source.Root, "host", "testdata", "native", file) }
		replace := map[string]string{filepath.Join(source.Root, "plugins", name, "main.go"): ours("main.go")}
		for theirs, file := range more {
			replace[filepath.Join(source.Root, theirs)] = ours(file)
		}
		overlay, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			b.Fatal(err)
		}
		list, binary := filepath.Join(dir, name+".json"), filepath.Join(dir, name)
		if err := os.WriteFile(list, overlay, 0o600); err != nil {
			b.Fatal(err)
		}
		build := exec.CommandContext(b.Context(), "go", "build", "-overlay", list, "-o", binary, "./plugins/"+name)
		build.Dir = source.Root
		if text, err := build.CombinedOutput(); err != nil {
			b.Fatalf("building %s natively: %v\n%s", name, err, text)
		}
		all = append(all, startNatively(b, binary, facts))
	}
	return all
}

// startNatively starts a layer's process, which ends when its input does.
func startNatively(b *testing.B, binary string, facts []entity.Facts) nativeLayer {
	b.Helper()
	cmd := exec.Command(binary)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if err := json.NewEncoder(in).Encode(facts); err != nil {
		b.Fatal(err)
	}
	return nativeLayer{in, out}
}

// run has every layer make so many calls, and adds up what each says that they took.
func (n nativeLayers) run(b *testing.B, calls int) spent {
	b.Helper()
	sum := spent{calls: float64(calls)}
	for _, layer := range n {
		var s spent
		if _, err := fmt.Fprintln(layer.in, calls); err != nil {
			b.Fatal(err)
		}
		if _, err := fmt.Fscan(layer.out, &s.ns, &s.allocs, &s.bytes); err != nil {
			b.Fatal(err)
		}
		sum.ns, sum.allocs, sum.bytes = sum.ns+s.ns, sum.allocs+s.allocs, sum.bytes+s.bytes
	}
	return sum
}
