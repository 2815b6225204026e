// Package project creates the folders in which authors write layers, and builds the layers in them. A folder needs
// nothing of this repository.
package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Language is a programming language for layers.
type Language string

// The languages that have an SDK.
const (
	Go Language = "go"
)

// Languages returns the languages that have an SDK.
func Languages() []Language { return []Language{Go} }

// mainFile is the file by which a folder's language is recognised.
var mainFile = map[Language]string{Go: "main.go"}

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
	return "", fmt.Errorf("%s has no %s: create a layer with `assay plugin new`, or compile it yourself and pack it "+
		"with `assay plugin build --wasm`", dir, mainFile[Go])
}
