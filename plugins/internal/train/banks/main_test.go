package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

func TestRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		expect.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	var many []string
	for _, digit := range strings.Split("987654321", "") {
		many = append(many, `{"country_code":"DE","bank_code":"1000000`+digit+`","name":"a bank"}`)
	}
	put("one.json", "["+strings.Join(many, ",")+`,{"country_code":"DE","bank_code":""}]`)
	put("two.v2.json", `{"entries":[{"country_code":"DE","bank_codes":["20000000","10000001"]},`+
		`{"country_code":"AD","bank_codes":["0001"]}],"expand_from":"bank_codes"}`)
	var out strings.Builder
	expect.NoError(t, run([]string{folder}, &out))
	expect.Equal(t, "the list is invalid at", wordlist.Fault(out.String()), "")
	if got := strings.Fields(out.String()); len(got) != 10 || got[0] != "DE10000001" || got[9] != "DE20000000" {
		t.Errorf("got %v, want the ten German codes once each, and none of Andorra's short list", got)
	}
	put("three.json", `[{"country_code":"DE","bank_code":"1 0"}]`)
	expect.ErrorText(t, "error", run([]string{folder}, &out), `"DE1 0"`)
	put("three.json", `nonsense`)
	expect.ErrorText(t, "error", run([]string{folder}, &out), "three.json")
	expect.Failure(t, run([]string{t.TempDir()}, &out), "no error for an empty folder")
	expect.Failure(t, run(nil, &out), "no error without a folder")
}
