package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ManifestSection is the custom section that contains a plugin's manifest.
const ManifestSection = "assay.manifest"

// MaxModuleBytes is the largest size of a plugin in bytes.
const MaxModuleBytes = 8 << 20

// Digest is the SHA-256 of a module's bytes, including its manifest. A version is pinned to it.
type Digest [sha256.Size]byte

func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// ParseDigest reads what String writes.
func ParseDigest(text string) (d Digest, err error) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	if !ok || len(digits) != hex.EncodedLen(len(d)) {
		return d, errors.New("it is not sha256: and 64 hexadecimal digits")
	}
	_, err = hex.Decode(d[:], []byte(digits))
	return d, err
}

// Module is a plugin as published.
type Module struct {
	Manifest Manifest
	Digest   Digest
	Wasm     []byte
}

// Ref returns the module's name@version.
func (m Module) Ref() string { return m.Manifest.Name + "@" + m.Manifest.Version }

var wasmHeader = []byte("\x00asm\x01\x00\x00\x00")

// OpenModule reads a plugin's manifest and computes its digest. It does not check the code; the sandbox does.
func OpenModule(wasm []byte) (Module, error) {
	if len(wasm) > MaxModuleBytes {
		return Module{}, fmt.Errorf("opening module: %d bytes exceed the limit of %d", len(wasm), MaxModuleBytes)
	}
	section, err := customSection(wasm, ManifestSection)
	if err != nil {
		return Module{}, fmt.Errorf("opening module: %w", err)
	}
	manifest, err := ParseManifest(section)
	if err != nil {
		return Module{}, fmt.Errorf("opening module: %w", err)
	}
	return Module{Manifest: manifest, Digest: sha256.Sum256(wasm), Wasm: wasm}, nil
}

// Pack appends manifest to a compiled module as its manifest section, and the text of cases.jsonl as its section of
// cases unless it is empty.
func Pack(wasm, manifest, cases []byte) ([]byte, error) {
	if _, err := ParseManifest(manifest); err != nil {
		return nil, err
	}
	if _, err := ParseCases(cases); err != nil {
		return nil, err
	}
	out, err := appendSection(wasm, ManifestSection, manifest)
	if err == nil && len(cases) > 0 {
		out, err = appendSection(out, CasesSection, cases)
	}
	if err != nil {
		return nil, fmt.Errorf("packing module: %w", err)
	}
	if len(out) > MaxModuleBytes {
		return nil, fmt.Errorf("packing module: %d bytes exceed the limit of %d", len(out), MaxModuleBytes)
	}
	return out, nil
}

// appendSection returns the module with a custom section added, which it must not have yet.
func appendSection(wasm []byte, name string, content []byte) ([]byte, error) {
	if _, err := customSection(wasm, name); err == nil {
		return nil, fmt.Errorf("it already has a section %q", name)
	} else if !errors.Is(err, errNoSection) {
		return nil, err
	}
	payload := binary.AppendUvarint(nil, uint64(len(name)))
	payload = append(payload, name...)
	payload = append(payload, content...)
	out := append(bytes.Clone(wasm), 0)
	out = binary.AppendUvarint(out, uint64(len(payload)))
	return append(out, payload...), nil
}

var errNoSection = errors.New(": build it with `assay plugin build`")

// customSection returns the content of the custom section with that name, which must be unique. It steps over all other
// sections by their size without decoding them (WebAssembly 2.0, sections 5.5.2 and 5.5.3).
func customSection(wasm []byte, name string) ([]byte, error) {
	if !bytes.HasPrefix(wasm, wasmHeader) {
		return nil, errors.New("it is not a WebAssembly 1.0 binary module")
	}
	var found []byte
	for rest := wasm[len(wasmHeader):]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, fmt.Errorf("section %d at byte %d is longer than the file", id, len(wasm)-len(rest))
		}
		body := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		if id != 0 {
			continue
		}
		length, n := binary.Uvarint(body)
		if n <= 0 || length > uint64(len(body)-n) {
			return nil, errors.New("a custom section's name is longer than the section")
		}
		if string(body[n:n+int(length)]) != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("it has two sections %q", name)
		}
		found = body[n+int(length):]
	}
	if found == nil {
		return nil, fmt.Errorf("it has no section %s%w", name, errNoSection)
	}
	return found, nil
}
