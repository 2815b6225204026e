package layers

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"assay/host/access/keyring"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/hosttest"
	lineups "assay/host/lineup"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// BenchmarkLayers measures each first-party layer in the sandbox.
func BenchmarkLayers(b *testing.B) {
	for _, m := range hosttest.BuiltLayers(b) {
		b.Run(m.Manifest.Name, func(b *testing.B) {
			box := sandboxOf(b, nil)
			plugin := expect.Value(box.OpenShared(b.Context(), m))(b)
			defer plugin.Close(b.Context())
			facts := benchFacts(b, m.Manifest)
			ctx := b.Context()
			for i := 0; b.Loop(); i++ {
				if _, err := plugin.Score(ctx, check.Input{Entity: facts[i%len(facts)]}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchFacts returns the facts of ordinary values of the types that a layer scores.
func benchFacts(b *testing.B, m registry.Manifest) []entity.Facts {
	values := map[string][]string{
		"domain": {"google.com", "shop-4711.example-store.com", "paypa1-secure-login.xyz", "münchen-blumen.de"},
		"email":  {"jane.doe@gmail.com", "customer.42@mail.example.org", "info@kleine-werkstatt.de"},
		"phone":  {"+33612345678", "+4930901820", "+12125550123"},
		"iban":   {"DE89370400440532013000", "FR1420041010050500013M02606"},
	}
	var facts []entity.Facts
	for _, kind := range m.Entities {
		for _, v := range values[kind] {
			e := expect.Value(entity.Parse(entity.Type(kind), v, ""))(b)
			facts = append(facts, e.Facts)
		}
	}
	return facts
}

// TestDefaultLineup compares the default lineup with the manifests of its layers, and holds it to what their signals
// warrant.
func TestDefaultLineup(t *testing.T) {
	t.Parallel()
	document := expect.Value(registry.DefaultLineup())(t)
	var manifests []registry.Manifest
	for _, item := range document.Layers {
		text := hosttest.ReadText(t, filepath.Join("..", "..", "..", "plugins", item.Layer, "manifest.json"))
		m := expect.Value(registry.ParseManifest([]byte(text)))(t)
		manifests = append(manifests, m)
		expect.NoError(t, item.Suits(m))
		// The default lineup may have weights by type, the manifest has one.
		if weight, forAll := item.Weight[""]; forAll {
			expect.Equal(t, "weight of "+item.Layer, weight, m.DefaultWeight)
		}
	}
	expect.NoError(t, document.CheckFitness(manifests))
}

// TestLayersAreCompiledOnce checks that test processes find the code that the program of tests has compiled. Otherwise
// each of them would compile all layers again.
func TestLayersAreCompiledOnce(t *testing.T) { //nolint:paralleltest // before other tests, which could compile them
	box := sandboxOf(t, []string{"none"})
	for _, m := range hosttest.BuiltLayers(t) {
		expect.NoError(t, box.Prepare(t.Context(), m))
	}
}

// sandboxOf returns a sandbox with the layers that are compiled, which outlives the test.
func sandboxOf(t testing.TB, compiler []string) *sandbox.Sandbox {
	t.Helper()
	dir := hosttest.SharedDir(t)
	return sandbox.New(sandbox.Config{CacheDir: filepath.Join(dir, "compiled"), Instances: 1, Compiler: compiler,
		CacheKey: expect.Value(keyring.Load(filepath.Join(dir, "secret")))(t).Cache, Logger: slog.Default()})
}

// plugins are first-party layers that tests have opened, by digest.
var plugins sync.Map

// opened returns a layer that all tests share. Its instance is restored after each call, so that no call depends on
// those before.
func opened(t testing.TB, m registry.Module) *sandbox.Plugin {
	t.Helper()
	once, _ := plugins.LoadOrStore(m.Digest, sync.OnceValues(func() (*sandbox.Plugin, error) {
		return sandboxOf(t, nil).Open(context.Background(), m)
	}))
	return expect.Value(once.(func() (*sandbox.Plugin, error))())(t)
}

// moduleIn returns the layer in a file.
func moduleIn(t *testing.T, file string) registry.Module {
	t.Helper()
	return expect.Value(registry.OpenModule([]byte(hosttest.ReadText(t, file))))(t)
}

// members returns layers with their places in the default lineup.
func members(t testing.TB, names ...string) []check.Member {
	t.Helper()
	document := expect.Value(registry.DefaultLineup())(t)
	var all []check.Member
	for _, m := range hosttest.BuiltLayers(t) {
		if slices.Contains(names, m.Manifest.Name) {
			all = append(all, lineups.NewMember(*document.Layer(m.Manifest.Name), opened(t, m)))
		}
	}
	expect.Must(t, len(all) == len(names), "%d of the layers %v were found", len(all), names)
	return all
}
