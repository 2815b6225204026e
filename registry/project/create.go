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
	"assay/registry/fault"
	"assay/sdk"
)

// templateName is the name of the layer in the templates.
const templateName = "my-layer"

// sdkFiles are the files of sdk.Source that make up the SDK in a language's project, by their path in the project.
var sdkFiles = map[Language]map[string]string{
	Go: {
		"sdk/abi.go": "abi.go", "sdk/check_native.go": "check_native.go", "sdk/check_wasip1.go": "check_wasip1.go",
		"sdk/facts.go": "facts.go", "sdk/layer.go": "layer.go", "sdk/normal.go": "_templates/normal.go",
		"sdk/quote.go": "quote.go", "sdk/valid.go": "valid.go",
	},
	Rust: {"assay.rs": "rust/assay.rs", "assay_facts.rs": "rust/assay_facts.rs"},
	AssemblyScript: {
		"assay.ts": "assemblyscript/assay.ts", "assay_facts.ts": "assemblyscript/assay_facts.ts",
	},
	C: {"assay.h": "c/assay.h", "assay_facts.h": "c/assay_facts.h"},
}

// starterFiles are the files of package starter in a Go project. adapt turns them into the project's program.
var (
	starterFiles = map[string]string{"score.go": "starter/score.go", "score_test.go": "starter/score_test.go"}
	adapt        = strings.NewReplacer("package starter\n", "package main\n", `"assay/sdk"`,
		`"layer/`+templateName+`/sdk"`)
)

// Create writes the folder of a new layer: its source, manifest, cases and tests, and a copy of the SDK. The folder
// must not exist, or be empty. An empty layer scores nothing yet. Create returns the paths of the files, sorted.
func Create(dir, name string, language Language, empty bool) ([]string, error) {
	files, err := filesOf(name, language, empty)
	if err == nil {
		err = requireEmpty(dir)
	}
	var paths []string
	if err == nil {
		paths, err = write(dir, files)
	}
	return paths, fault.Wrap(err, "creating layer %q", name)
}

// Update writes the SDK of this version to the layer's folder dir, and the constants of the manifest's signals, unless
// the author wrote that file. It returns the paths of the files, sorted.
func Update(dir string) ([]string, error) {
	language, err := LanguageOf(dir)
	files := map[string]string{}
	if err == nil {
		err = addSources(files, sdkFiles[language])
	}
	own := false
	if err == nil {
		_, own, err = readSignals(dir, language)
	}
	if err == nil && !own {
		files[signalsFile[language]], err = Signals(dir, language)
	}
	var paths []string
	if err == nil {
		paths, err = write(dir, files)
	}
	return paths, fault.Wrap(err, "updating the SDK of a layer")
}

// write writes files to the folder dir, and returns their paths, sorted.
func write(dir string, files map[string]string) ([]string, error) {
	var paths []string
	for file, text := range files {
		target := filepath.Join(dir, filepath.FromSlash(file))
		paths = append(paths, target)
		mode := fs.FileMode(0o644)
		if path.Ext(file) == ".sh" {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(target, []byte(text), mode); err != nil {
			return nil, err
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
func filesOf(name string, language Language, empty bool) (map[string]string, error) {
	files := map[string]string{}
	if language == Go {
		if err := addSources(files, starterFiles); err != nil {
			return nil, err
		}
	}
	roots := []string{"_templates/all", "_templates/" + string(language)}
	if empty { // its files replace the others
		roots = append(roots, "_templates/empty/all", "_templates/empty/"+string(language))
	}
	for _, root := range roots {
		err := fs.WalkDir(sdk.Source, root, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := fs.ReadFile(sdk.Source, file)
			// A template named go.mod would keep its folder from being embedded.
			target := strings.TrimSuffix(strings.TrimPrefix(file, root+"/"), ".txt")
			files[target] = string(text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if err := addSources(files, sdkFiles[language]); err != nil {
		return nil, err
	}
	for target, text := range files {
		files[target] = strings.ReplaceAll(adapt.Replace(text), templateName, name)
	}
	manifest, err := registry.ParseManifest([]byte(files["manifest.json"]))
	if err != nil {
		return nil, err
	}
	files[signalsFile[language]], err = signals(manifest, language)
	return files, err
}

// addSources adds files of sdk.Source to the files of a project.
func addSources(files, sources map[string]string) error {
	for target, source := range sources {
		text, err := fs.ReadFile(sdk.Source, source)
		if err != nil {
			return err
		}
		files[target] = string(text)
	}
	return nil
}
