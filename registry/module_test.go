package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
	"assay/sdk"
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
	input := append(make([]byte, 0, 10_000), bare...) // with spare capacity that an append could overwrite
	wasm := expect.Value(registry.Pack(input, layer().encode(), nil))(t)
	room := input[len(input):cap(input)]
	expect.That(t, string(input) == bare && bytes.Equal(room, make([]byte, len(room))), "Pack changed its argument")
	expect.Equal(t, "the packed module", string(wasm), bare+custom(registry.ManifestSection, string(layer().encode())))
	m := expect.Value(registry.OpenModule(wasm))(t)
	manifest := registry.Manifest{
		Name: "my-layer2", Version: "1.2.3", Summary: "Scores nothing, for tests", Entities: []string{"domain", "iban"},
		Facts:   []string{"domain.ascii", "config.floor"},
		Signals: []registry.SignalText{{Code: "a:b:c", Text: "One"}, {Code: "a:b:d", Text: "Two"}},
		Threats: []sdk.Threat{sdk.Spam}, BudgetFuel: 5000, MemoryMB: 8, DefaultWeight: 2.5,
	}
	sum := sha256.Sum256(wasm)
	expect.NoDiff(t, "module", registry.Module{Manifest: manifest, Digest: sum, Wasm: wasm}, m)
	expect.That(t, m.Ref() == "my-layer2@1.2.3" && m.Digest.String() == "sha256:"+hex.EncodeToString(sum[:]),
		"the module is %s, %s", m.Ref(), m.Digest)
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
		{"a size beyond the file", header + "\x00\x03ab", "section 0 at byte 8 is longer than the file"},
		{"a size beyond all", header + "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + good,
			"section 1 at byte 8 is longer than the file"},
		{"a size that does not end", header + "\x01\x80\x80", "section 1 at byte 8 is longer than the file"},
		{"a broken second section", bare + "\x0b\x7f", "is longer than the file"},
		{"a name beyond its section", header + section(0, "\x05ab"), "name is longer than the section"},
		{"no name", header + section(0, ""), "name is longer than the section"},
	} {
		m, err := registry.OpenModule([]byte(c.wasm))
		expect.That(t, err != nil && strings.HasPrefix(err.Error(), "opening module: ") &&
			strings.Contains(err.Error(), c.want), "%s: opened with %v, want an error with %q", c.name, err, c.want)
		expect.That(t, m.Wasm == nil && m.Manifest.Name == "" && m.Digest == (registry.Digest{}),
			"%s: a refused module was returned: %+v", c.name, m)
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

func TestDiffManifests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit func(m *registry.Manifest)
		want []registry.ManifestChange
		back bool // whether the change in the other direction grants more
	}{
		{"nothing", func(*registry.Manifest) {}, nil, false},
		{"the class", func(m *registry.Manifest) { m.Class = registry.Finding },
			[]registry.ManifestChange{{"class", "style", "finding", true}}, true},
		{"a lower score", func(m *registry.Manifest) { m.ScoreRange = &[2]int{-20, 100} },
			[]registry.ManifestChange{{"lowest score", "0", "-20", true}}, false},
		{"a lower highest score", func(m *registry.Manifest) { m.ScoreRange = &[2]int{0, 50} },
			[]registry.ManifestChange{{"highest score", "100", "50", false}}, true},
		{"fuel", func(m *registry.Manifest) { m.BudgetFuel = 2000 },
			[]registry.ManifestChange{{"budget of fuel", "1000", "2000", true}}, false},
		{"memory", func(m *registry.Manifest) { m.MemoryMB = 4 },
			[]registry.ManifestChange{{"memory in MiB", "2", "4", true}}, false},
		{"a weight", func(m *registry.Manifest) { m.DefaultWeight = 1.5 },
			[]registry.ManifestChange{{"suggested weight", "1", "1.5", false}}, false},
		{"facts", func(m *registry.Manifest) { m.Facts = []string{"domain.tld", "domain.name"} },
			[]registry.ManifestChange{{"fact", "", "domain.name", true}}, false},
		{"an entity type", func(m *registry.Manifest) { m.Entities = []string{"domain", "email"} },
			[]registry.ManifestChange{{"entity type", "", "email", true}}, false},
		{"a threat", func(m *registry.Manifest) { m.Threats = []sdk.Threat{sdk.Scam} },
			[]registry.ManifestChange{{"threat", "", "scam", true}}, false},
		{"a signal", func(m *registry.Manifest) {
			m.Signals = append(m.Signals, registry.SignalText{Code: "a:b:d", Text: "D"})
		}, []registry.ManifestChange{{"signal", "", "a:b:d", true}}, false},
		{"a text", func(m *registry.Manifest) { m.Signals = []registry.SignalText{{Code: "a:b:c", Text: "New"}} },
			[]registry.ManifestChange{{"text of a:b:c", "C", "New", false}}, false},
		{"a promise", func(m *registry.Manifest) {
			m.Signals = []registry.SignalText{{Code: "a:b:c", Text: "C", Points: 60, Warrants: "block", Final: true,
				Threat: sdk.Spam}}
		}, []registry.ManifestChange{{"promise of a:b:c", "", "60 points, warrants block, final, spam", true}}, false},
		{"points without a band", func(m *registry.Manifest) {
			m.Signals = []registry.SignalText{{Code: "a:b:c", Text: "C", Points: 60}}
		}, []registry.ManifestChange{{"promise of a:b:c", "", "60 points", false}}, false},
		{"a signal that it yields to", func(m *registry.Manifest) {
			m.Signals = []registry.SignalText{{Code: "a:b:c", Text: "C", YieldsTo: []string{"d:", "e:f:g"}}}
		}, []registry.ManifestChange{{"signals that a:b:c yields to", "", "d:", true},
			{"signals that a:b:c yields to", "", "e:f:g", true}}, false},
	} {
		from := registry.Manifest{Name: "some", Version: "1.0.0", Summary: "S", Entities: []string{"domain"},
			Facts: []string{"domain.tld"}, Signals: []registry.SignalText{{Code: "a:b:c", Text: "C"}},
			BudgetFuel: 1000, MemoryMB: 2, DefaultWeight: 1}
		to := from
		c.edit(&to)
		got := registry.DiffManifests(from, to)
		expect.NoDiff(t, c.name+": changes", append([]registry.ManifestChange{}, c.want...), got)
		back := false
		for i, change := range registry.DiffManifests(to, from) {
			back = back || change.Grants
			expect.That(t, change.From == got[i].To && change.To == got[i].From, "%s: the other direction is %+v",
				c.name, change)
		}
		expect.Equal(t, c.name+": the other direction grants more", back, c.back)
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	got := expect.Value(registry.Sections([]byte(header + "\x01\x02aa\x0a\x01c\x00\x06\x03abcde\x0d\x00")))(t)
	expect.NoDiff(t, "sections", []registry.Section{{"type", 4}, {"code", 3}, {`"abc"`, 8}, {"section 13", 2}}, got)
	for name, text := range map[string]string{
		"not a module":             "abc",
		"a section beyond the end": header + "\x01\x05a",
		"a name beyond the end":    header + "\x00\x01\x05",
	} {
		expect.Failure(t, expect.ErrorOf(registry.Sections([]byte(text))), "%s: read", name)
	}
}

