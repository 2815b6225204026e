package registry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"assay/registry/fault"
)

// Section is a part of a module's file.
type Section struct {
	Name  string `json:"name"`  // of its kind, or its own name in quotation marks
	Bytes int    `json:"bytes"` // with its header
}

// sectionNames are the kinds of sections by their number (WebAssembly 2.0, section 5.5.2).
var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start",
	"element", "code", "data", "data count"}

// Sections lists the sections of a module in the order of the file.
func Sections(wasm []byte) ([]Section, error) {
	var all []Section
	err := eachSection(wasm, func(id byte, size int, name string, _ []byte) error {
		switch {
		case id == 0:
			name = fmt.Sprintf("%q", name)
		case int(id) < len(sectionNames):
			name = sectionNames[id]
		default:
			name = fmt.Sprintf("section %d", id)
		}
		all = append(all, Section{name, size})
		return nil
	})
	return all, fault.Wrap(err, "reading module")
}

// eachSection calls do with each section's number, its size with its header, the name of a custom one and its content.
// It steps over sections by their size without decoding them (WebAssembly 2.0, sections 5.5.2 and 5.5.3).
func eachSection(wasm []byte, do func(id byte, size int, name string, content []byte) error) error {
	if !bytes.HasPrefix(wasm, wasmHeader) {
		return errors.New("it is not a WebAssembly 1.0 binary module")
	}
	for rest := wasm[len(wasmHeader):]; len(rest) > 0; {
		id := rest[0]
		length, n := binary.Uvarint(rest[1:])
		if n <= 0 || length > uint64(len(rest)-1-n) {
			return fmt.Errorf("section %d at byte %d is longer than the file", id, len(wasm)-len(rest))
		}
		size := 1 + n + int(length)
		content, name := rest[1+n:size], ""
		rest = rest[size:]
		if id == 0 {
			length, n := binary.Uvarint(content)
			if n <= 0 || length > uint64(len(content)-n) {
				return errors.New("a custom section's name is longer than the section")
			}
			name, content = string(content[n:n+int(length)]), content[n+int(length):]
		}
		if err := do(id, size, name, content); err != nil {
			return err
		}
	}
	return nil
}
