package layers

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/network"
	"assay/host/facts/registration"
	"assay/host/facts/reputation"
	"assay/host/hosttest"
	"assay/registry"
	"assay/registry/expect"
	"assay/registry/project"
)

var (
	entities     = flag.Int("entities", 500, "how many entities each layer scores")
	entitiesSeed = flag.Uint64("entities-seed", 1, "seed of the entities")
)

// No valid entity makes a layer fail, whatever is known about it: not the layers of this repository, nor the examples
// (TestExampleLayers), nor the first layer of a project in Go. Those in other languages equal it (TestPluginLanguages).
func TestNoEntityMakesALayerFail(t *testing.T) {
	t.Parallel()
	for _, m := range hosttest.BuiltLayers(t) {
		t.Run(m.Manifest.Name, func(t *testing.T) { t.Parallel(); scoreEntities(t, m) })
	}
	t.Run("first", func(t *testing.T) {
		t.Parallel()
		_, file := hosttest.NewLayer(t, "first", project.Go)
		scoreEntities(t, moduleIn(t, file))
	})
}

func scoreEntities(t *testing.T, m registry.Module) {
	t.Helper()
	p, g := opened(t, m), generator{rand.New(rand.NewPCG(*entitiesSeed, 1))}
	var tables []entity.Fact
	for _, table := range [][]entity.Fact{network.DNS{}.Table(), (*network.Net)(nil).Table(),
		(*registration.Source)(nil).Table(), (*reputation.Similar)(nil).Table(), (*reputation.Graph)(nil).Table(),
		(*reputation.Feed)(nil).Table()} {
		tables = append(tables, table...)
	}
	for n := 0; n < *entities; {
		kind := entity.Type(m.Manifest.Entities[g.IntN(len(m.Manifest.Entities))])
		value := g.value(kind)
		if e, err := entity.Parse(kind, value, ""); err == nil {
			n++
			in := check.Input{Entity: e.Facts, LookedUp: g.facts(tables)}
			_, err := p.Score(t.Context(), in)
			expect.Must(t, err == nil, "%s %q, the %d. entity: %v: facts %q", kind, value, n, err, in.LookedUp)
		}
	}
}

// generator makes random values, many of them extreme.
type generator struct{ *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }

// text returns a text of at most so many bytes, of ASCII, of one script, or of anything.
func (g generator) text(most int, alphabets ...string) string {
	alphabet := []rune(g.pick(alphabets...))
	length := g.IntN(1 + []int{min(8, most), min(30, most), most}[g.IntN(3)])
	var b strings.Builder
	for {
		r := alphabet[g.IntN(len(alphabet))]
		if g.IntN(8) == 0 && alphabet[0] == '*' {
			r = rune(g.IntN(0x20000))
		}
		if b.Len()+len(string(r)) > length {
			return b.String()
		}
		b.WriteRune(r)
	}
}

const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
	scripts = "*пример例え長ßρıéüñŝžخطदेवहไทย가나"
	// What names do not contain.
	odd = "*“”\"'() :;,\u202e\u200d\u2800\u00ad😀\ufe0f"
)

func (g generator) value(kind entity.Type) string {
	switch kind {
	case entity.Email:
		local := g.text(64, lower+digits+"._+-", digits, scripts)
		if g.IntN(6) == 0 {
			local = `"` + g.text(60, odd, lower+" ", "\"\\") + `"`
		}
		return local + "@" + g.name(250-len(local))
	case entity.Phone:
		return g.pick("+", "00", "+49", "+1", "+44", "+800", "+234") + g.text(15, digits)
	case entity.IBAN:
		return g.pick("DE", "FR", "GB", "MT", "XX", "NO", "BR") + g.text(2, digits) +
			g.text(30, digits, digits+"ABCXYZ")
	}
	return g.name(253)
}

// name returns a domain of at most so many bytes, if it is ASCII.
func (g generator) name(most int) string {
	var labels []string
	suffix := g.pick("com", "de", "co.uk", "xyz", "рф", "github.io", "xn--p1ai", "zz")
	room := func() bool { return len(strings.Join(labels, "."))+len(suffix) < most-1 }
	for count := []int{1, 3, 120}[g.IntN(3)]; count > 0 && room(); count-- {
		label := g.text(min(63, most), lower, lower+digits+"-", digits, scripts, "secure-login-paypa1", "хn--а")
		if g.IntN(9) == 0 {
			label = "xn--" + g.text(59, lower+digits)
		}
		if label != "" {
			labels = append(labels, label)
		}
	}
	return strings.Join(append(labels, suffix), ".")
}

// facts returns some facts of the tables, each of its kind and not longer than it can be.
func (g generator) facts(tables []entity.Fact) entity.Facts {
	known := entity.Facts{}
	for _, f := range tables {
		value := ""
		switch {
		case g.IntN(3) == 0:
		case f.Kind == entity.YesNo:
			value = g.pick("yes", "no")
		case f.Kind == entity.Number:
			value = fmt.Sprint(g.IntN([]int{2, 100, 1_000_000_000}[g.IntN(3)]))
		case g.IntN(2) == 0:
			value = f.Example
		case f.Name == "net.org", f.Name == "rdap.registrar": // as anybody writes them
			value = facts.Text(g.text(f.Bytes, scripts, odd))
		case strings.HasPrefix(f.Name, "feed."), f.Name == "similar.list": // names of lists
			value = strings.TrimLeft(g.text(f.Bytes, lower+digits+" ._-"), " ")
		default:
			value = g.text(f.Bytes, lower, lower+digits+" .-=", scripts)
		}
		if value != "" {
			known[f.Name] = value
		}
	}
	return known
}

// TestExampleLayers copies each layer of examples/ to an empty folder, and runs its own CI there as its author does: it
// gets the SDK, builds the layer, and tests it natively and in the sandbox. No entity makes the layer fail.
func TestExampleLayers(t *testing.T) {
	t.Parallel()
	folders := expect.Value(filepath.Glob("../../../examples/layer-*"))(t)
	expect.Equal(t, "layers, one in each language", len(folders), 4)
	list := hosttest.ReadText(t, "../../../examples/README.md")
	for _, folder := range folders {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosttest.Has(t, list, "("+name+")")
			a := hosttest.NewAuthor(t)
			expect.NoError(t, os.CopyFS(filepath.Join(a.Folder, name), os.DirFS(folder)))
			out, err := a.Run(t, name, "./ci.sh")
			if err != nil {
				if built, _ := a.Run(t, name, "assay plugin build ."); strings.Contains(built, " was not found: ") {
					t.Skip(built)
				}
				t.Fatal(out)
			}
			scoreEntities(t, moduleIn(t, filepath.Join(a.Folder, name, "plugin.wasm")))
			expect.That(t, strings.Contains(out, " cases passed, ") && !strings.Contains(out, "  no case "),
				"not every signal and fact has a case:\n%s", out)
			for _, file := range expect.Value(filepath.Glob(filepath.Join(folder, "signals.*")))(t) {
				built := expect.Value(os.ReadFile(filepath.Join(a.Folder, name, filepath.Base(file))))(t)
				expect.That(t, bytes.Equal(built, expect.Value(os.ReadFile(file))(t)),
					"%s does not follow manifest.json: run assay plugin sdk %s", file, folder)
			}
		})
	}
}
