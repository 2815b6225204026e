package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
	"assay/plugins/lexical/pattern"
	"assay/registry/expect"
)

// lines returns n labelled rows, numbered from the given number. Good and bad names contain different words.
func lines(from, n int) string {
	var text strings.Builder
	good := []string{"bakery", "garden", "museum", "school", "violin", "harbour", "meadow"}
	bad := []string{"verify", "unlock", "refund", "bonus", "airdrop", "billing", "suspended"}
	for i := from; i < from+n; i++ {
		word, label, source := good[i/2%len(good)], 0, "list"
		if i%2 == 1 {
			word, label, source = bad[i/2%len(bad)], 1, "reports"
		}
		fmt.Fprintf(&text, `{"type":"domain","value":"%s-%d.com","label":%d,"source":"%s%d","category":"made up"}`+"\n",
			word, i, label, source, i%2)
	}
	return text.String()
}

// writeFile writes text to a file in folder, gzipped if its name ends in .gz, and returns its path.
func writeFile(t *testing.T, folder, name, text string) string {
	t.Helper()
	var content bytes.Buffer
	if strings.HasSuffix(name, ".gz") {
		zip := gzip.NewWriter(&content)
		expect.Value(io.WriteString(zip, text))(t)
		expect.NoError(t, zip.Close())
	} else {
		content.WriteString(text)
	}
	path := filepath.Join(folder, name)
	expect.NoError(t, os.WriteFile(path, content.Bytes(), 0o600))
	return path
}

// Training gives the same bytes for any number of jobs, and weights that separate the labels.
func TestTrainingReproducible(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := writeFile(t, folder, "target.jsonl", lines(0, 80))
	pool := writeFile(t, folder, "pool.jsonl.gz", lines(1000, 300))
	emails := writeFile(t, folder, "emails.jsonl",
		`{"type":"email","value":"a@verify-3001.com","label":1,"source":"x:reports1"}
{"type":"email","value":"a@gmail.com","label":0,"source":"constructed"}
`)
	var outs [2]string
	var files [2][]string
	for i, jobs := range []string{"1", "2"} {
		out := filepath.Join(folder, "weights"+jobs)
		expect.NoError(t, os.Mkdir(out, 0o700))
		var report bytes.Buffer
		expect.NoError(t, run([]string{"-target", target, "-pool", pool, "-out", out, "-jobs", jobs,
			"-rows", filepath.Join(out, "sources.jsonl"), "-letter-rows", filepath.Join(out, "letters.jsonl"),
			"-emails", emails}, &report,
			io.Discard))
		outs[i] = report.String()
		for _, name := range []string{"weights.head", "weights-0.bin", "weights-1.bin", "odds.go"} {
			b := expect.Value(os.ReadFile(filepath.Join(out, name)))(t)
			files[i] = append(files[i], string(b))
		}
	}
	expect.Equal(t, "two trainings gave different reports:\n", outs[0], outs[1])
	if !slices.Equal(files[0], files[1]) {
		t.Fatal("two trainings gave different weights")
	}
	table := expect.Value(ngram.Open(files[0][0], []byte(files[0][1]), []byte(files[0][2])))(t)
	points := func(name string) int32 {
		a := ngram.Address{Name: name, Suffix: "com", TLD: "com"}
		var sums ngram.Sums
		table.Sum(&a, &sums)
		return sums.Parts[ngram.Name]
	}
	if good, bad := points("school-garden"), points("verify-bonus"); good >= 0 || bad <= 0 {
		t.Errorf("a good name has the weight %d and a bad one %d, want them on either side of 0", good, bad)
	}
	for _, want := range []string{"letters held out", "sources held out"} {
		if !strings.Contains(outs[0], want) {
			t.Errorf("the report has no quality for %s: %s", want, outs[0])
		}
	}
	for _, rows := range []string{"letters.jsonl", "sources.jsonl"} {
		held := expect.Value(os.ReadFile(filepath.Join(folder, "weights1", rows)))(t)
		expect.Equal(t, rows, strings.Count(string(held), `"held_out":{"lexical":`), 80)
	}
	mail, err := os.ReadFile(filepath.Join(folder, "weights1", "sources-emails.jsonl"))
	if err != nil || strings.Count(string(mail), "held_out") != 1 || strings.Count(string(mail), "\n") != 2 {
		t.Errorf("the addresses' rows are %q, %v, want the provider's without a score", mail, err)
	}
}

