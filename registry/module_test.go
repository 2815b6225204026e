package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

const header = "\x00asm\x01\x00\x00\x00"

// section encodes a module section, with its size in LEB128.
func section(id byte, body string) string {
	return string(append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...))
}

func custom(name, content string) string {
	return section(0, string(binary.AppendUvarint(nil, uint64(len(name))))+name+content)
}

// bare is a module without a manifest: a type, a function, a memory and tool sections.
var bare = header + section(1, "\x01\x60\x00\x01\x7f") + section(3, "\x01\x00") + section(5, "\x01\x00\x01") +
	section(10, "\x01\x04\x00\x41\x00\x0b") + custom("name", "x") + custom("producers", "")

func packed(tb testing.TB) []byte {
	tb.Helper()
	return expect.Value(registry.Pack([]byte(bare), layer().encode(), nil))(tb)
}

func TestPackAndOpen(t *testing.T) {
	t.Parallel()
	wasm := packed(t)
	want := bare + custom(registry.ManifestSection, string(layer().encode()))
	expect.That(t, string(wasm) == want, "packed as %q, want %q", wasm, want)
	m := expect.Value(registry.OpenModule(wasm))(t)
	manifest := expect.Value(registry.ParseManifest(layer().encode()))(t)
	sum := sha256.Sum256(wasm)
	expect.NoDiff(t, "module", registry.Module{Manifest: manifest, Digest: sum, Wasm: wasm}, m)
	expect.That(t, m.Ref() == "my-layer2@1.2.3" && m.Digest.String() == "sha256:"+hex.EncodeToString(sum[:]),
		"the module is %s, %s", m.Ref(), m.Digest)
}

func TestPackLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	wasm := append(make([]byte, 0, 10_000), bare...) // with spare capacity that an append could overwrite
	room := wasm[len(wasm):cap(wasm)]
	expect.Value(registry.Pack(wasm, layer().encode(), nil))(t)
	expect.That(t, string(wasm) == bare && bytes.Equal(room, make([]byte, len(room))), "Pack changed its argument")
}

func TestPackRefuses(t *testing.T) {
	t.Parallel()
	good := string(layer().encode())
	for _, c := range []struct{ name, wasm, manifest, want string }{
		{"a second manifest", string(packed(t)), good, "already"},
		{"an empty manifest in it", bare + custom(registry.ManifestSection, ""), good, "already"},
		{"no manifest", bare, "", "reading manifest: "},
		{"not a module", "#!/bin/sh", good, "not a WebAssembly 1.0 binary module"},
		{"a broken module", bare + "\x00\x7f", good, "longer than the file"},
	} {
		wasm, err := registry.Pack([]byte(c.wasm), []byte(c.manifest), nil)
		expect.That(t, err != nil && strings.Contains(err.Error(), c.want) && wasm == nil,
			"%s: packed as %q, %v; want an error with %q", c.name, wasm, err, c.want)
	}
}

func TestOpenModuleRefuses(t *testing.T) {
	t.Parallel()
	good := custom(registry.ManifestSection, string(layer().encode()))
	bodySize := 1 + len(registry.ManifestSection) + len(layer().encode())
	for _, c := range []struct{ name, wasm, want string }{
		{"a script", "#!/bin/sh\n", "not a WebAssembly 1.0 binary module"},
		{"another version", "\x00asm\x02\x00\x00\x00" + good, "not a WebAssembly 1.0 binary module"},
		{"no sections", header, "no section assay.manifest"},
		{"no manifest", bare, "assay plugin build"},
		{"a name that goes on", header + custom(registry.ManifestSection+"2", string(layer().encode())),
			"no section assay.manifest"},
		{"the manifest in another kind of section", header + section(11, good[len(good)-bodySize:]),
			"no section assay.manifest"},
		{"two manifests", bare + good + good, `two sections "assay.manifest"`},
		{"two, the first empty", bare + custom(registry.ManifestSection, "") + good, `two sections "assay.manifest"`},
		{"an empty manifest", bare + custom(registry.ManifestSection, ""), "reading manifest: "},
		{"a bad manifest", bare + custom(registry.ManifestSection, "{}"), "reading manifest: "},
		{"a size beyond the file", header + "\x00\x05ab", "section 0 at byte 8 is longer than the file"},
		{"a size beyond all", header + "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + good,
			"section 1 at byte 8 is longer than the file"},
		{"a size that does not end", header + "\x01\x80\x80", "section 1 at byte 8 is longer than the file"},
		{"a broken second section", bare + "\x0b\x7f", "is longer than the file"},
		{"a name beyond its section", header + section(0, "\x05ab"), "name is longer than the section"},
		{"no name", header + section(0, ""), "name is longer than the section"},
		{"too large", header + custom("pad", strings.Repeat("\x00", registry.MaxModuleBytes)),
			"exceed the limit of 8388608"},
	} {
		m, err := registry.OpenModule([]byte(c.wasm))
		expect.That(t, err != nil && strings.HasPrefix(err.Error(), "opening module: ") &&
			strings.Contains(err.Error(), c.want), "%s: opened with %v, want an error with %q", c.name, err, c.want)
		expect.That(t, m.Wasm == nil && m.Manifest.Name == "" && m.Digest == (registry.Digest{}),
			"%s: a refused module was returned: %+v", c.name, m)
	}
}

func TestTruncatedModule(t *testing.T) {
	t.Parallel()
	wasm := packed(t)
	for i := range wasm {
		expect.Failure(t, expect.ErrorOf(registry.OpenModule(wasm[:i])), "opens when cut at byte %d of %d", i,
			len(wasm))
		if out, err := registry.Pack(wasm[:i], layer().encode(), nil); err == nil {
			if m, err := registry.OpenModule(out); err != nil || m.Manifest.Name != "my-layer2" {
				t.Errorf("cut at byte %d, it packs but does not open: %v", i, err)
			}
		}
	}
}

func TestLargestModule(t *testing.T) {
	t.Parallel()
	manifest := custom(registry.ManifestSection, string(layer().encode()))
	for _, more := range []int{0, 1} {
		room := registry.MaxModuleBytes - len(header) - len(manifest) - len(custom("pad",
			strings.Repeat("\x00", 7<<20))) + 7<<20
		wasm := header + custom("pad", strings.Repeat("\x00", room+more)) + manifest
		expect.Must(t, len(wasm) == registry.MaxModuleBytes+more, "the module has %d bytes", len(wasm))
		_, err := registry.OpenModule([]byte(wasm))
		expect.That(t, (err == nil) == (more == 0), "%d bytes: %v", len(wasm), err)
	}
}

func FuzzOpenModule(f *testing.F) {
	good := custom(registry.ManifestSection, string(layer().encode()))
	for _, wasm := range []string{"", header, bare, string(packed(f)), header + good, bare + good + good, header +
		"\x00\x05ab", header + "\x01\xff\xff\xff\xff\x0f"} {
		f.Add([]byte(wasm))
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		before := bytes.Clone(wasm)
		m, err := registry.OpenModule(wasm)
		out, packErr := registry.Pack(wasm, layer().encode(), nil)
		expect.Must(t, bytes.Equal(before, wasm), "the module was changed")
		if err == nil {
			expect.That(t, m.Digest == sha256.Sum256(wasm) && m.Manifest.Name != "", "opened as %+v", m)
			expect.That(t, packErr != nil, "a second manifest was packed")
		}
		if packErr == nil {
			again, err := registry.OpenModule(out)
			expect.That(t, err == nil && again.Manifest.Name == "my-layer2" && bytes.HasPrefix(out, wasm),
				"packs but does not open: %v", err)
		}
	})
}
