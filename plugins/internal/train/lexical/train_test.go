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

	"assay/plugins/lexical/ngram"
)

// lines makes n labelled rows of honest and bad names that differ in their words, numbered from the given one.
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

// store writes text to a file of folder, gzipped when its name says so, and returns its path.
func store(t *testing.T, folder, name, text string) string {
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

// Training twice gives the same bytes, however many trainings run beside each other, and a table that tells the kinds
// apart.
func TestTrainingReproducible(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := store(t, folder, "target.jsonl", lines(0, 80))
	pool := store(t, folder, "pool.jsonl.gz", lines(1000, 300))
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
		t.Errorf("two trainings measured differently:\n%s\n%s", outs[0], outs[1])
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
		t.Errorf("an honest name has %.1f points and a bad one %.1f, want them on either side of %d", good, bad,
			neutral)
	}
	if !strings.Contains(outs[0], "rows held out") {
		t.Errorf("the report measures nothing: %s", outs[0])
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	good := store(t, folder, "good.jsonl", lines(0, 20))
	half := store(t, folder, "half.jsonl", `{"value":"a.com","label":1,"source":"s"}`)
	plain := store(t, folder, "plain.gz", "")
	if err := os.WriteFile(plain, []byte("not gzipped"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"no target":      {[]string{"-pool", good}, "want at least one -target"},
		"stray argument": {[]string{"-target", good, good}, "no other arguments"},
		"no jobs":        {[]string{"-target", good, "-jobs", "0"}, "-jobs of 1 or more"},
		"no such file":   {[]string{"-target", filepath.Join(folder, "none.jsonl")}, "none.jsonl"},
		"not gzipped":    {[]string{"-target", plain}, "plain.gz: line 1: it is not JSON"},
		"one label only": {[]string{"-target", half}, "rows of both labels"},
		"unknown flag":   {[]string{"-speed", "9"}, "speed"},
		"no such folder": {[]string{"-target", good, "-absent=false", "-out", filepath.Join(folder, "none")},
			"writing the weights"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := run(tt.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(%q) = %v, want an error that holds %q", tt.args, err, tt.want)
			}
		})
	}
}

func TestReadRows(t *testing.T) {
	t.Parallel()
	const ok = `{"type":"domain","value":"a.example.com","label":1,"source":"s","category":"c","rank":7}` + "\n"
	tests := map[string]struct{ text, want string }{
		"cut line":      {ok + `{"value":"b.com","la`, "line 2: it is not JSON"},
		"no JSON":       {"\n\nplain\n", "line 3: it is not JSON"},
		"wrong type":    {ok + ok + `{"value":7,"label":1,"source":"s"}`, "line 3: "},
		"no label":      {`{"value":"b.com","source":"s"}`, "line 1: label is missing"},
		"label of two":  {`{"value":"b.com","label":2,"source":"s"}`, "line 1: label"},
		"no value":      {ok + `{"label":0,"source":"s"}`, "line 2: value is missing"},
		"no source":     {ok + `{"value":"b.com","label":0}`, "b.com: source is missing"},
		"endless line":  {ok + strings.Repeat(" ", 2<<20), "line 2 is longer"},
		"all is well":   {ok + "\n" + `{"value":"b.com","label":0,"source":"s"}`, ""},
		"another type":  {ok + `{"type":"email","value":"a@b.com","label":0,"source":"s"}` + "\n" + ok, ""},
		"no such value": {ok + `{"value":"exa mple.com","label":0,"source":"s"}` + "\n" + ok, ""},
		"a suffix":      {ok + `{"value":"co.uk","label":0,"source":"s"}` + "\n" + ok, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, skipped, err := readRows(strings.NewReader(tt.text), true)
			switch {
			case tt.want != "":
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("reading gave %v, want an error that holds %q", err, tt.want)
				}
			case err != nil:
				t.Error(err)
			case len(rows) != 2 || rows[0].site != "example.com" || rows[0].address.Left != "a" || !rows[0].bad ||
				!rows[0].target:
				t.Errorf("read %+v", rows)
			case strings.Contains(name, "suffix") || strings.Contains(name, "such"):
				if skipped != 1 {
					t.Errorf("skipped %d rows, want 1", skipped)
				}
			}
		})
	}
}

func made(t *testing.T, n int) []row {
	t.Helper()
	rows, _, err := readRows(strings.NewReader(lines(0, n)), true)
	if err != nil {
		t.Fatal(err)
	}
	for i := n / 2; i < n; i++ {
		rows[i].target = false
	}
	return rows
}

