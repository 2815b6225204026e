package layers

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
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/expect"
)

// BenchmarkDomainLayers measures the cost of the sandbox for layers that score domains. An operation is one domain,
// scored by each layer. The same code runs on the same facts in three ways: in the sandbox; natively as in the layers'
// tests, where sdk.Run checks signals as the host does; and natively without these checks ("bare"). "ratio" alternates
// between the three, so that other load on the machine affects all of them, and reports medians.
func BenchmarkDomainLayers(b *testing.B) {
	source, err := installation.LayerSource(hosttest.Root(b), &installation.Config{DataDir: hosttest.SharedDir(b)},
		installation.QuietLog(&terminal.Terminal{Err: b.Output()}))
	expect.NoError(b, err)
	layers := []string{"domain", "lexical"}
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
		const calls = 40 // about one time slice of the scheduler
		var toNative, toBare, took []float64
		for b.Loop() {
			n, w, s := native.run(b, calls), bare.run(b, calls), guests.run(b, calls)
			toNative = append(toNative, s.ns/n.ns)
			toBare = append(toBare, s.ns/w.ns)
			took = append(took, s.ns/calls)
		}
		b.ReportMetric(0, "ns/op") // the duration of a round is meaningless
		b.ReportMetric(median(toNative), "sandboxed/native")
		b.ReportMetric(median(toBare), "sandboxed/bare")
		b.ReportMetric(median(took), "sandboxed-ns")
	})
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// spent is the cost of a number of operations.
type spent struct{ calls, ns, allocs, bytes float64 }

// report replaces this process's figures with those measured in another process.
func (s spent) report(b *testing.B) {
	b.ReportMetric(s.ns/s.calls, "ns/op")
	b.ReportMetric(s.allocs/s.calls, "allocs/op")
	b.ReportMetric(s.bytes/s.calls, "B/op")
}

// sandboxedLayers are plugins that score the same facts, opened like first-party ones.
type sandboxedLayers struct {
	plugins []*sandbox.Plugin
	facts   []entity.Facts
}

func sandboxLayers(b *testing.B, source registry.Source, layers []string, facts []entity.Facts) *sandboxedLayers {
	b.Helper()
	box := sandboxOf(b, nil)
	s := &sandboxedLayers{facts: facts}
	for _, name := range layers {
		m := expect.Value(source.Build(b.Context(), filepath.Join(source.Root, "plugins", name)))(b)
		p := expect.Value(box.OpenShared(b.Context(), m))(b)
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

// nativeLayers has one process for each layer, because commands cannot be linked into one binary.
type nativeLayers []nativeLayer

type nativeLayer struct {
	in  io.Writer
	out io.Reader
}

// buildNatively builds each layer and starts it. testdata/native's main.go replaces the layer's own. more replaces
// other files of the checkout, by path, with files in testdata/native.
func buildNatively(
	b *testing.B, source registry.Source, layers []string, facts []entity.Facts, more map[string]string,
) nativeLayers {
	b.Helper()
	dir := b.TempDir()
	var all nativeLayers
	for _, name := range layers {
		ours := func(file string) string {
			return filepath.Join(source.Root, "host", "e2e", "layers", "testdata", "native", file)
		}
		replace := map[string]string{filepath.Join(source.Root, "plugins", name, "main.go"): ours("main.go")}
		for theirs, file := range more {
			replace[filepath.Join(source.Root, theirs)] = ours(file)
		}
		overlay := expect.Value(json.Marshal(map[string]any{"Replace": replace}))(b)
		list, binary := filepath.Join(dir, name+".json"), filepath.Join(dir, name)
		expect.NoError(b, os.WriteFile(list, overlay, 0o600))
		build := exec.CommandContext(b.Context(), "go", "build", "-overlay", list, "-o", binary, "./plugins/"+name)
		build.Dir = source.Root
		text, err := build.CombinedOutput()
		expect.Must(b, err == nil, "building %s natively: %v\n%s", name, err, text)
		all = append(all, startNatively(b, binary, facts))
	}
	return all
}

// startNatively starts a layer's process, which exits at the end of its input.
func startNatively(b *testing.B, binary string, facts []entity.Facts) nativeLayer {
	b.Helper()
	cmd := exec.Command(binary)
	in := expect.Value(cmd.StdinPipe())(b)
	out := expect.Value(cmd.StdoutPipe())(b)
	expect.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	expect.NoError(b, json.NewEncoder(in).Encode(facts))
	return nativeLayer{in, out}
}

// run makes a number of calls to every layer and returns the sum of what they measured.
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
