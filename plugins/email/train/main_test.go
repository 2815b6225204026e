package main

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/plugins/email/spelling"
)

// folder writes labelled lines in which bad mail domains are spelt with "zz" and honest ones are not.
func folder(t *testing.T, reversed bool) string {
	t.Helper()
	var mails, sites []string
	for i := range 60 {
		mails = append(mails,
			fmt.Sprintf(`{"type":"email","value":"jane@zz%dbox.com","label":1,"source":"a","category":"disposable"}`, i),
			fmt.Sprintf(`{"type":"email","value":"Jane@School%d.ORG","label":0,"source":"b","category":"business_domain"}`, i))
		sites = append(sites, fmt.Sprintf(`{"type":"domain","value":"www.library%d.org","label":0,"source":"c","category":"x"}`, i))
	}
	mails = append(mails, `{"type":"email","value":"jane@gmial.com","label":1,"source":"d","category":"typo_provider"}`,
		`{"type":"email","value":"jane@com","label":0,"source":"d","category":"business_domain"}`)
	if reversed {
		for i, j := 0, len(mails)-1; i < j; i, j = i+1, j-1 {
			mails[i], mails[j] = mails[j], mails[i]
		}
	}
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("train_emails.jsonl", strings.Join(mails, "\n"))
	put("train_domains.jsonl", strings.Join(sites, "\n"))
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	fmt.Fprintln(z, `{"type":"domain","value":"zzz.shop","label":1,"source":"e","category":"x"}`)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	put("train_domains_pool.jsonl.gz", packed.String())
	return dir
}

func TestLearns(t *testing.T) {
	t.Parallel()
	var first, second strings.Builder
	if err := run([]string{folder(t, false)}, &first); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{folder(t, true)}, &second); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Error("the weights depend on the order of the lines")
	}
	w := spelling.Weights(first.String())
	bad, good := spelling.Domain{Label: "zz99box", Suffix: "com"}, spelling.Domain{Label: "school99", Suffix: "org"}
	if b, g := w.Sum(bad.Features(nil)), w.Sum(good.Features(nil)); b <= 0 || g >= 0 {
		t.Errorf("the bad spelling sums to %d, the good one to %d", b, g)
	}
}

// TestSitesTeachNoHosts holds sites to teaching names alone: what stands left of them is no mail host.
func TestSitesTeachNoHosts(t *testing.T) {
	t.Parallel()
	rows, err := read(nil, filepath.Join(folder(t, false), "train_domains.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range rows {
		want := spelling.Domain{Label: strings.TrimSuffix(e.domain, ".org"), Suffix: "org"}
		if strings.HasPrefix(e.domain, "www.") || len(e.features) != len(want.Features(nil)) {
			t.Fatalf("%s is read with its host", e.domain)
		}
	}
}

func TestFolds(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run([]string{"-folds", "3", folder(t, false)}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 120 {
		t.Fatalf("%d lines, want one for each mail domain that no rule tells", len(lines))
	}
	if first, last := lines[0], lines[119]; first[0] != '1' || last[0] != '0' {
		t.Errorf("kept back, %q stands first and %q last", first, last)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	broken := folder(t, false)
	if err := os.WriteFile(filepath.Join(broken, "train_domains.jsonl"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no folder": nil, "one fold": {"-folds", "1", "x"}, "missing": {t.TempDir()}, "broken": {broken}, "unknown flag": {"-x"},
	} {
		if err := run(args, &strings.Builder{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