// No row may be learned from and tested, no site may stand on both sides, and absent sources must be absent.
func TestTrialsLeak(t *testing.T) {
	t.Parallel()
	rows := made(t, 400)
	for _, r := range made(t, 40) { // the same sites again, under the pool
		r.target = false
		rows = append(rows, r)
	}
	rows = lend(distinct(rows))
	weigh(rows)
	all := trials(rows)
	if len(all) != 4 {
		t.Fatalf("%d trials, want 4", len(all))
	}
	for _, tr := range all {
		tested := map[string]int{}
		for _, s := range tr.splits {
			learned, sources := map[string]bool{}, map[string]bool{}
			for _, i := range s.train {
				learned[rows[i].site] = true
				sources[key(&rows[i])] = true
			}
			if len(s.train) == 0 || len(s.test) == 0 {
				t.Fatalf("%s: %d rows to learn from, %d to test", tr.name, len(s.train), len(s.test))
			}
			for _, i := range s.test {
				r := &rows[i]
				tested[r.site]++
				absent := tr.name == "both absent" || tr.name == "bad sources absent" && r.bad ||
					tr.name == "good sources absent" && !r.bad
				switch {
				case learned[r.site]:
					t.Fatalf("%s: %s is learned from and tested", tr.name, r.site)
				case !r.target:
					t.Fatalf("%s: %s is no target row", tr.name, r.site)
				case absent && sources[key(r)]:
					t.Fatalf("%s: source %s is not absent", tr.name, r.source)
				}
			}
		}
		if len(tested) != 200 {
			t.Errorf("%s: %d sites tested, want all 200", tr.name, len(tested))
		}
	}
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	rows := []row{
		{bad: true, target: true, source: "discord_one"}, {bad: true, target: true, source: "discord_two"},
		{bad: true, target: true, source: "phishing_army"}, {target: true, source: "list"},
	}
	got := families(rows)
	if len(got) != 3 || got["bad discord"] != 0 || got["bad phishing"] != 1 || got["good list"] != 0 {
		t.Errorf("families are dealt %v", got)
	}
}

func TestWeighGivesThePoolTheTargetsMix(t *testing.T) {
	t.Parallel()
	var rows []row
	add := func(n int, target, bad bool, source string) {
		for range n {
			rows = append(rows, row{target: target, bad: bad, source: source})
		}
	}
	add(10, true, true, "small")
	add(10, true, true, "giant")
	add(20, true, false, "list")
	add(10, false, true, "small")
	add(990, false, true, "giant")
	add(100, false, false, "list")
	weigh(rows)
	total := map[string]float64{}
	for _, r := range rows {
		if !r.target {
			total[r.source] += float64(r.weight)
		}
	}
	if math.Abs(total["small"]-total["giant"]) > 1 || math.Abs(total["list"]-total["small"]-total["giant"]) > 1 {
		t.Errorf("the pool's sources weigh %v, want small and giant alike and list as both", total)
	}
	if math.Abs(total["small"]+total["giant"]+total["list"]-1100) > 2 {
		t.Errorf("the pool's weights average %v, want 1", total)
	}
}

func TestLend(t *testing.T) {
	t.Parallel()
	rows := made(t, 2000)
	more := lend(slices.Clone(rows))
	if lent := len(more) - len(rows); lent < 20 || lent > 80 {
		t.Fatalf("%d of 500 good pool rows were lent a machine's name, want about one in %d", lent, oneIn)
	}
	for _, r := range more[len(rows):] {
		if r.bad || r.target || !slices.Contains(machines, r.address.Left) {
			t.Errorf("lent %q to a row that is bad: %t, target: %t", r.address.Left, r.bad, r.target)
		}
	}
}

