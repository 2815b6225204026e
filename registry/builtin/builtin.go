// Package builtin holds the first-party modules of a release. A release is built with the tag release, after the
// command in folder generate has built the modules (.ci/release does both). Without the tag the package is empty, and
// hosts build the modules from the source.
package builtin

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"assay/registry"
)

// Folder is where generate puts the modules, relative to this package. A release that is built without them fails with
// a message that contains this name, so the name says what to do.
const Folder = "built-by-just-release"

// Modules returns the modules of a release, sorted by name. Embedded tells whether there are any.
func Modules() ([]registry.Module, error) { return open(files) }

func open(files embed.FS) ([]registry.Module, error) {
	paths, err := fs.Glob(files, Folder+"/*.wasm")
	if err != nil {
		return nil, fmt.Errorf("listing the built-in modules: %w", err)
	}
	slices.Sort(paths)
	modules := make([]registry.Module, len(paths))
	for i, path := range paths {
		wasm, err := files.ReadFile(path)
		if err == nil {
			modules[i], err = registry.OpenModule(wasm)
		}
		if err != nil {
			return nil, fmt.Errorf("reading built-in module %s: %w", path, err)
		}
	}
	return modules, nil
}
