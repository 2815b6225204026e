// Package project creates the folders in which authors write layers, and builds the layers in them. A folder needs no
// file of this repository.
package project

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Language is a programming language for layers.
type Language string

// The languages that have an SDK.
const (
	Go             Language = "go"
	Rust           Language = "rust"
	AssemblyScript Language = "assemblyscript"
	C              Language = "c"
)

// Languages returns the languages that have an SDK.
func Languages() []Language { return []Language{Go, Rust, AssemblyScript, C} }

// mainFile is the file by which a folder's language is recognised.
var mainFile = map[Language]string{Go: "main.go", Rust: "layer.rs", AssemblyScript: "layer.ts", C: "layer.c"}

// LanguageOf returns the language of the layer in folder dir.
func LanguageOf(dir string) (Language, error) {
	for _, l := range Languages() {
		_, err := os.Stat(filepath.Join(dir, mainFile[l]))
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s has none of %s: create a layer with `assay plugin new`, or pack a compiled module with "+
		"`assay plugin build --wasm`", dir, strings.Join(slices.Sorted(maps.Values(mainFile)), ", "))
}
