package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/expect"
)

// processes are the programs that the test binary can be instead of the tests.
var processes = map[string]func(in io.Reader, out io.Writer) error{
	"measure":       func(in io.Reader, out io.Writer) error { return ServeMeasure(context.Background(), in, out) },
	"print nothing": func(in io.Reader, _ io.Writer) error { return expect.ErrorOf(io.Copy(io.Discard, in)) },
	"fail":          func(io.Reader, io.Writer) error { return errors.New("a bug") },
	"print its ID": func(in io.Reader, out io.Writer) error {
		_, err := io.Copy(io.Discard, in)
		fmt.Fprintf(out, `{"passport":{"digest":"%d"}}`, os.Getpid())
		return err
	},
}

func TestMain(m *testing.M) {
	if len(os.Args) == 1 || strings.HasPrefix(os.Args[1], "-test.") {
		m.Run()
		return
	}
	run := processes[os.Args[1]] // never the tests, which would start processes again
	if run == nil {
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sections returns a module with a memory of one page and a function that scores.
func sections(imports, functions, globals, exported, code, data string) []byte {
	section := func(id byte, content string) string {
		if content == "" {
			return ""
		}
		return string([]byte{id, byte(len(content))}) + content
	}
	return []byte("\x00asm\x01\x00\x00\x00" +
		section(1, "\x02\x60\x00\x01\x7f\x60\x04\x7f\x7f\x7f\x7f\x01\x7f") + section(2, imports) +
		section(3, functions) + section(5, "\x01\x01\x01\x01") + section(6, globals) +
		section(7, "\x02\x06memory\x02\x00\x0eassay_v1_score\x00"+exported) +
		section(10, "\x01"+string([]byte{byte(len(code))})+code) + section(11, data))
}

// plain returns a module whose function has a body and a mutable global.
func plain(body string) []byte {
	return sections("", "\x01\x00", "\x01\x7f\x01\x41\x00\x0b", "\x00", "\x00"+body, "")
}

// asking returns a module that asks for the fact entity.value.
func asking() []byte {
	return sections("\x01\x05assay\x04fact\x00\x01", "\x01\x00", "", "\x01",
		"\x00\x41\x00\x41\x0c\x41\xe4\x00\x41\x20\x10\x00\x1a\x41\x00\x0b", "\x01\x00\x41\x00\x0b\x0centity.value")
}

// panicking returns a module that prints a panic as Go does, and traps.
func panicking(text string) []byte {
	text = "panic: " + text + "\n\t/a.go:1"
	data := "\x10\x00\x00\x00" + string(byte(len(text))) + strings.Repeat("\x00", 11) + text
	return sections("\x01\x16wasi_snapshot_preview1\x08fd_write\x00\x01", "\x01\x00", "", "\x01",
		"\x00\x41\x02\x41\x00\x41\x01\x41\x08\x10\x00\x1a\x00\x0b", "\x01\x00\x41\x00\x0b"+string(byte(len(data)))+data)
}

func packed(t *testing.T, wasm []byte) registry.Module {
	t.Helper()
	wasm = expect.Value(registry.Pack(wasm, []byte(`{"name":"guest","version":"1.0.0","summary":"A test's layer",
		"entities":["domain","iban"],"facts":["domain.ascii"],"signals":[],"threats":[],"budget_fuel":1000,
		"memory_mb":1,"default_weight":1}`), []byte(`{"name":"a case","type":"iban","value":"XX000000000"}`)))(t)
	return expect.Value(registry.OpenModule(wasm))(t)
}

// TestIssue measures modules. Those whose answers depend on anything but the input get no passport.
func TestIssue(t *testing.T) {
	t.Parallel()
	type testCase struct {
		wasm    []byte
		process string
		want    string // of the error
		is      error
		check   func(Passport) bool
	}
	expect.Each(t, map[string]testCase{
		"scores": {wasm: plain("\x41\x00\x0b"), check: func(p Passport) bool {
			warnings, err := p.Judge()
			return err == nil && len(warnings) == 0 && slices.Equal(p.Unread, []string{"domain.ascii"}) &&
				p.Format == PassportFormat && p.Memory == 64<<10 && p.Margin() > 100 && len(p.FalsePositives) == 2
		}},
		"asks for a fact that it does not declare": {wasm: asking(), check: func(p Passport) bool {
			warnings, err := p.Judge()
			return err == nil && len(warnings) == 1 && strings.Contains(warnings[0], "absent: entity.value")
		}},
		"never ends": {wasm: plain("\x03\x40\x0c\x00\x0b\x41\x00\x0b"), check: func(p Passport) bool {
			_, err := p.Judge()
			return p.Failed == p.Values && err != nil && strings.Contains(err.Error(), "the fuel ran out")
		}},
		"panics with an escape sequence": {wasm: panicking("\x1b[2J"), check: func(p Passport) bool {
			_, err := p.Judge()
			return strings.Contains(fmt.Sprint(err), `: "panic: \x1b[2J, at /a.go:1"`)
		}},
		"scores every second call": {wasm: plain("\x23\x00\x41\x01\x6a\x24\x00\x23\x00\x41\x01\x71\x0b"),
			is: ErrNotDeterministic, want: `answers "abstained true`},
		"is not a layer": {wasm: sections("", "\x01\x01", "", "\x00", "\x00\x41\x00\x0b", ""), want: "assay_v1_score"},
		"reads what the last call left in its memory": {
			wasm: plain("\x41\xe4\x00\x28\x02\x00\x41\xe4\x00\x41\x01\x36\x02\x00\x0b"),
			is:   ErrNotDeterministic, want: "after other calls in the same instance"},
		"a process fails":     {process: "fail", want: "the process failed"},
		"a process is silent": {process: "print nothing", want: "printed no passport"},
		"processes disagree":  {process: "print its ID", is: ErrNotDeterministic, want: "two processes"},
	}, func(t *testing.T, test testCase) {
		process := "measure"
		if test.process != "" {
			process, test.wasm = test.process, plain("\x41\x00\x0b")
		}
		m := packed(t, test.wasm)
		p, err := Issue(t.Context(), []string{os.Args[0], process}, m)
		if test.check == nil {
			expect.That(t, err != nil && strings.Contains(err.Error(), test.want) &&
				(test.is == nil || errors.Is(err, test.is)), "%v does not contain %q", err, test.want)
			return
		}
		expect.NoError(t, err)
		expect.That(t, test.check(p) && p.Digest == m.Digest.String() && p.Plugin == "guest@1.0.0", "%+v", p)
	})
}

// TestJudge checks which budgets are too small.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		passport Passport
		warnings int
		err      string
	}{
		"a wide budget":    {passport: Passport{Budget: 300, MostFuel: 100}},
		"a scarce budget":  {passport: Passport{Budget: 299, MostFuel: 100}, warnings: 1},
		"the least budget": {passport: Passport{Budget: 200, MostFuel: 100}, warnings: 1},
		"no margin":        {passport: Passport{Budget: 199, MostFuel: 100}, err: "set budget_fuel to 200 or more"},
		"honest values": {passport: Passport{Budget: 300, MostFuel: 100, FalsePositives: []FalsePositive{
			{"domain", 10, 2, 1}, {"email", 10, 0, 0}}}, warnings: 1},
	} {
		warnings, err := test.passport.Judge()
		expect.That(t, len(warnings) == test.warnings && (err != nil) == (test.err != "") &&
			(err == nil || strings.Contains(err.Error(), test.err)), "%s: %q, %v", name, warnings, err)
	}
}

