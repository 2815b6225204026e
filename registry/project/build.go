package project

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"assay/registry"
	"assay/registry/fault"
)

// MissingTool means that a language's compiler is not installed.
type MissingTool struct {
	Name    string // of the program
	Install string // how to get it, as a sentence without its full stop
}

// Error implements error.
func (e *MissingTool) Error() string { return fmt.Sprintf("%s was not found: %s", e.Name, e.Install) }

// Build compiles the layer in folder dir with its language's own compiler, and packs the folder's manifest.json and
// cases.jsonl into it. First it writes the constants of the manifest's signals, if they changed. The same source and
// compiler give the same bytes in every folder. The error is a *MissingTool if the compiler is not installed.
func Build(ctx context.Context, dir string) (wasm []byte, err error) {
	defer fault.WrapAll(&err, "building layer")
	language, err := LanguageOf(dir)
	if err == nil {
		err = refreshSignals(dir, language)
	}
	if err != nil {
		return nil, err
	}
	if language == Go {
		if _, err := find("go", "install Go 1.24 or later, https://go.dev/dl"); err != nil {
			return nil, err
		}
		return registry.CompileGo(ctx, dir)
	}
	manifest, cases, err := registry.ReadDescription(dir)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "assay-layer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	out := filepath.Join(work, "layer.wasm")
	commands, err := commandsOf[language](ctx, dir, out)
	if err != nil {
		return nil, err
	}
	for _, command := range commands {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("running %s: %w\n%s", filepath.Base(command[0]), err, bytes.TrimSpace(text))
		}
	}
	if wasm, err = os.ReadFile(out); err != nil {
		return nil, err
	}
	return registry.Pack(wasm, manifest, cases)
}

// commandsOf return the command lines that compile the layer in folder dir, where they run, to the file out.
var commandsOf = map[Language]func(ctx context.Context, dir, out string) ([][]string, error){
	Rust: func(ctx context.Context, _, out string) ([][]string, error) {
		rustc, err := rustcForWasm(ctx)
		return [][]string{{rustc, "--edition=2021", "--crate-name=layer", "--crate-type=cdylib",
			"--target=" + rustTarget, "-Copt-level=3", "-Cpanic=abort", "-Cstrip=symbols",
			"-Clink-arg=-zstack-size=65536", "-o", out, mainFile[Rust]}}, err
	},
	AssemblyScript: func(_ context.Context, dir, out string) ([][]string, error) {
		asc, err := filepath.Abs(filepath.Join(dir, "node_modules", ".bin", "asc"))
		if err == nil {
			if _, missing := os.Stat(asc); missing != nil {
				asc, err = find("asc", "run `npm install` in the folder, or put AssemblyScript's asc on the PATH")
			}
		}
		return [][]string{{asc, mainFile[AssemblyScript], "-o", out}}, err // asconfig.json has the options
	},
	C: func(_ context.Context, _, out string) ([][]string, error) {
		const install = "install clang and lld (Debian: apt install clang lld)"
		clang, err := find("clang", install)
		if err != nil {
			return nil, err
		}
		linker, err := find("wasm-ld", install)
		// A separate step, because clang would also run a wasm-opt on the PATH, and the bytes would depend on it.
		return [][]string{
			{clang, "--target=wasm32", "-O2", "-Wall", "-Wextra", "-ffreestanding", "-mbulk-memory", "-c", "-o",
				out + ".o", mainFile[C]},
			{linker, "--no-entry", "--strip-all", "--stack-first", "-zstack-size=65536", "-o", out, out + ".o"},
		}, err
	},
}

// find returns the path of a program, or a *MissingTool.
func find(program, install string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", &MissingTool{program, install}
	}
	return path, nil
}

const rustTarget = "wasm32-unknown-unknown"

// rustcForWasm returns the first rustc on the PATH that has the target: a machine may have several.
func rustcForWasm(ctx context.Context) (string, error) {
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		rustc, err := exec.LookPath(filepath.Join(folder, "rustc"))
		if err != nil {
			continue
		}
		libraries, err := exec.CommandContext(ctx, rustc, "--print=target-libdir", "--target="+rustTarget).Output()
		if err != nil {
			continue
		}
		if _, err := os.Stat(strings.TrimSpace(string(libraries))); err == nil {
			return rustc, nil
		}
	}
	return "", &MissingTool{"rustc with the target " + rustTarget, "install it (Debian: apt install rustc " +
		"libstd-rust-dev-wasm32; rustup: rustup target add " + rustTarget + ")"}
}
