package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ManifestSection is the custom section that contains a plugin's manifest.
const ManifestSection = "assay.manifest"

// MaxModuleBytes is the largest size of a plugin in bytes.
const MaxModuleBytes = 8 << 20

// Digest is the SHA-256 of a module's bytes, including its manifest. A version is pinned to it.
type Digest [sha256.Size]byte

func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// ParseDigest parses the text that String returns.
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
	m, err := ParseManifest(manifest)
	if err != nil {
		return nil, err
	}
	if _, err := ParseCases(cases, m); err != nil {
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

// customSection returns the content of the custom section with that name, which must be unique.
func customSection(wasm []byte, name string) (found []byte, err error) {
	err = eachSection(wasm, func(id byte, _ int, own string, content []byte) error {
		if id != 0 || own != name {
			return nil
		}
		if found != nil {
			return fmt.Errorf("it has two sections %q", name)
		}
		found = content
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("it has no section %s%w", name, errNoSection)
	}
	return found, err
}

// CardSection is the custom section with a text on how a learned layer was trained and measured.
const CardSection = "assay.card"

// WithCard returns the module with a card.
func (m Module) WithCard(text []byte) (Module, error) {
	wasm, err := appendSection(m.Wasm, CardSection, text)
	if err != nil {
		return Module{}, fmt.Errorf("adding the card: %w", err)
	}
	return OpenModule(wasm)
}

// maxCard is the maximum number of bytes of a card that are shown.
const maxCard = 64 << 10

// Card returns the module's card, or "" if it has none. Anybody may have written it, so unprintable characters become
// question marks.
func (m Module) Card() string {
	text, _ := customSection(m.Wasm, CardSection)
	return strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) {
			return c
		}
		return '?'
	}, string(text[:min(len(text), maxCard)]))
}