// TestHonestBands checks the bands of false positives, and that every built-in value can be read.
func TestHonestBands(t *testing.T) {
	t.Parallel()
	lineup := expect.Value(registry.DefaultLineup())(t)
	expect.Equal(t, "the default lineup", lineup.Bands, (registry.Bands{Review: reviewScore, Block: blockScore}))
	m := packed(t, plain("\x41\x00\x0b"))
	m.Manifest.Entities = []string{"domain", "email", "phone", "iban"}
	values, err := samples(m)
	expect.That(t, err == nil && len(values) >= len(Corpus())+len(Honest()), "%d values, %v", len(values), err)
}

func TestDistribution(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, test := range map[string]struct {
		values []float64
		want   Distribution
	}{
		"one":         {[]float64{7}, Distribution{7, 7, 7, 7}},
		"three":       {[]float64{3, 1, 2}, Distribution{2, 3, 3, 3}},
		"one hundred": {hundred, Distribution{50, 90, 99, 100}},
	} {
		expect.Equal(t, name, distributionOf(test.values), test.want)
	}
}

// TestVectorsCoverAnswers checks that the vectors of a conformance test lead to every answer of the first layer.
func TestVectorsCoverAnswers(t *testing.T) {
	t.Parallel()
	random, answers := rand.New(rand.NewPCG(1, 2)), map[string]int{}
	for range VectorCount {
		facts := vector(random)
		expect.Must(t, len(facts["domain.registrable"]) <= 253, "%q is longer than a name", facts)
		answers[described(facts)]++
	}
	all := strings.Join(slices.Collect(maps.Keys(answers)), "\n")
	for _, want := range []string{"…”", "abstained true", "abstained false, score 0, ",
		"abstained false, score 20, ", "abstained false, score 30, ", `abstained false, score 50, threat "scam"`} {
		expect.That(t, strings.Contains(all, want), "no vector leads to %q", want)
	}
	expect.That(t, len(answers) >= VectorCount/2, "only %d different answers", len(answers))
}

