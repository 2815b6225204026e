package project

import (
	"context"
	"fmt"
	"os/exec"

	"assay/registry"
)

// MissingTool means that a language's compiler is not installed.
type MissingTool struct {
	Name    string // of the program
	Install string // how to get it, as a sentence without its full stop
}

// Error implements error.
func (e *MissingTool) Error() string { return fmt.Sprintf("%s was not found: %s", e.Name, e.Install) }

// Build compiles the layer in folder dir with its language's own compiler, and packs the folder's manifest.json and
// cases.jsonl into it. The same source and compiler give the same bytes in every folder. The error is a *MissingTool if
// the compiler is not installed.
func Build(ctx context.Context, dir string) ([]byte, error) {
	language, err := LanguageOf(dir)
	if err != nil {
		return nil, fmt.Errorf("building layer: %w", err)
	}
	wasm, err := compilers[language](ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("building layer: %w", err)
	}
	return wasm, nil
}

// compilers build and pack the layer in a folder.
var compilers = map[Language]func(ctx context.Context, dir string) ([]byte, error){
	Go: func(ctx context.Context, dir string) ([]byte, error) {
		if _, err := exec.LookPath("go"); err != nil {
			return nil, &MissingTool{"go", "install Go 1.24 or later, https://go.dev/dl"}
		}
		return registry.CompileGo(ctx, dir)
	},
}
