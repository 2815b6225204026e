package train

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/plugins/internal/suffix"
	"assay/registry/expect"
)

func discard(string, ...any) {}

// writeFile writes text to a new file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// testDomains returns the domains site0.com to site399.com. Odd ones are malicious, the first 200 are of the target,
// and each label has five families. The files contain a duplicate of each of the first 40 sites, which Domains drops.
func testDomains(t *testing.T) []*Domain {
	t.Helper()
	var target, pool strings.Builder
	for i := range 400 {
		out := &target
		if i >= 200 {
			out = &pool
		}
		fmt.Fprintf(out, `{"value":"site%d.com","label":%d,"source":"s%d_%d"}`+"\n", i, i%2, i%5, i)
		if i < 40 {
			fmt.Fprintf(&pool, `{"value":"www.site%d.com","label":%d,"source":"s%d_%d"}`+"\n", i, i%2, i%5, i)
		}
	}
	options := Options{Target: []string{writeFile(t, target.String())}, Pool: []string{writeFile(t, pool.String())}}
	domains := expect.Value(options.Domains(nil, discard))(t)
	if len(domains) != 400 {
		t.Fatalf("%d domains, want 400 distinct sites", len(domains))
	}
	return domains
}

func TestReadDomains(t *testing.T) {
	t.Parallel()
	const ok = `{"type":"domain","value":"a.example.com","label":1,"source":"s_x","category":"c","rank":7}` + "\n"
	for name, tt := range map[string]struct {
		text    string
		want    string // part of the error
		skipped int
	}{
		"truncated line":  {ok + `{"value":"b.com","la`, "line 2: it is not JSON", 0},
		"not JSON":        {"\n\nplain\n", "line 3: it is not JSON", 0},
		"wrong type":      {ok + ok + `{"value":7,"label":1,"source":"s"}`, "line 3: ", 0},
		"no label":        {`{"value":"b.com","source":"s"}`, "line 1: label is missing", 0},
		"label 2":         {`{"value":"b.com","label":2,"source":"s"}`, "line 1: label", 0},
		"no value":        {ok + `{"label":0,"source":"s"}`, "line 2: value is missing", 0},
		"no source":       {ok + `{"value":"b.com","label":0}`, "b.com: source is missing", 0},
		"line too long":   {ok + strings.Repeat(" ", 2<<20), "line 2 is longer", 0},
		"valid":           {ok + "\n" + `{"value":"b.com","label":0,"source":"s"}`, "", 0},
		"other type":      {ok + `{"type":"email","value":"a@b.com","label":0,"source":"s"}` + "\n" + ok, "", 0},
		"invalid domain":  {ok + `{"value":"exa mple.com","label":0,"source":"s"}` + "\n" + ok, "", 1},
		"a public suffix": {ok + `{"value":"co.uk","label":0,"source":"s"}` + "\n" + ok, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			domains, skipped, err := ReadDomains(writeFile(t, tt.text), true)
			if tt.want != "" {
				expect.ErrorText(t, "error", err, tt.want)
				return
			}
			expect.NoError(t, err)
			if len(domains) != 2 || skipped != tt.skipped {
				t.Fatalf("read %d domains and skipped %d, want 2 and %d", len(domains), skipped, tt.skipped)
			}
			if d := domains[0]; d.Site != "example.com" || d.Host.Subdomain != "a" || d.Family != "bad s" ||
				d.Category != "c" || !d.Malicious || !d.Target {
				t.Errorf("read %+v", d)
			}
		})
	}
}

func TestDomainsRejects(t *testing.T) {
	t.Parallel()
	good := writeFile(t, `{"value":"a.com","label":0,"source":"s"}`)
	bad := writeFile(t, `{"value":"b.com","label":1,"source":"s"}`)
	expect.ErrorText(t, "error", expect.ErrorOf((Options{Target: []string{good}}).Domains(nil, discard)), "both labels")
	options := Options{Target: []string{good}, Pool: []string{bad}}
	if _, err := options.Domains(func(h *suffix.Host) bool { return h.Name != "b" }, discard); err == nil {
		t.Error("no error if the layer scores domains of a single label")
	}
	if domains, err := options.Domains(nil, discard); err != nil || len(domains) != 2 || domains[1].Target {
		t.Errorf("Domains = %v, %v", domains, err)
	}
}

func TestWeighGivesThePoolTheTargetsMix(t *testing.T) {
	t.Parallel()
	var domains []*Domain
	add := func(n int, target, malicious bool, source string) {
		for range n {
			domains = append(domains, &Domain{Target: target, Malicious: malicious, Source: source})
		}
	}
	add(10, true, true, "small")
	add(10, true, true, "giant")
	add(20, true, false, "list")
	add(10, false, true, "small")
	add(990, false, true, "giant")
	add(100, false, false, "list")
	domains = append(domains, &Domain{Synthetic: true, Weight: 7})
	Weigh(domains)
	total := map[string]float64{}
	for _, d := range domains {
		if !d.Target {
			total[d.Source] += float64(d.Weight)
		} else if d.Weight != targetWeight {
			t.Fatalf("a target domain weighs %v, want %v", d.Weight, targetWeight)
		}
	}
	expect.Equal(t, "a synthetic domain weighs", total[""], 7)
	if math.Abs(total["small"]-total["giant"]) > 1 || math.Abs(total["list"]-total["small"]-total["giant"]) > 1 {
		t.Errorf("the pool's sources weigh %v, want small and giant to be equal and list to equal their sum", total)
	}
	if math.Abs(total["small"]+total["giant"]+total["list"]-1100) > 2 {
		t.Errorf("the pool's sources weigh %v, want a mean of 1 per domain", total)
	}
}

