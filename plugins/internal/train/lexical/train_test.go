package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
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

// writeFile writes text to a file in folder and returns its path.
func writeFile(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Two trainings give the same bytes, and a model that separates the labels.
func TestTrainingReproducible(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := writeFile(t, folder, "first.jsonl", lines(0, 400))
	second := writeFile(t, folder, "second.jsonl.gz", lines(1000, 400)+
		`{"value":"login-now.example.com","label":1,"source":"openphish","date":"2026-04-01"}`)
	emails := writeFile(t, folder, "emails.jsonl", `{"type":"email","value":"a@verify-1.com","label":1,"source":"x"}`)
	var outs [2]string
	var files [2]map[string]string
	for i := range files {
		out := filepath.Join(folder, strconv.Itoa(i))
		expect.NoError(t, os.Mkdir(out, 0o700))
		var report bytes.Buffer
		expect.NoError(t, run([]string{"-rows", first, "-rows", second, "-out", out, "-leave-out", "-emails", emails,
			"-validation", filepath.Join(out, "validation.jsonl")}, &report, io.Discard))
		outs[i], files[i] = report.String(), map[string]string{}
		for _, name := range []string{"weights.head", "weights-0.bin", "weights-1.bin", "words.bin",
			"validation.jsonl"} {
			files[i][name] = string(expect.Value(os.ReadFile(filepath.Join(out, name)))(t))
		}
	}
	expect.Equal(t, "two trainings gave different reports:\n", outs[0], outs[1])
	expect.Must(t, maps.Equal(files[0], files[1]), "two trainings gave different files")
	for _, want := range []string{"openphish ", "reports1 ", "list0 ", "mean "} {
		expect.That(t, strings.Contains(outs[0], "\n"+want), "the report has no line for %s: %s", want, outs[0])
	}
	expect.That(t, strings.Contains(files[0]["validation.jsonl"], "login-now.example.com"),
		"the report of OpenPhish does not validate")
	table := expect.Value(ngram.Open(files[0]["weights.head"], []byte(files[0]["weights-0.bin"]),
		[]byte(files[0]["weights-1.bin"])))(t)
	reader := &ngram.Reader{Words: expect.Value(ngram.OpenWords([]byte(files[0]["words.bin"]), ngram.WordBits))(t)}
	points := func(name string) int {
		a := ngram.Address{Name: name, Suffix: "com", TLD: "com"}
		var sums ngram.Sums
		table.Sum(reader.Read(&a), &sums)
		return sums.Parts[ngram.Name]
	}
	if good, bad := points("school-garden"), points("verify-bonus"); good >= 0 || bad <= 0 {
		t.Errorf("a good name has the weight %d and a bad one %d, want them on either side of 0", good, bad)
	}
}

func TestRunRejects(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	valid := writeFile(t, folder, "valid.jsonl", lines(0, 20))
	notGzip := writeFile(t, folder, "plain.gz", "not gzipped")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no rows":        {nil, "want at least one -rows file"},
		"stray argument": {[]string{"-rows", valid, "b"}, "no other arguments"},
		"unknown flag":   {[]string{"-speed", "9"}, "speed"},
		"missing file":   {[]string{"-rows", filepath.Join(folder, "none.jsonl")}, "none.jsonl"},
		"not gzipped":    {[]string{"-rows", notGzip}, "plain.gz: line 1: it is not JSON"},
		"missing emails": {[]string{"-rows", valid, "-emails", filepath.Join(folder, "none.jsonl")}, "none.jsonl"},
	} {
		expect.ErrorText(t, name, run(tt.args, io.Discard, io.Discard), tt.want)
	}
}

// No row of a publisher that is held out is trained on, and none on the site of an address that measures. The newest
// rows of OpenPhish validate, and a part of the honest ones.
func TestDivide(t *testing.T) {
	t.Parallel()
	var domains []*train.Domain
	add := func(n int, malicious bool, source string, age float64) {
		for i := range n {
			domains = append(domains, &train.Domain{Site: fmt.Sprintf("%s-%v-%d.com", source, age, i),
				Malicious: malicious, Source: source, Age: age})
		}
	}
	add(20, true, "openphish", 0.1)
	add(20, true, "openphish", 1)
	add(20, true, "ut1_phishing", -1)
	add(20, false, "ut1_bank", -1)
	add(1000, false, "list", -1)
	add(20, true, "reports", 3)
	validate := divide(domains, map[string]bool{"reports-3-7.com": true})
	trained, validating := map[string]int{}, map[string]int{}
	for _, d := range domains {
		if !d.TestOnly {
			trained[d.Source]++
		}
	}
	for _, d := range validate {
		validating[d.Source]++
		expect.That(t, d.TestOnly && d.Age != 1, "%+v validates", d)
	}
	expect.That(t, trained["reports"] == 19 && trained["list"]+validating["list"] == 1000 && len(trained) == 2,
		"trained on %v", trained)
	n := validating["list"]
	expect.That(t, n >= 50 && n <= 200, "%d of 1000 honest rows validate, want about one in %d", n, honestShare)
	expect.That(t, validating["openphish"] == 20 && validating["ut1_bank"] == 20 && len(validating) == 3, "%v validate",
		validating)
}

// Frequent sequences of letters become words, and names are cut into them.
func TestLearnWords(t *testing.T) {
	t.Parallel()
	var names []string
	parts := []string{"garden", "login", "bakery", "wallet", "museum", "verify"}
	for i := range 1200 {
		names = append(names, parts[i%6]+parts[i/6%6]+parts[i/36%6])
	}
	words, costs := learnWords(names)
	table := expect.Value(ngram.OpenWords(ngram.EncodeWords(words, costs, ngram.WordBits), ngram.WordBits))(t)
	var segments ngram.Segments
	for name, want := range map[string][]uint8{"walletgarden": {6, 12}, "xloginq": {1, 6, 7}, "": {}} {
		got := table.Segment(name, &segments)
		expect.That(t, bytes.Equal(got, want), "%s is cut at %v, want %v", name, got, want)
	}
}
