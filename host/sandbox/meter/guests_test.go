package meter

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// goGuest builds testdata/layer once for all tests and benchmarks.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	return build("layer.wasm", func(file string) *exec.Cmd {
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-o", file, "./testdata/layer")
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		return cmd
	})
})

func build(name string, command func(file string) *exec.Cmd) ([]byte, error) {
	dir, err := os.MkdirTemp("", "meter")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name)
	if out, err := command(file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(file)
}

// onPath lists every program of that name, as a machine may have one that lacks the target and one that has it.
func onPath(name string) (list []string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			list = append(list, path)
		}
	}
	return list
}

func TestBehaviourOfGo(t *testing.T) {
	t.Parallel()
	wasm, err := goGuest()
	if err != nil {
		t.Fatal(err)
	}
	sum := mustVet(t, wasm)
	if len(sum.Unrestored) != 0 || sum.Tables[0].Max != DefaultLimits().TableEntries {
		t.Errorf("unrestored %v, tables %v", sum.Unrestored, sum.Tables)
	}
	sameBehaviour(t, 5000, wasm, nil, append(calls("score", 1, 2),
		append(calls("work", 10), calls("loop", 0, 5000)...)...))
}

func TestBehaviourOfCompiled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		compiler, install string
		args              []string
	}{
		"c, optimised": {"clang", "clang and lld", []string{"--target=wasm32", "-O2", "-nostdlib", "-mbulk-memory",
			"-msimd128",
			"-Wl,--no-entry", "testdata/guest.c", "-o"}},
		"c, unoptimised": {"clang", "clang and lld", []string{"--target=wasm32", "-O0", "-nostdlib", "-mbulk-memory",
			"-Wl,--no-entry", "testdata/guest.c", "-o"}},
		"rust": {"rustc", "rustc with the target wasm32-unknown-unknown", []string{"--target=wasm32-unknown-unknown",
			"--crate-type=cdylib", "-O", "testdata/guest.rs", "-o"}},
		"assemblyscript": {"asc", "assemblyscript (npm), its asc on the PATH",
			[]string{"testdata/guest.ts", "-O", "--use",
				"abort=", "-o"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			for _, path := range onPath(c.compiler) {
				var wasm []byte
				wasm, err = build("guest.wasm", func(file string) *exec.Cmd {
					return exec.Command(path, slices.Concat(c.args, []string{file})...)
				})
				if err == nil {
					sameBehaviour(t, 100, wasm, nil, calls("run", 0, 999, 123456))
					return
				}
			}
			t.Skipf("install %s to run this: %v", c.install, err)
		})
	}
}
