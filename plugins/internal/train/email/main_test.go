package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
	"assay/plugins/mailbox/spelling"
	"assay/registry/expect"
)

// writeRows writes files of labelled rows to a new folder, perhaps reversed. Bad mail domains contain "zz".
func writeRows(t *testing.T, reversed bool) string {
	t.Helper()
	var mails, sites []string
	mail := func(address string, label int, source, category string) {
		mails = append(mails, fmt.Sprintf(`{"type":"email","value":%q,"label":%d,"source":%q,"category":%q}`, address,
			label, source, category))
	}
	for i := range 60 {
		mail(fmt.Sprintf("jane@zz%dbox.com", i), 1, "a", "disposable")
		mail(fmt.Sprintf("Jane@School%d.ORG", i), 0, "b", "business_domain")
		sites = append(sites, fmt.Sprintf(
			`{"type":"domain","value":"www.library%d.org","label":0,"source":"c","category":"x"}`, i))
	}
	for _, host := range []string{"a.hosts", "b.hosts", "a.mixed", "b.mixed"} {
		mail("jane@"+host+".example", 1, "a", "disposable")
	}
	mail("jane@c.mixed.example", 0, "b", "business_domain")
	mail("jane@gmial.com", 1, "d", "typo_provider")
	mail("jane@com", 0, "d", "business_domain")
	if reversed {
		slices.Reverse(mails)
	}
	dir := t.TempDir()
	expect.NoError(t, train.WriteFiles(dir, map[string]string{
		"train_emails.jsonl": strings.Join(mails, "\n"), "train_domains.jsonl": strings.Join(sites, "\n"),
		"train_domains_pool.jsonl.gz": `{"type":"domain","value":"zzz.shop","label":1,"source":"e","category":"x"}`}))
	return dir
}

// trainOn trains on a folder and returns the contents of the written files by name.
func trainOn(t *testing.T, from string) map[string]string {
	t.Helper()
	to := t.TempDir()
	for layer := range (learned{}).files() {
		expect.NoError(t, os.Mkdir(filepath.Join(to, layer), 0o700))
	}
	expect.NoError(t, run([]string{"-out", to, from}, io.Discard))
	written := map[string]string{}
	for layer, files := range (learned{}).files() {
		for name := range files {
			written[name] = string(expect.Value(os.ReadFile(filepath.Join(to, layer, name)))(t))
		}
	}
	return written
}

func TestLearns(t *testing.T) {
	t.Parallel()
	first := trainOn(t, writeRows(t, false))
	expect.That(t, maps.Equal(first, trainOn(t, writeRows(t, true))),
		"the learned data depends on the order of the rows")
	w := spelling.Weights(first["weights.txt"])
	bad, good := spelling.Domain{Label: "zz99box", Suffix: "com"}, spelling.Domain{Label: "school99", Suffix: "org"}
	b, g := w.Sum(bad.Features(nil)), w.Sum(good.Features(nil))
	expect.That(t, b > 0 && g < 0, "the bad spelling sums to %d, the good one to %d", b, g)
	got, want := first["families.txt"], "hosts.example\n"
	expect.That(t, got == want, "families %q, want %q", got, want)
}

// Reported sites have weight 0, because the lexical layer knows them.
func TestReportedSitesAreIgnored(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]eval.Row{
		"reported site": {Type: entity.Domain, Value: "zz.shop", Malicious: true, Source: "e"},
		"address at reported site": {Type: entity.Email, Value: "a@zz.shop", Malicious: true, Source: "maldomain:e",
			Category: "malicious_domain"},
	} {
		e, ok := exampleOf(&l)
		expect.That(t, ok && e.weight == 0, "%s: %+v, %v", name, e, ok)
	}
}

// Sites contribute their names only, because their hosts are not mail hosts.
func TestSitesContributeNames(t *testing.T) {
	t.Parallel()
	for _, e := range expect.Value(readAll(writeRows(t, false)))(t) {
		if e.mail || e.bad {
			continue
		}
		want := spelling.Domain{Label: strings.TrimSuffix(e.domain, ".org"), Suffix: "org"}
		expect.Must(t, !strings.HasPrefix(e.domain, "www.") && len(e.features) == len(want.Features(nil)),
			"%s includes its host", e.domain)
	}
}

func TestRunRejects(t *testing.T) {
	t.Parallel()
	broken := writeRows(t, false)
	expect.NoError(t, os.WriteFile(filepath.Join(broken, "train_domains.jsonl"), []byte("{"), 0o600))
	for name, args := range map[string][]string{
		"no folder": {"-out", broken}, "two folders": {"-out", broken, "x", "y"}, "no file": {broken},
		"missing": {"-out", broken, t.TempDir()}, "broken": {"-out", broken, broken},
		"unknown flag":          {"-x"},
		"missing output folder": {"-out", filepath.Join(broken, "nowhere"), writeRows(t, false)},
	} {
		expect.Failure(t, run(args, io.Discard), "%s: no error", name)
	}
}

// No layer knows the fold of a row that it scores: "zz" and the families are bad in one source only.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	folder := writeRows(t, false)
	rows := expect.Value(readAll(folder))(t)
	addresses := expect.Value(train.ReadRows(filepath.Join(folder, addressFile), entity.Email))(t)
	scores := expect.Value(heldOut(addresses, rows, func(layer string, files map[string]string) ([]*int, error) {
		got := make([]*int, len(addresses))
		for i, a := range addresses {
			host := a.Value[strings.IndexByte(a.Value, '@')+1:]
			d, ok := spelling.Of(host, host[strings.LastIndexByte(host, '.')+1:])
			switch {
			case !strings.Contains(host, "."):
			case layer == "email":
				got[i] = new(strings.Count(files["families.txt"], "hosts.example"))
			case ok:
				got[i] = new(spelling.Weights(files["weights.txt"]).Sum(d.Features(nil)))
			}
		}
		return got, nil
	}, io.Discard))(t)
	for i, a := range addresses {
		switch s := scores[i]; {
		case strings.HasSuffix(a.Value, "@com"):
			expect.That(t, s == nil, "%s has scores %v, but is invalid", a.Value, s)
		case len(s) != 2:
			t.Errorf("%s has scores %v, want two", a.Value, s)
		case strings.HasSuffix(a.Value, ".hosts.example") && s["email"] != 0:
			t.Errorf("%s was scored by a layer that knows its family", a.Value)
		}
	}
}

// Training depends only on the given rows.
func TestLearnWithoutSites(t *testing.T) {
	t.Parallel()
	rows := expect.Value(readAll(writeRows(t, false)))(t)
	var kept []example
	for i := range rows {
		if rows[i].site != "hosts.example" && !strings.HasPrefix(rows[i].site, "zz") {
			kept = append(kept, rows[i])
		}
	}
	l := learnAll(kept)
	sum := l.weights.Sum(spelling.Domain{Label: "zz99box", Suffix: "com"}.Features(nil))
	expect.That(t, l.families == "" && sum <= 0, "families %q, and a sum of %d for a spelling that was held out",
		l.families, sum)
}