// Every variation can be sent, and all of them come, in the same order each time. The number of all is bounded.
func TestVariations(t *testing.T) {
	t.Parallel()
	cases := []registry.Case{
		{Type: "domain", Value: "login.shop-24.co.uk", Facts: map[string]string{"rdap.registrar": "An Org",
			"rdap.age_days": "3", "config.words": "a b"}},
		{Type: "email", Value: "jane+x@example.com"}, {Type: "phone", Value: "+491712345678"},
		{Type: "iban", Value: "DE89370400440532013000"}, {Type: "iban", Value: "no IBAN"},
	}
	all := Variations(cases)
	expect.NoDiff(t, "again", all, Variations(cases))
	got := map[entity.Type]map[string]Variation{}
	for _, v := range all {
		_, err := entity.Parse(v.Type, v.Value, v.Country)
		expect.That(t, err == nil, "%s: %v", v.How, err)
		if got[v.Type] == nil {
			got[v.Type] = map[string]Variation{}
		}
		got[v.Type][v.How] = v
	}
	names := []string{"its labels repeated", "other scripts", "the longest label", "the longest name",
		"the longest punycode", "the most labels"}
	for kind, want := range map[entity.Type][]string{
		entity.Domain: append([]string{"long facts", "odd facts"}, names...),
		entity.Email: {"another script", "other scripts", "quotation marks", "the longest label",
			"the longest local part", "the longest name", "the longest punycode", "the longest tag", "the most labels"},
		entity.Phone: {"a digit less", "a digit more", "the most digits"},
		entity.IBAN:  {"an unknown country", "letters for digits", "the greatest length"},
	} {
		slices.Sort(want)
		expect.NoDiff(t, string(kind), want, slices.Sorted(maps.Keys(got[kind])))
	}
	facts := got[entity.Domain]["long facts"].Facts
	expect.That(t, len(facts["rdap.registrar"]) >= 250 && facts["rdap.age_days"] == "3" &&
		facts["config.words"] == "a b", "long facts: %q", facts)
	expect.Equal(t, "bytes of the longest name", len(got[entity.Domain]["the longest name"].Value), 253)
	many := make([]registry.Case, 200)
	for i := range many {
		many[i] = registry.Case{Type: "domain", Value: "shop" + strings.Repeat("x", i%40) + ".example"}
	}
	expect.That(t, len(Variations(slices.Repeat(many, 2))) <= maxVariations, "too many variations")
}

// A layer that fails for long names passes its only case, and fails for variations of it wherever these are tried.
func TestVariationsFindFailures(t *testing.T) {
	t.Parallel()
	m := packed(t, sections("\x01\x05assay\x04fact\x00\x01", "\x01\x00", "", "\x01",
		"\x00\x41\x00\x41\x0c\x41\xe4\x00\x41\x20\x10\x00\x41\xc8\x01\x4a\x04\x40\x00\x0b\x41\x00\x0b",
		"\x01\x00\x41\x00\x0b\x0cdomain.ascii"))
	cases := []registry.Case{{Name: "short", Type: "domain", Value: "www.example.com"}}
	p := expect.Value(sandbox.New(sandbox.Config{}).Open(t.Context(), m))(t)
	defer func() { expect.NoError(t, p.Close(context.WithoutCancel(t.Context()))) }()
	r := expect.Value(Cases(t.Context(), p, cases))(t)
	failed := r.Cases[1:]
	expect.That(t, len(r.Cases[0].Differences) == 0 && r.Failed == len(failed) && r.Varied >= 6 && len(failed) >= 3 &&
		strings.HasPrefix(failed[0].Name, "the longest name: a1b") &&
		strings.Contains(failed[0].Differences[0], "the layer failed: trap"), "%+v", r)
	values := expect.Value(samples(m))(t)
	for _, v := range Variations(expect.Value(m.Cases())(t)) {
		tried := slices.ContainsFunc(values, func(s sample) bool { return s.Type == v.Type && s.Value == v.Value })
		expect.That(t, tried, "the passport does not try %s: %s", v.How, v.Value)
	}
}
