package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/registry"
	"assay/sdk"
)

// templateName is the name of the layer in the templates.
const templateName = "my-layer"

// copied are the files of sdk.Source that a language's project has besides its template, by their path in the project.
var copied = map[Language]map[string]string{
	Go: {
		"score.go": "starter/score.go", "score_test.go": "starter/score_test.go", "sdk/abi.go": "abi.go",
		"sdk/check_native.go": "check_native.go", "sdk/check_wasip1.go": "check_wasip1.go", "sdk/layer.go": "layer.go",
		"sdk/valid.go": "valid.go",
	},
	Rust:           {"assay.rs": "rust/assay.rs"},
	AssemblyScript: {"assay.ts": "assemblyscript/assay.ts"},
	C:              {"assay.h": "c/assay.h"},
}

// adapt makes package starter the program of a project.
var adapt = strings.NewReplacer("package starter\n", "package main\n", `"assay/sdk"`,
	`"layer/`+templateName+`/sdk"`)

// Create writes the folder of a new layer: its source, manifest, cases and tests, and a copy of the SDK. The folder
// must not exist, or be empty. Create returns the paths of the files, sorted.
func Create(dir, name string, language Language) ([]string, error) {
	files, err := filesOf(name, language)
	if err == nil {
		_, err = registry.ParseManifest([]byte(files["manifest.json"]))
	}
	if err == nil {
		err = requireEmpty(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("creating layer %q: %w", name, err)
	}
	var paths []string
	for file, text := range files {
		target := filepath.Join(dir, filepath.FromSlash(file))
		paths = append(paths, target)
		mode := fs.FileMode(0o644)
		if path.Ext(file) == ".sh" {
			mode = 0o755
		}
		err := os.MkdirAll(filepath.Dir(target), 0o755)
		if err == nil {
			err = os.WriteFile(target, []byte(text), mode)
		}
		if err != nil {
			return nil, fmt.Errorf("creating layer %q: %w", name, err)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// requireEmpty returns an error unless dir does not exist or is empty.
func requireEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty", dir)
	}
	return err
}

// filesOf returns the texts of a new project's files, by their path in the project.
func filesOf(name string, language Language) (map[string]string, error) {
	files := map[string]string{}
	for _, root := range []string{"_templates/all", "_templates/" + string(language)} {
		err := fs.WalkDir(sdk.Source, root, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := fs.ReadFile(sdk.Source, file)
			// A folder with a go.mod would not be embedded.
			target := strings.TrimSuffix(strings.TrimPrefix(file, root+"/"), ".txt")
			files[target] = string(text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for target, source := range copied[language] {
		text, err := fs.ReadFile(sdk.Source, source)
		if err != nil {
			return nil, err
		}
		files[target] = adapt.Replace(string(text))
	}
	for target, text := range files {
		files[target] = strings.ReplaceAll(text, templateName, name)
	}
	return files, nil
}