// Splits by letters never separate names with the same first letters, and test everything but synthetic domains.
func TestHoldOutLetters(t *testing.T) {
	t.Parallel()
	domains := append(testDomains(t), &Domain{Synthetic: true})
	h := HoldOutLetters(domains)
	tested := 0
	for _, s := range h.Splits {
		tested += len(s.Test)
		if len(s.Train)+len(s.Test) != len(domains) {
			t.Errorf("trains on %d domains and tests on %d, want %d in all", len(s.Train), len(s.Test), len(domains))
		}
		checkApart(t, domains, s)
	}
	expect.Equal(t, "domains tested", tested, len(domains)-1)
}

// Splits by source train neither on the source nor on names with the first letters of the tested ones, and domains that
// are only tested are in no training.
func TestHoldOutSources(t *testing.T) {
	t.Parallel()
	domains := append(testDomains(t), &Domain{Synthetic: true}, &Domain{TestOnly: true, Source: "mail"})
	domains[0].Host.Name, domains[1].Host.Name = "sistername-1", "sistername-2"
	sources := map[string]bool{}
	for _, d := range domains {
		if d.Target || d.TestOnly {
			sources[d.Source] = true
		}
	}
	h := HoldOutSources(domains)
	if len(h.Splits) != len(sources) {
		t.Fatalf("%d splits, want one for each of %d sources", len(h.Splits), len(sources))
	}
	for _, s := range h.Splits {
		checkApart(t, domains, s)
		heldOut := domains[s.Test[0]].Source
		for _, i := range s.Train {
			if d := domains[i]; d.Source == heldOut || d.TestOnly {
				t.Fatalf("%s: trains on %+v", heldOut, d)
			}
		}
	}
}

// checkApart asserts that a split trains on no name with the first letters of a tested one.
func checkApart(t *testing.T, domains []*Domain, s Split) {
	t.Helper()
	letters := map[string]bool{}
	for _, i := range s.Test {
		letters[Letters(domains[i].Host.Name)] = true
	}
	for _, i := range s.Train {
		if letters[Letters(domains[i].Host.Name)] {
			t.Fatalf("trains on %s, which shares its first letters with a tested name", domains[i].Site)
		}
	}
}

func TestLetters(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "", "abc": "abc", "abcdefgh": "abcdef", "müüüüüß": "müüüüü"} {
		if got := Letters(name); got != want {
			t.Errorf("the first letters of %q are %q, want %q", name, got, want)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	domains := testDomains(t)
	h := HoldOutLetters(domains)
	lines := 0
	scores := h.Run(domains, 2, func(indices []int32) func(int32) float64 {
		return func(i int32) float64 { return float64(1000*len(indices)) + float64(i) }
	}, func(string, ...any) { lines++ })
	expect.Equal(t, "lines of progress", lines, len(h.Splits))
	for _, s := range h.Splits {
		for _, at := range s.Test {
			if want := float64(1000*len(s.Train)) + float64(at); scores[at] != want {
				t.Fatalf("domain %d scores %v, want %v", at, scores[at], want)
			}
		}
	}
	for _, s := range Targets(domains, scores) {
		if !s.Target {
			t.Errorf("%+v is not of the target", s.Domain)
		}
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	bad, good := &Domain{Malicious: true}, &Domain{}
	var domains []Scored
	for i := range 200 {
		domains = append(domains, Scored{good, float64(i)}) // 1% is two: 198 and 199
	}
	for _, score := range []float64{197.5, 198.5, 250, 10} {
		domains = append(domains, Scored{bad, score})
	}
	q := Measure(domains)
	if want := (198.0 + 199 + 200 + 10.5) / 800; math.Abs(q.AUC-want) > 1e-9 {
		t.Errorf("AUC %v, want %v", q.AUC, want)
	}
	if q.Recall != 0.75 || q.Threshold != 197.5 {
		t.Errorf("recall %v from %v on, want 0.75 from 197.5 on", q.Recall, q.Threshold)
	}
	expect.Equal(t, "a tie gives", Measure([]Scored{{good, 1}, {bad, 1}}), (Quality{0.5, 0, math.Inf(1)}))
}

func TestLogistic(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{-40, -30, -5, -0.5, 0, 0.5, 5, 30, 40} {
		want := 1 / (1 + math.Exp(-min(max(x, -30), 30)))
		if got := Logistic(x); math.Abs(got-want) > 1e-4 {
			t.Errorf("Logistic(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestWriteWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	var out strings.Builder
	expect.NoError(t, WriteWords(&out, []string{"a", long, strings.Repeat("b", 17), "c", "d"}))
	if want := "a " + long + " " + strings.Repeat("b", 17) + "\nc d\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no target":      {nil, "want at least one -target"},
		"stray argument": {[]string{"-target", "a", "b"}, "no other arguments"},
		"no jobs":        {[]string{"-target", "a", "-jobs", "0"}, "-jobs of 1 or more"},
		"unknown flag":   {[]string{"-speed", "9"}, "speed"},
	} {
		expect.ErrorText(t, name, expect.ErrorOf(Parse(tt.args, io.Discard, nil)), tt.want)
	}
}