func TestRunRejects(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	valid := writeFile(t, folder, "valid.jsonl", lines(0, 20))
	notGzip := writeFile(t, folder, "plain.gz", "")
	expect.NoError(t, os.WriteFile(notGzip, []byte("not gzipped"), 0o600))
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no target":    {[]string{"-pool", valid}, "want at least one -target"},
		"missing file": {[]string{"-target", filepath.Join(folder, "none.jsonl")}, "none.jsonl"},
		"not gzipped":  {[]string{"-target", notGzip}, "plain.gz: line 1: it is not JSON"},
		"missing folder": {[]string{"-target", valid, "-absent=false", "-out", filepath.Join(folder, "none")},
			"writing the model"},
	} {
		expect.ErrorText(t, name, run(tt.args, io.Discard, io.Discard), tt.want)
	}
}

// readRows returns the rows of a file with text, without rows added for training.
func readRows(t *testing.T, text string, target bool) []row {
	t.Helper()
	domains, _, err := train.ReadDomains(writeFile(t, t.TempDir(), "rows.jsonl", text), target)
	expect.NoError(t, err)
	rows := make([]row, len(domains))
	for i, d := range domains {
		rows[i] = newRow(d)
	}
	return rows
}

// An imitated brand becomes a good row, unless the pool contains its site. Imitations by one family, or in the target,
// don't count.
func TestAddBrands(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range minBrandRows {
		for _, word := range []string{"monbank", "knownbank"} {
			fmt.Fprintf(&text, `{"value":"%s-login%d.top","label":1,"source":"s%d"}`+"\n", word, i, i%minBrandFamilies)
		}
		fmt.Fprintf(&text, `{"value":"onefeed-%d.top","label":1,"source":"s"}`+"\n", i)
		fmt.Fprintf(&text, `{"value":"abc-%d.top","label":1,"source":"s%d"}`+"\n", i, i%minBrandFamilies)
	}
	text.WriteString(`{"value":"knownbank.com","label":1,"source":"s"}`)
	for target, want := range map[bool][]string{true: nil, false: {"login", "monbank"}} {
		rows := readRows(t, text.String(), target)
		var got []string
		for _, r := range addBrands(rows)[len(rows):] {
			if r.Malicious || r.Target || !r.Synthetic || r.address.Suffix != "com" || len(r.slots) == 0 {
				t.Errorf("added %+v", r)
			}
			got = append(got, r.address.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("target %t: added brands %q, want %q", target, got, want)
		}
	}
}

// On a shared host with bad rows, good rows weigh at least goodHostShare of the bad ones. Tested sites are not copied.
func TestAddSharedHosts(t *testing.T) {
	t.Parallel()
	var pool, target strings.Builder
	for i := range 40 {
		fmt.Fprintf(&pool, `{"value":"login.wallet%d.vercel.app","label":1,"source":"s"}`+"\n", i)
		fmt.Fprintf(&pool, `{"value":"honest%d.example%d.com","label":0,"source":"list"}`+"\n", i, i)
		fmt.Fprintf(&pool, `{"value":"honest%d.com","label":0,"source":"list"}`+"\n", i)
	}
	pool.WriteString(`{"value":"wallet.weebly.com","label":1,"source":"s"}` + "\n")
	for i := range 2 {
		fmt.Fprintf(&pool, `{"value":"honest%d.weebly.com","label":0,"source":"list"}`+"\n", i)
	}
	for i := range 20 {
		fmt.Fprintf(&target, `{"value":"login.honest%d.vercel.app","label":1,"source":"s"}`+"\n", i)
		fmt.Fprintf(&target, `{"value":"tested%d.com","label":0,"source":"list"}`+"\n", i)
	}
	rows := append(readRows(t, pool.String(), false), readRows(t, target.String(), true)...)
	sites := map[string]bool{}
	for _, r := range rows {
		sites[r.Site] = true
	}
	rows = addSharedHosts(rows)
	weigh(rows)
	bad, good := 0.0, 0.0
	for _, r := range rows {
		switch {
		case r.Synthetic && (r.Malicious || r.Target || !r.address.Hosted ||
			len(r.slots) == 0 || sites[r.Site] || strings.HasPrefix(r.address.Name, "tested")):
			t.Errorf("added %+v", r)
		case r.Synthetic && r.address.Suffix == "weebly.com" && r.Weight != 0:
			t.Errorf("%s weighs %g, want 0 on a host with more good rows than bad ones", r.Site, r.Weight)
		case r.address.Suffix != "vercel.app":
		case r.Synthetic:
			good += float64(r.Weight)
		case r.Malicious:
			bad += float64(r.Weight)
		}
	}
	if bad == 0 || math.Abs(good-goodHostShare*bad) > 0.01*bad {
		t.Errorf("bad rows under vercel.app weigh %g, and good ones %g", bad, good)
	}
	if got := addSharedHosts(rows[:1]); len(got) != 1 {
		t.Errorf("%d rows added without good rows to copy", len(got)-1)
	}
}

// Bad rows under a suffix with few good ones weigh at most maxSuffixRatio of the good ones and the prior.
func TestBoundSuffixes(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, `{"value":"bad%d.top","label":1,"source":"s"}`+"\n", i)
		fmt.Fprintf(&text, `{"value":"good%d.org","label":%d,"source":"s"}`+"\n", i, i%2)
	}
	rows := readRows(t, text.String(), true)
	total := map[string]float64{}
	for _, r := range rows {
		r.Weight = 1
	}
	boundSuffixes(rows)
	for _, r := range rows {
		total[r.Host.TLD] += float64(r.Weight)
	}
	if want := float64(maxSuffixRatio * suffixPrior); math.Abs(total["top"]-want) > 1 || total["org"] != 1000 {
		t.Errorf("weights by suffix are %v, want %g under top and 1000 under org", total, want)
	}
}

