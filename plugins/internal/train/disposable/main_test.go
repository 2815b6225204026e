package main

import (
	"bytes"
	"testing"

	"assay/plugins/internal/fingerprint"
	"assay/plugins/internal/train"
	"assay/registry/expect"
)

func TestRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	expect.NoError(t, train.WriteFiles(folder, map[string]string{
		"train_domains.jsonl":          `{"value":"www.shop.example","label":0}`,
		"train_domains_pool.jsonl.gz":  `{"value":"reported.example","label":1}`,
		"train_domains_pool2.jsonl.gz": `{"value":"club.example","label":0}`,
		"train_disposable.jsonl.gz": `{"value":"burner.example","n_lists":5,"n_curated":2}
{"value":"reported.example","n_lists":9,"n_curated":3}
{"value":"a.burner.example","n_lists":4,"n_curated":2}
{"value":"gathered.example","n_lists":3,"n_curated":1}
{"value":"visited.example","n_lists":7,"n_curated":4,"popular":true}
{"value":"shop.example","n_lists":2,"n_curated":2}
{"value":"club.example","n_lists":2,"n_curated":2}
{"value":"co.uk","n_lists":4,"n_curated":2}
{"value":"gmx.de","n_lists":2,"n_curated":2}
{"value":"consultant.com","n_lists":2,"n_curated":2}
{"value":"mozmail.com","n_lists":2,"n_curated":2}
{"value":"gmial.com","n_lists":2,"n_curated":2}`}))
	var first, second bytes.Buffer
	said := ""
	progress := func(format string, args ...any) { said = format }
	expect.NoError(t, run([]string{folder}, &first, progress))
	expect.NoError(t, run([]string{folder}, &second, progress))
	expect.That(t, bytes.Equal(first.Bytes(), second.Bytes()) && said != "",
		"the same rows give different bytes, or no summary")
	set := fingerprint.Set(first.String())
	expect.Equal(t, "entries", set.Len(), 3)
	expect.Equal(t, "lists of burner.example", set.Find("burner.example"), 5)
	expect.Equal(t, "lists of reported.example", set.Find("reported.example"), fingerprint.MaxNumber)
	for name, args := range map[string][]string{"no folder": nil, "no rows": {t.TempDir()}} {
		expect.That(t, run(args, &second, progress) != nil, "%s: no error", name)
	}
}
