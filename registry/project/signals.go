package project

import (
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/registry"
)

// signalsFile is the file of a project that has a constant for each signal code of its manifest.
var signalsFile = map[Language]string{
	Go: "signals.go", Rust: "signals.rs", AssemblyScript: "signals.ts", C: "signals.h",
}

// generated begins each of these files. Build and Update keep a file that begins differently, because its author wrote
// it.
const generated = "// Code generated from manifest.json by assay plugin build. DO NOT EDIT.\n"

// signals returns the text of the file of constants.
func signals(m registry.Manifest, language Language) (string, error) {
	var b strings.Builder
	b.WriteString(generated)
	form := map[Language]struct{ begin, constant, end string }{
		Go: {"\npackage main\n\n// The signals that the manifest declares.\nconst (\n",
			"\tsignal%[1]s = %[2]q // %[3]s\n", ")\n"},
		Rust: {"#![allow(dead_code)]\n", "\n/// %[3]s.\npub const %[1]s: &str = %[2]q;\n", ""},
		AssemblyScript: {"\n/** The signals that the manifest declares. */\nexport namespace Signal {\n",
			"  // %[3]s.\n  export const %[1]s: string = %[2]q;\n", "}\n"},
		C: {"#pragma once\n", "\n// %[3]s.\n#define SIGNAL_%[1]s %[2]q\n", ""},
	}[language]
	b.WriteString(form.begin)
	codeOf := map[string]string{}
	for _, s := range m.Signals {
		name := constantName(m.Name, s.Code, language)
		if other, taken := codeOf[name]; taken {
			return "", fmt.Errorf("the signals %s and %s would have the same constant, %s", other, s.Code, name)
		}
		codeOf[name] = s.Code
		text := strings.TrimSuffix(strings.Join(strings.Fields(s.Text), " "), ".")
		fmt.Fprintf(&b, form.constant, name, s.Code, text)
	}
	b.WriteString(form.end)
	if language == Go { // aligns the comments
		text, err := format.Source([]byte(b.String()))
		return string(text), err
	}
	return b.String(), nil
}

// constantName returns the name of a signal's constant, without its prefix: my-layer:name:digits of my-layer becomes
// NAME_DIGITS, or NameDigits in Go and AssemblyScript.
func constantName(layer, code string, language Language) string {
	words := strings.FieldsFunc(strings.TrimPrefix(code, layer+":"), func(r rune) bool {
		return r == ':' || r == '-' || r == '_'
	})
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	name := strings.Join(words, "")
	if language == Rust || language == C {
		name = strings.ToUpper(strings.Join(words, "_"))
	}
	if name[0] <= '9' && (language == Rust || language == AssemblyScript) {
		name = "_" + name
	}
	return name
}

// refreshSignals writes the constants of a project anew if it has them and its manifest declares other signals.
func refreshSignals(dir string, language Language) error {
	have, own, err := readSignals(dir, language)
	if err != nil || own || have == "" {
		return err
	}
	want, err := Signals(dir, language)
	if err != nil || want == have {
		return err
	}
	return os.WriteFile(filepath.Join(dir, signalsFile[language]), []byte(want), 0o644)
}

// readSignals returns the file of constants in folder dir, or "" if it has none. own reports that the author wrote it.
func readSignals(dir string, language Language) (text string, own bool, err error) {
	have, err := os.ReadFile(filepath.Join(dir, signalsFile[language]))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return string(have), !strings.HasPrefix(string(have), generated), nil
}

// Signals returns the text of the file of constants for the manifest in folder dir.
func Signals(dir string, language Language) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return "", err
	}
	manifest, err := registry.ParseManifest(text)
	if err != nil {
		return "", err
	}
	return signals(manifest, language)
}
