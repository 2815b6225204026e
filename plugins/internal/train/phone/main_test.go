package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	lines := strings.Join([]string{
		`{"value":"+972 73-212-3456","label":1,"source":"il_spam_vcf2016"}`,
		`{"value":"073-212-9999","label":1,"source":"il_spam_vcf2016"}`,
		`{"value":"00972732219999","label":1,"source":"il_spam_vcf2016"}`,
		`{"value":"+972721111111","label":1,"source":"il_spam_vcf2016"}`,
		`{"value":"+972721112222","label":0,"source":"another"}`,
		`{"value":"+33812345678","label":1,"source":"saracroche_operator_ranges"}`,
		`{"value":"+33162345678","label":1,"source":"another"}`,
		`{"value":"0162345678","label":0,"source":"another"}`,
		`{"value":"","label":1,"source":"il_spam_vcf2016"}`,
	}, "\n")
	expect.NoError(t, os.WriteFile(filepath.Join(folder, "train_phones.jsonl"), []byte(lines), 0o600))
	var out strings.Builder
	expect.NoError(t, run([]string{folder}, &out))
	// +972 73 2 has three reports, two of them in one narrow block. The report of +972 72 1 is cancelled.
	want := "972732:17 97273212:20 97273221:13\n"
	expect.That(t, out.String() == want, "got %q, want %q", out.String(), want)
	expect.Failure(t, run([]string{t.TempDir()}, &out), "no error without the file")
	expect.Failure(t, run(nil, &out), "no error without a folder")
}
