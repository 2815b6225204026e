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
			word, i, label, source, i%5)
	}
	return text.String()
}

// writeFile writes text to a file in folder, gzipped if its name ends in .gz, and returns its path.
func writeFile(t *testing.T, folder, name, text string) string {
	t.Helper()
	var content bytes.Buffer
	if strings.HasSuffix(name, ".gz") {
		zip := gzip.NewWriter(&content)
		if _, err := io.WriteString(zip, text); err != nil {
			t.Fatal(err)
		}
		if err := zip.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		content.WriteString(text)
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Training gives the same bytes for any number of jobs, and weights that separate the labels.
func TestTrainingReproducible(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := writeFile(t, folder, "target.jsonl", lines(0, 80))
	pool := writeFile(t, folder, "pool.jsonl.gz", lines(1000, 300))
	var outs [2]string
	var files [2][]string
	for i, jobs := range []string{"1", "2"} {
		out := filepath.Join(folder, "weights"+jobs)
		if err := os.Mkdir(out, 0o700); err != nil {
			t.Fatal(err)
		}
		var report bytes.Buffer
		err := run([]string{"-target", target, "-pool", pool, "-out", out, "-jobs", jobs, "-absent=false"}, &report,
			io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		outs[i] = report.String()
		for _, name := range []string{"weights.head", "weights-0.bin", "weights-1.bin", "weights-2.bin"} {
			b, err := os.ReadFile(filepath.Join(out, name))
			if err != nil {
				t.Fatal(err)
			}
			files[i] = append(files[i], string(b))
		}
	}
	if outs[0] != outs[1] {
		t.Errorf("two trainings gave different reports:\n%s\n%s", outs[0], outs[1])
	}
	if !slices.Equal(files[0], files[1]) {
		t.Fatal("two trainings gave different weights")
	}
	table, err := ngram.Open(files[0][0], files[0][1:]...)
	if err != nil {
		t.Fatal(err)
	}
	points := func(name string) float32 {
		a := ngram.Address{Name: name, Suffix: "com", TLD: "com"}
		var sum float32
		for _, f := range a.Features(nil) {
			sum += table.Weight(f.Hash)
		}
		return table.Points(sum)
	}
	if good, bad := points("school-garden"), points("verify-bonus"); good >= neutral || bad <= neutral {
		t.Errorf("a good name has %.1f points and a bad one %.1f, want them on either side of %d", good, bad, neutral)
	}
	if !strings.Contains(outs[0], "sites held out") {
		t.Errorf("the report has no quality: %s", outs[0])
	}
}

func TestRunRejects(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	valid := writeFile(t, folder, "valid.jsonl", lines(0, 20))
	notGzip := writeFile(t, folder, "plain.gz", "")
	if err := os.WriteFile(notGzip, []byte("not gzipped"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"no target":    {[]string{"-pool", valid}, "want at least one -target"},
		"missing file": {[]string{"-target", filepath.Join(folder, "none.jsonl")}, "none.jsonl"},
		"not gzipped":  {[]string{"-target", notGzip}, "plain.gz: line 1: it is not JSON"},
		"missing folder": {[]string{"-target", valid, "-absent=false", "-out", filepath.Join(folder, "none")},
			"writing weights"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := run(tt.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(%q) = %v, want an error that contains %q", tt.args, err, tt.want)
			}
		})
	}
}

// readRows returns the rows of a file with text, without rows added for training.
func readRows(t *testing.T, text string, target bool) []row {
	t.Helper()
	domains, _, err := train.ReadDomains(writeFile(t, t.TempDir(), "rows.jsonl", text), target)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]row, len(domains))
	for i, d := range domains {
		rows[i] = newRow(d, ngram.Of(&d.Host))
	}
	return rows
}

func TestAddHostLabels(t *testing.T) {
	t.Parallel()
	rows := append(readRows(t, lines(0, 1000), true), readRows(t, lines(1000, 1000), false)...)
	augmented := addHostLabels(slices.Clone(rows))
	if n := len(augmented) - len(rows); n < 20 || n > 80 {
		t.Fatalf("%d of 500 good pool rows were copied, want about one in %d", n, hostLabelEvery)
	}
	for _, r := range augmented[len(rows):] {
		if r.Malicious || r.Target || !slices.Contains(hostLabels, r.address.Left) {
			t.Errorf("added %q to a row that is bad: %t, target: %t", r.address.Left, r.Malicious, r.Target)
		}
	}
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
			if r.Malicious || r.Target || !r.Synthetic || r.address.Suffix != "com" || len(r.features) == 0 {
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
		case r.Synthetic && (r.Malicious || r.Target || !r.address.Hosted || r.address.Left != "" ||
			len(r.features) == 0 || sites[r.Site] || strings.HasPrefix(r.address.Name, "tested")):
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

func TestCalibrate(t *testing.T) {
	t.Parallel()
	var domains []train.Scored
	for i := -40; i <= 40; i++ { // of 1,000 rows with score x, the share of bad ones has log-odds 2x-1
		x := float64(i) / 10
		n := int(math.Round(1000 / (1 + math.Exp(1-2*x))))
		for k := range 1000 {
			domains = append(domains, train.Scored{Domain: &train.Domain{Malicious: k < n}, Score: x})
		}
	}
	if scale, offset := calibrate(domains); math.Abs(scale-2) > 0.02 || math.Abs(offset+1) > 0.02 {
		t.Errorf("calibrate = %.3f, %.3f, want 2, -1", scale, offset)
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
	if levels[0] != 0 {
		t.Errorf("the first level is %v, want 0", levels[0])
	}
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

// A balanced training doesn't learn the labels' frequencies.
func TestFitterBalances(t *testing.T) {
	t.Parallel()
	rows := readRows(t, lines(0, 40), true)
	for i := range rows {
		// The same few features for both labels, so that quantisation keeps each weight.
		rows[i].features = rows[0].features[:3]
		rows[i].Weight = 1
		if rows[i].Malicious {
			rows[i].Weight = 9
		}
	}
	var indices []int32
	for range 25 {
		for i := range rows {
			indices = append(indices, int32(i))
		}
	}
	for balanced, limit := range map[bool]float64{false: 9, true: 0.7} {
		got := math.Abs(fitter(rows, balanced)(indices)(0))
		if got > limit || !balanced && got < 1.5 {
			t.Errorf("balanced %t: a name of both labels has log-odds of %.2f", balanced, got)
		}
	}
}

// When bad families are new, good rows have their scores from models that know their families, and vice versa.
func TestWriteNewFamilies(t *testing.T) {
	t.Parallel()
	bad := &train.Domain{Malicious: true, Source: "reports"}
	list, hosts := &train.Domain{Source: "list"}, &train.Domain{Source: "hosts"}
	bad.Host.Suffix, list.Host.Suffix = "com", "com"
	heldOut := []train.Scored{{Domain: bad, Score: 3}, {Domain: list, Score: 1}, {Domain: hosts, Score: 0}}
	absent := []train.Scored{{Domain: hosts, Score: 4}, {Domain: bad, Score: 0.5}, {Domain: list, Score: 2}}
	var out bytes.Buffer
	writeNewFamilies(&out, heldOut, absent)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"one bad family absent 3 0.5000 0.000 .com only 2 0.0000 0.000",
		"one good family absent 3 0.5000 0.000 .com only 2 1.0000 1.000",
		"the row's own absent 3 0.0000 0.000 .com only 2 0.0000 0.000",
		"bad reports 1 0.000", "good hosts 1 1.000", "good list 1 0.000",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}
