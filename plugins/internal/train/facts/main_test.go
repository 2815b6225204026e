package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/plugins/internal/train"
	"assay/registry/expect"
)

// TestRun checks which rows get which facts.
func TestRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	expect.NoError(t, train.WriteFiles(folder, map[string]string{
		"dns_meta_malicious.jsonl": `{"domain":"bad.com","created":"2026-01-01","reported":"2026-01-11","status":"ok"}
{"domain":"worse.com","created":"2026-01-01","reported":"","status":"ok"}
{"domain":"x.de","status":"tld_unsupported"}`,
		"train_domains.jsonl": `{"type":"domain","value":"www.bad.com","label":1,"source":"cert"}
{"type":"domain","value":"other.com","label":1,"source":"cert","category":"scam"}
{"type":"domain","value":"honest.com","label":0,"source":"tranco","rank":7}
{"type":"domain","value":"honest.de","label":0,"source":"tranco"}
{"type":"domain","value":"user.github.io","label":0,"source":"tranco"}`,
		"train_emails.jsonl": `{"type":"email","value":"a@mail.twice.com","label":1,"source":"maldomain:cert"}
{"type":"email","value":"a@other.com","label":1,"source":"maldomain:cert"}
{"type":"email","value":"a@honest.com","label":0,"source":"constructed"}`,
		"train_domains_pool.jsonl.gz": `{"value":"twice.com","label":1,"source":"cert"}
{"value":"twice.com","label":1,"source":"feed"}`,
	}))
	out := filepath.Join(folder, "out.jsonl")
	expect.NoError(t, run([]string{"-rows", out, folder}, io.Discard))
	got := map[string]map[string]string{}
	for line := range strings.Lines(string(expect.Value(os.ReadFile(out))(t))) {
		var r struct {
			Value, Source string
			Label         *int
			Facts         map[string]string
		}
		err := json.Unmarshal([]byte(line), &r)
		expect.Must(t, err == nil && r.Label != nil && r.Source != "" && r.Facts != nil, "%s: %v", line, err)
		got[r.Value] = r.Facts
	}
	expect.That(t, got["honest.com"]["rdap.age_days"] != "", "honest.com has no age: %v", got["honest.com"])
	delete(got, "honest.com")
	dated := map[string]string{"rdap.found": "yes", "rdap.age_days": "10", "rdap.created": "2026-01-01"}
	expect.NoDiff(t, "facts", map[string]map[string]string{
		"www.bad.com": dated, "other.com": dated, "honest.de": {}, "user.github.io": {},
		"a@mail.twice.com": {"feed.listed": "feed", "feed.lists": "1", "feed.match": "mail_domain"},
		"a@other.com":      {}, "a@honest.com": {},
	}, got)
}

// TestHonestAges checks the simulated ages against the published shares.
func TestHonestAges(t *testing.T) {
	t.Parallel()
	for share, days := range map[float64]int{0: 0, .285: 584, .57: 1168, .917: 2995, .9999: 7009} {
		got := honestAge(share)
		expect.That(t, got >= days-12 && got <= days+12, "the age at %v is %d days, want %d", share, got, days)
	}
}
