package meter

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"assay/registry/expect"
)

// goGuest returns testdata/layer as Go compiles it.
func goGuest(t testing.TB) []byte {
	t.Helper()
	return expect.Value(buildGoGuest())(t)
}

var buildGoGuest = sync.OnceValues(func() ([]byte, error) {
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

// onPath returns all programs with this name on the PATH. One of them may lack the WebAssembly target.
func onPath(name string) (list []string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			list = append(list, path)
		}
	}
	return list
}
