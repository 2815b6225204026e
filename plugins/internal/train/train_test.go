package train

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/host/measure/eval"
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

func TestReadDomains(t *testing.T) {
	t.Parallel()
	const ok = `{"type":"domain","value":"a.example.com","label":1,"source":"s","date":"2025-05","category":"c"}` + "\n"
	type testCase struct {
		text    string
		want    string // part of the error
		skipped int
	}
	expect.Each(t, map[string]testCase{
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
	}, func(t *testing.T, tt testCase) {
		domains, skipped, err := ReadDomains(writeFile(t, tt.text))
		if tt.want != "" {
			expect.ErrorText(t, "error", err, tt.want)
			return
		}
		expect.NoError(t, err)
		expect.Must(t, len(domains) == 2 && skipped == tt.skipped, "read %d domains and skipped %d, want 2 and %d",
			len(domains), skipped, tt.skipped)
		d := domains[0]
		expect.That(t, d.Site == "example.com" && d.Host.Subdomain == "a" && d.Category == "c" && d.Malicious &&
			d.Age >= 0.9 && d.Age <= 1.1, "read %+v", d)
	})
}

// The first domain of each site counts.
func TestReadSites(t *testing.T) {
	t.Parallel()
	good := writeFile(t, `{"value":"a.com","label":0,"source":"s"}`)
	bad := writeFile(t, `{"value":"www.a.com","label":1,"source":"s"}`+"\n"+`{"value":"b.com","label":1,"source":"s"}`)
	domains := expect.Value(ReadSites([]string{good, bad}, discard))(t)
	expect.That(t, len(domains) == 2 && !domains[0].Malicious && domains[1].Site == "b.com", "read %+v", domains)
	expect.ErrorText(t, "error", expect.ErrorOf(ReadSites([]string{good}, discard)), "both labels")
}

// The date of a row is a year, a month or a day. Other text does not count.
func TestAgeOf(t *testing.T) {
	t.Parallel()
	for date, want := range map[string]float64{"2026-05-01": 0, "2026-04": 0.08, "2024": 2.33, "": -1, "lately": -1} {
		got := Age(date, RowsUntil)
		expect.That(t, math.Abs(got-want) <= 0.01, "the age of a row of %q is %v, want %v", date, got, want)
	}
}

func TestLogistic(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{-40, -30, -5, -0.5, 0, 0.5, 5, 30, 40} {
		want, got := 1/(1+math.Exp(-min(max(x, -30), 30))), Logistic(x)
		expect.That(t, math.Abs(got-want) <= 1e-4, "Logistic(%v) = %v, want %v", x, got, want)
	}
}

func TestWriteWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	var out strings.Builder
	expect.NoError(t, WriteWords(&out, []string{"a", long, strings.Repeat("b", 17), "c", "d"}))
	want := "a " + long + " " + strings.Repeat("b", 17) + "\nc d\n"
	expect.That(t, out.String() == want, "got %q, want %q", out.String(), want)
}

// A layer is built with the given data files, not with those in its folder.
func TestLayersReplaceFiles(t *testing.T) {
	t.Parallel()
	rows := []eval.Row{{Type: entity.Email, Value: "jane@box.example.com"}, {Type: entity.Email, Value: "jane@"}}
	layers := expect.Value(NewLayers(rows))(t)
	for families, want := range map[string]int{"": 0, "example.com\n": 92} {
		scores := expect.Value(layers.Score("email", map[string]string{"families.txt": families}))(t)
		expect.NoDiff(t, "scores with the families "+families, []*int{&want, nil}, scores)
	}
}

// Errors contain the compiler's output.
func TestLayersReportBuildErrors(t *testing.T) {
	t.Parallel()
	_, err := expect.Value(NewLayers(nil))(t).Score("email", map[string]string{"score.go": "package main\n"})
	expect.ErrorText(t, "error", err, "undefined: answer")
}

// Every row is tested once, unless it is not to be, and no fold allows a row that shares source or letters with it.
func TestFolds(t *testing.T) {
	t.Parallel()
	var rows []Labelled
	for i := range 600 {
		r := Labelled{Source: string(rune('a' + i%6)), Letters: eval.Letters(string(rune('A'+i%97)) + "12345678")}
		r.Split = r.Source == "a"
		rows = append(rows, r)
	}
	rows = append(rows, Labelled{Source: "untested", Untested: true})
	tested := make([]int, len(rows))
	folds := Folds(rows)
	expect.Equal(t, "folds of 5 sources and of the one that is split", len(folds), 5+parts)
	for _, f := range folds {
		for _, i := range f.Test {
			tested[i]++
			expect.That(t, !f.Allows("new", rows[i].Letters) && (rows[i].Split || !f.Allows(rows[i].Source, "new")),
				"fold %s allows rows of %+v", f.Name, rows[i])
		}
		expect.That(t, f.Allows("new", "new"), "fold %s allows nothing", f.Name)
	}
	for i, n := range tested {
		expect.That(t, n == 1 && i < 600 || n == 0 && i >= 600, "row %d is tested %d times", i, n)
	}
}