const someCases = `{"name":"a","type":"domain","value":"example.com","facts":{"domain.ascii":"1"},"min":0,"max":5}

{"name":"b","type":"iban","value":"DE88370400440532013000","min":-5,"max":0}
`

func TestCasesArePacked(t *testing.T) {
	t.Parallel()
	wasm := expect.Value(registry.Pack([]byte(bare), layer().encode(), []byte(someCases)))(t)
	cases, err := expect.Value(registry.OpenModule(wasm))(t).Cases()
	expect.That(t, err == nil && len(cases) == 2 && cases[0].Facts["domain.ascii"] == "1" && cases[1].Min == -5,
		"the cases are %+v, %v", cases, err)
	cases, err = expect.Value(registry.OpenModule(packed(t)))(t).Cases()
	expect.That(t, err == nil && cases == nil, "without a section, the cases are %v, %v", cases, err)
}

func TestParseCasesRefuses(t *testing.T) {
	t.Parallel()
	m := expect.Value(registry.ParseManifest(layer().encode()))(t)
	for name, test := range map[string]struct{ text, want string }{
		"not JSON":         {someCases + "x", "line 4: "},
		"an unknown field": {`{"name":"a","minimum":1}`, `line 1: there is no field "minimum"`},
		"a score of none":  {`{"name":"a","abstains":true,"max":4}`, "line 1: a layer that abstains has no score"},
		"min above max":    {`{"name":"a","min":5,"max":4}`, "line 1: min 5 is above max 4"},
		"undeclared fact":  {`{"name":"a","facts":{"domain.asci":"x"}}`, "the fact domain.asci: is it domain.ascii?"},
		"two in a line":    {`{"name":"a"}{"name":"b"}`, "line 1: "},
		"too long":         {strings.Repeat("\n", 256<<10+1), "exceed the limit of 262144"},
	} {
		expect.ErrorText(t, name+": parsing", expect.ErrorOf(registry.ParseCases([]byte(test.text), m)), test.want)
		expect.Failure(t,
			expect.ErrorOf(registry.Pack([]byte(bare), layer().encode(), []byte(test.text))), "%s: packed", name)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	score := registry.Case{Min: 10, Max: 20, Codes: []string{"a:b:c"}, Threat: "spam"}
	for name, test := range map[string]struct {
		c    registry.Case
		got  registry.Answer
		want []string
	}{
		"as expected": {score, registry.Answer{Score: 10, Threat: "spam", Codes: []string{"a:b:d", "a:b:c"}}, nil},
		"too low": {score, registry.Answer{Score: 9, Threat: "spam", Codes: []string{"a:b:c"}},
			[]string{"the score is 9, outside 10 to 20"}},
		"all": {score, registry.Answer{Score: 21, Threat: "scam"}, []string{"the score is 21, outside 10 to 20",
			`the threat is "scam", not "spam"`, "the signal a:b:c is missing"}},
		"any threat": {registry.Case{}, registry.Answer{Threat: "scam"}, nil},
		"abstains":   {registry.Case{Abstains: true}, registry.Answer{Abstained: true}, nil},
		"does not": {registry.Case{Abstains: true}, registry.Answer{Score: 3},
			[]string{"the layer scores 3, and is expected to abstain"}},
		"but a score is": {registry.Case{Max: 5}, registry.Answer{Abstained: true},
			[]string{"the layer abstains, and a score of 0 to 5 is expected"}},
	} {
		got := test.c.Differences(test.got)
		expect.That(t, slices.Equal(got, test.want), "%s: %q, want %q", name, got, test.want)
	}
}

func TestSettingsOfCase(t *testing.T) {
	t.Parallel()
	facts, settings := registry.Case{Facts: sdk.Facts{"config.limit": "5", "dns.a": "1"}}.Input()
	expect.That(t, len(facts) == 1 && facts["dns.a"] == "1" && len(settings) == 1 && settings["limit"] == "5",
		"facts %q, settings %q", facts, settings)
}
