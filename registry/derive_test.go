package registry_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

// data encodes a data section. Each segment is an address in signed LEB128 and its bytes.
func data(segments ...[2]string) string {
	body := binary.AppendUvarint(nil, uint64(len(segments)))
	for _, s := range segments {
		body = append(body, "\x00\x41"+s[0]+"\x0b"...)
		body = append(binary.AppendUvarint(body, uint64(len(s[1]))), s[1]...)
	}
	return section(11, string(body))
}

// derived returns what is derived from a module with a data section. The words before become those after.
func derived(t *testing.T, sections, before, after string) ([]byte, error) {
	t.Helper()
	cases := []byte(`{"name":"one","type":"domain","value":"a.com"}`)
	wasm := expect.Value(registry.Pack([]byte(header+sections), layer().encode(), cases))(t)
	m := expect.Value(registry.OpenModule(wasm))(t)
	manifest := layer()
	manifest["version"] = "1.2.4"
	return m.Derive(manifest.encode(), bytes.Fields([]byte(before)), bytes.Fields([]byte(after)))
}

// A module that derives from another has the same sections, with segments added that write the other data where the
// segments of the first wrote theirs, also across two of them.
func TestDerive(t *testing.T) {
	t.Parallel()
	first, second := [2]string{"\x08", "learned weig"}, [2]string{"\x14", "hts"}
	far := [2]string{"\xc0\x00", "head"} // 64, whose last bit would be a sign
	got := expect.Value(derived(t, section(12, "\x03")+data(first, second, far)+custom("producers", "x"),
		"weights head", "WEIGHTS HEAD"))(t)
	want := header + section(12, "\x05") + data(first, second, far, [2]string{"\x10", "WEIGHTS"},
		[2]string{"\xc0\x00", "HEAD"}) + custom("producers", "x")
	expect.That(t, bytes.HasPrefix(got, []byte(want)), "derived %q, want %q", got, want)
	m := expect.Value(registry.OpenModule(got))(t)
	cases := expect.Value(m.Cases())(t)
	expect.That(t, m.Ref() == "my-layer2@1.2.4" && len(cases) == 1, "derived %s with %d cases", m.Ref(), len(cases))

	withCard := expect.Value(m.WithCard([]byte("learned\n3 \x1b[31mnames\u202e")))(t)
	expect.That(t, withCard.Card() == "learned\n3 ?[31mnames?" && m.Card() == "" && withCard.Digest != m.Digest,
		"the cards are %q and %q", withCard.Card(), m.Card())
}

func TestDeriveRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sections, before, after, want string
	}{
		"no data":            {"", "x", "y", "Go's linker"},
		"other data":         {data([2]string{"\x08", "other"}), "weights", "WEIGHTS", "exactly once"},
		"twice":              {data([2]string{"\x08", "weights, weights"}), "weights", "WEIGHTS", "exactly once"},
		"other length":       {data([2]string{"\x08", "weights"}), "weights", "LONGERWEIGHTS", "has 13 bytes, want 7"},
		"passive segment":    {section(11, "\x01\x01\x01x"), "x", "y", "Go's linker"},
		"no expression":      {section(11, "\x01\x00\x41\x08"), "x", "y", "Go's linker"},
		"no length":          {section(11, "\x01\x00\x41\x08\x0b"), "x", "y", "Go's linker"},
		"longer than it":     {section(11, "\x01\x00\x41\x08\x0b\x05x"), "x", "y", "Go's linker"},
		"far address":        {data([2]string{"\x80\x80\x80\x80\x01", "x"}), "x", "y", "Go's linker"},
		"fewer than it says": {section(11, "\x02\x00\x41\x08\x0b\x01x"), "x", "y", "Go's linker"},
	} {
		expect.ErrorText(t, name, expect.ErrorOf(derived(t, tt.sections, tt.before, tt.after)), tt.want)
	}
}