// Odds learn what the runs of characters do not tell, within their bounds.
func TestLearnOdds(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 400 { // bad names have many digits; the runs of characters say nothing
		fmt.Fprintf(&text, `{"value":"garden%d.com","label":1,"source":"s"}`+"\n", 100000+i)
		fmt.Fprintf(&text, `{"value":"%s.com","label":0,"source":"t"}`+"\n", strings.Repeat(string(rune('a'+i%26)),
			5+i%7))
	}
	rows := readRows(t, text.String(), true)
	indices := make([]int32, len(rows))
	for i := range rows {
		rows[i].Weight, indices[i] = 1, int32(i)
	}
	rarity := rarityOf(rows)
	o := learnOdds(rows, indices, make([]float64, len(rows)), &rarity)
	for _, r := range rows {
		if points := o.points(&r, 0, &rarity); (points > 0) != r.Malicious {
			t.Fatalf("%s has %.0f points", r.Site, points)
		}
	}
	for id, odds := range o.patterns {
		if low, high := pattern.Bounds(id); odds*perUnit < float64(low)-1e-9 || odds*perUnit > float64(high)+1e-9 {
			t.Errorf("feature %d has %.1f points, want %d to %d", id, odds*perUnit, low, high)
		}
	}
}

// Suffixes under which too many good names reach the threshold get a discount, and others none.
func TestDiscount(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, `{"value":"bad%d.com","label":1,"source":"s"}`+"\n", i)
		fmt.Fprintf(&text, `{"value":"good%d.com","label":0,"source":"t"}`+"\n", i)
	}
	for i := range 20 {
		fmt.Fprintf(&text, `{"value":"small%d.shop","label":0,"source":"t"}`+"\n", i)
	}
	m := &model{rows: readRows(t, text.String(), true)}
	points := make([]float64, len(m.rows))
	for i, r := range m.rows {
		switch {
		case r.Malicious:
			points[i] = 50
		case r.Host.TLD == "shop":
			points[i] = float64(10 + 4*(i%20))
		}
	}
	got := m.discount(points)
	threshold := train.Measure(train.Targets(domainsOf(m.rows), m.finished(points))).Threshold
	if got["shop"] <= 0 || got["com"] != 0 {
		t.Errorf("discounts %v at a threshold of %.0f, want one for shop alone", got, threshold)
	}
}

// Levels are near the used weights, and unused slots get the level 0.
func TestQuantise(t *testing.T) {
	t.Parallel()
	weights, used := make([]float32, 3000), make([]float32, 3000)
	for i := range weights {
		weights[i] = float32(i)/1500 - 1
		used[i] = float32(i % 3) // a third is unused
	}
	levels, at := quantise(weights, used)
	expect.Equal(t, "the first level", levels[0], 0)
	for i, w := range weights {
		want := w
		if used[i] == 0 {
			want = 0
		}
		if got := levels[at[i]]; math.Abs(float64(got-want)) > 0.1 {
			t.Fatalf("weight %v, used by %v rows, became %v", w, used[i], got)
		}
	}
}

func TestBalance(t *testing.T) {
	t.Parallel()
	var rows []row
	for _, d := range []train.Domain{{Weight: 1}, {Weight: 2}, {Malicious: true, Weight: 9},
		{Malicious: true, Weight: 1000}} {
		rows = append(rows, row{Domain: &d})
	}
	factors := balance(rows, []int32{0, 1, 2})
	good, bad := 3*factors.good, 9*factors.bad
	if math.Abs(float64(good-bad)) > 1e-5 || math.Abs(float64(good+bad-12)) > 1e-5 {
		t.Errorf("good rows weigh %v and bad ones %v, want 6 each", good, bad)
	}
}
