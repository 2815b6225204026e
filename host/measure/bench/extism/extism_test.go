// Package extism compares calls of a layer in the sandbox with calls through Extism's Go SDK, on the same WebAssembly
// engine. It is a separate module, so that nothing else in this repository depends on Extism.
package extism

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
)

const (
	name = "paypal-secure-login.example"
	// timeout is the time limit of a call in Extism, in milliseconds. A busy machine may suspend the process for long.
	timeout = 10_000
)

// caller calls the layer once and returns its signals.
type caller func(context.Context) ([]check.Signal, error)

// opener is a method of the sandbox that opens a plugin. The methods differ in whether instances are restored after
// each call.
type opener func(context.Context, registry.Module) (*sandbox.Plugin, error)

// BenchmarkAgainstExtism alternates between calls of the same layer in the sandbox and in Extism. Both sides use the
// same language, warm instances and a time limit, and neither uses JSON. It reports medians of many short runs, so that
// other work on the machine affects both sides alike.
func BenchmarkAgainstExtism(b *testing.B) {
	small := filepath.Join("..", "..", "sandbox", "testdata")
	manifest, err := os.ReadFile(filepath.Join(small, "small", "manifest.json"))
	if err != nil {
		b.Fatal(err)
	}
	for language, build := range map[string]func(testing.TB, string) []byte{"go": buildGo, "c": buildC} {
		b.Run(language, func(b *testing.B) {
			packed, err := registry.Pack(build(b, small), manifest, nil)
			if err != nil {
				b.Fatal(err)
			}
			m, err := registry.OpenModule(packed)
			if err != nil {
				b.Fatal(err)
			}
			box := sandbox.New(sandbox.Config{Instances: 1, Logger: slog.New(slog.DiscardHandler)})
			theirs := inExtism(b, build(b, "testdata"))
			for way, open := range map[string]opener{"shared": box.OpenShared, "put-back": box.Open} {
				b.Run(way, func(b *testing.B) { compare(b, inSandbox(b, open, m), theirs) })
			}
		})
	}
}

func sameSignal(a, b check.Signal) bool {
	return a.Points == b.Points && a.Code == b.Code && a.Text == b.Text
}

func compare(b *testing.B, ours, theirs caller) {
	want, err := ours(b.Context())
	if err != nil || len(want) != 3 {
		b.Fatalf("in the sandbox: %v, %v", want, err)
	}
	if got, err := theirs(b.Context()); err != nil || !slices.EqualFunc(got, want, sameSignal) {
		b.Fatalf("in Extism: %v, %v, want %v", got, err, want)
	}
	var ratios, our, their []float64
	for b.Loop() {
		o, t := run(b, ours), run(b, theirs)
		our, their, ratios = append(our, o), append(their, t), append(ratios, t/o)
	}
	b.ReportMetric(0, "ns/op") // meaningless here: it covers both sides
	b.ReportMetric(median(our), "assay-ns")
	b.ReportMetric(median(their), "extism-ns")
	b.ReportMetric(median(ratios), "extism/assay") // not the ratio of the medians
}

// run returns the mean duration of several consecutive calls in nanoseconds.
func run(b *testing.B, call caller) float64 {
	const calls = 50
	ctx := b.Context()
	began := time.Now()
	for range calls {
		if _, err := call(ctx); err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(began).Nanoseconds()) / calls
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func inSandbox(b *testing.B, open opener, m registry.Module) caller {
	b.Helper()
	p, err := open(b.Context(), m)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close(context.WithoutCancel(b.Context())) })
	input := check.Input{Entity: entity.Facts{"domain.ascii": name}}
	return func(ctx context.Context) ([]check.Signal, error) {
		r, err := p.Score(ctx, input)
		return r.Signals, err
	}
}

// inExtism reuses one instance, as a program that calls often would.
func inExtism(b *testing.B, wasm []byte) caller {
	b.Helper()
	p, err := sdk.NewPlugin(b.Context(), sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: wasm}}, Timeout: timeout},
		sdk.PluginConfig{EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfigCompiler()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.CloseWithContext(context.WithoutCancel(b.Context())) })
	return func(ctx context.Context) ([]check.Signal, error) {
		code, out, err := p.CallWithContext(ctx, "score", []byte(name))
		if err != nil || code != 0 {
			return nil, fmt.Errorf("exit code %d: %w", code, err)
		}
		return records(out)
	}
}

var errShort = errors.New("the output ends within a record")

// records decodes the output of the plugins in testdata. small.c describes the format.
func records(out []byte) ([]check.Signal, error) {
	var signals []check.Signal
	text := func() string {
		if len(out) == 0 || len(out) <= int(out[0]) {
			out = nil
			return ""
		}
		s := string(out[1 : 1+out[0]])
		out = out[1+out[0]:]
		return s
	}
	for len(out) > 0 {
		s := check.Signal{Points: int(out[0])}
		out = out[1:]
		s.Code, s.Text = text(), text()
		if s.Text == "" {
			return nil, errShort
		}
		signals = append(signals, s)
	}
	return signals, nil
}

// buildGo compiles the command small in folder dir.
func buildGo(t testing.TB, dir string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "small.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o",
		file, ".")
	cmd.Dir = filepath.Join(dir, "small")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	return built(t, cmd, file)
}

// buildC compiles small.c in folder dir. Without clang it skips the test.
func buildC(t testing.TB, dir string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "small.wasm")
	return built(t, exec.CommandContext(t.Context(), "clang", "--target=wasm32", "-O2", "-mbulk-memory", "-nostdlib",
		"-Wl,--no-entry", filepath.Join(dir, "small.c"), "-o", file), file)
}

func built(t testing.TB, cmd *exec.Cmd, file string) []byte {
	t.Helper()
	if text, err := cmd.CombinedOutput(); err != nil {
		if cmd.Args[0] == "clang" {
			t.Skipf("install clang and lld to run this: %v\n%s", err, text)
		}
		t.Fatalf("%v\n%s", err, text)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