// A word that bad names borrow is good by itself, unless the pool knows it; one family alone, or the target, exonerates
// nothing.
func TestExonerate(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range borrowedRows {
		for _, word := range []string{"monbank", "knownbank"} {
			fmt.Fprintf(&text, `{"value":"%s-login%d.top","label":1,"source":"s%d"}`+"\n", word, i, i%borrowedFamilies)
		}
		fmt.Fprintf(&text, `{"value":"onefeed-%d.top","label":1,"source":"s"}`+"\n", i)
		fmt.Fprintf(&text, `{"value":"abc-%d.top","label":1,"source":"s%d"}`+"\n", i, i%borrowedFamilies)
	}
	text.WriteString(`{"value":"knownbank.com","label":1,"source":"s"}`)
	for target, want := range map[bool][]string{true: nil, false: {"login", "monbank"}} {
		rows, _, err := readRows(strings.NewReader(text.String()), target)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range exonerate(rows)[len(rows):] {
			if r.bad || r.target || !r.lent || r.address.Suffix != "com" || len(r.features) == 0 {
				t.Errorf("a borrowed word became %+v", r)
			}
			got = append(got, r.address.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("target %t: exonerated %q, want %q", target, got, want)
		}
	}
}

// Under a shared host that reports name, good rows must weigh half of the bad ones, and no tested site may be among
// them.
func TestSettle(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, `{"value":"login.wallet%d.vercel.app","label":1,"source":"s"}`+"\n", i)
		fmt.Fprintf(&text, `{"value":"honest%d.example%d.com","label":0,"source":"list"}`+"\n", i, i)
		fmt.Fprintf(&text, `{"value":"honest%d.com","label":0,"source":"list"}`+"\n", i)
	}
	text.WriteString(`{"value":"wallet.weebly.com","label":1,"source":"s"}` + "\n")
	for i := range 2 {
		fmt.Fprintf(&text, `{"value":"honest%d.weebly.com","label":0,"source":"list"}`+"\n", i)
	}
	rows, _, err := readRows(strings.NewReader(text.String()), false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // of the target, under the same host: never copied
		r := rows[3*i]
		r.target = true
		r.address.Name = fmt.Sprintf("honest%d", i)
		r.site = r.address.Name + ".vercel.app"
		rows = append(rows, r)
		r = rows[3*i+2]
		r.target = true
		r.address.Name = fmt.Sprintf("tested%d", i)
		r.site = r.address.Name + ".com"
		rows = append(rows, r)
	}
	sites := map[string]bool{}
	for _, r := range rows {
		sites[r.site] = true
	}
	rows = settle(rows)
	weigh(rows)
	bad, made := 0.0, 0.0
	for _, r := range rows {
		switch {
		case r.lent && (r.bad || r.target || !r.address.Hosted || r.address.Left != "" || len(r.features) == 0 ||
			sites[r.site] ||
			strings.HasPrefix(r.address.Name, "tested")):
			t.Errorf("a made-up row is %+v", r)
		case r.lent && r.address.Suffix == "weebly.com" && r.weight != 0:
			t.Errorf("a host with more good rows than bad ones was given %s, which weighs %g", r.site, r.weight)
		case r.address.Suffix != "vercel.app":
		case r.lent:
			made += float64(r.weight)
		case r.bad:
			bad += float64(r.weight)
		}
	}
	if bad == 0 || math.Abs(made-honestShare*bad) > 0.01*bad {
		t.Errorf("bad rows under vercel.app weigh %g, and good ones %g", bad, made)
	}
	only := rows[:1]
	if got := settle(only); len(got) != 1 {
		t.Errorf("without good rows %d were made", len(got)-1)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	bad, good := &row{bad: true}, &row{}
	var all []scored
	for i := range 200 {
		all = append(all, scored{float64(i), good}) // two of these may be false alarms: 198 and 199
	}
	for _, s := range []float64{197.5, 198.5, 250, 10} {
		all = append(all, scored{s, bad})
	}
	q := judge(all)
	if want := (198.0 + 199 + 200 + 10.5) / 800; math.Abs(q.auc-want) > 1e-9 {
		t.Errorf("area %v, want %v", q.auc, want)
	}
	if q.recall != 0.75 || q.above >= 197.5 || q.above < 197 {
		t.Errorf("recall %v above %v, want 0.75 above 197 and below 197.5", q.recall, q.above)
	}
	tied := judge([]scored{{1, good}, {1, bad}})
	if tied.auc != 0.5 || tied.recall != 0 {
		t.Errorf("a tie gives %+v, want half the area and nothing found", tied)
	}
}

func TestCalibrate(t *testing.T) {
	t.Parallel()
	var all []scored
	for i := -40; i <= 40; i++ { // as many bad rows in a thousand as log-odds of 2x-1 say
		x := float64(i) / 10
		n := int(math.Round(1000 / (1 + math.Exp(1-2*x))))
		for k := range 1000 {
			all = append(all, scored{x, &row{bad: k < n}})
		}
	}
	if scale, offset := calibrate(all); math.Abs(scale-2) > 0.02 || math.Abs(offset+1) > 0.02 {
		t.Errorf("log-odds are %.3f times the sum and %.3f, want 2 and -1", scale, offset)
	}
}

func TestLogistic(t *testing.T) {
	t.Parallel()
	for _, x := range []float32{-40, -30, -5, -0.5, 0, 0.5, 5, 30, 40} {
		want := 1 / (1 + math.Exp(-float64(min(max(x, -30), 30))))
		if got := float64(logistic(x)); math.Abs(got-want) > 1e-4 {
			t.Errorf("logistic(%v) = %v, want %v", x, got, want)
		}
	}
}

// Levels must lie near the weights that are used, and slots that no row uses hold nothing.
func TestQuantise(t *testing.T) {
	t.Parallel()
	weights, used := make([]float32, 3000), make([]float32, 3000)
	for i := range weights {
		weights[i] = float32(i)/1500 - 1
		used[i] = float32(i % 3) // a third is not used
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
			t.Fatalf("weight %v, used %v times, became %v", w, used[i], got)
		}
	}
}
