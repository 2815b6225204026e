package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"assay/host/sandbox"
)

// cached opens a guest with a compile cache on dir, after doing what the test wants to be done to the cache, and
// returns its score.
func cached(t *testing.T, dir string, wasm func() []byte, meanwhile func()) int {
	t.Helper()
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quiet, CacheDir: dir,
		CacheKey: []byte("a key of the zoo's own, 32 bytes")})
	defer box.Close()
	meanwhile()
	p := specimen{wasm: wasm, budgetMS: 100}.opened(t, box)
	defer shut(t, p)
	var r report
	r.call(p)
	return r.Score
}

// codeIn returns the one file of compiled code below dir.
func codeIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	var found []string
	for _, f := range files {
		if !strings.HasSuffix(f, ".mac") {
			found = append(found, f)
		}
	}
	if err != nil || len(found) != 1 {
		t.Fatalf("files %v, %v", found, err)
	}
	return found[0]
}

// forge puts the code of one cache in the place of another's. Nothing in it is damaged: the engine's checksum holds.
func forge(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(codeIn(t, from))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(codeIn(t, to), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPoisonedCache puts other code into the cache of a guest (Z44), before the sandbox is there and while it is.
func TestPoisonedCache(t *testing.T) {
	t.Parallel()
	good, bad := saying(7, said, "good"), saying(99, said, "good")
	nothing := func() {}
	for name, during := range map[string]bool{"before the start": false, "while running": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, other := t.TempDir()+"/cache", t.TempDir()+"/cache"
			if a, b := cached(t, dir, good, nothing), cached(t, other, bad, nothing); a != 7 || b != 99 {
				t.Fatalf("scores %d and %d", a, b)
			}
			poison := func() { forge(t, other, dir) }
			if !during {
				poison()
				poison = nothing
			}
			if got := cached(t, dir, good, poison); got != 7 {
				t.Errorf("it scored %d: the forged code ran", got)
			}
		})
	}
}

// TestCacheNeedsItsMAC shows that the engine itself runs what was put into its cache.
func TestCacheNeedsItsMAC(t *testing.T) {
	t.Parallel()
	result := func(dir string, value int) uint64 {
		ctx := context.Background()
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Close(ctx)
		engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache))
		defer engine.Close(ctx)
		l := &layer{}
		guest, err := engine.Instantiate(ctx, l.scoring(num(value)).encode())
		if err != nil {
			t.Fatal(err)
		}
		got, err := guest.ExportedFunction("assay_v1_score").Call(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	dir, other := t.TempDir(), t.TempDir()
	if a, b := result(dir, 7), result(other, 99); a != 7 || b != 99 {
		t.Fatalf("results %d and %d", a, b)
	}
	forge(t, other, dir)
	if got := result(dir, 7); got != 99 {
		t.Errorf("result %d: the engine guards its cache itself", got)
	}
}
