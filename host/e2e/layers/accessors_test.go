package layers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/registry/expect"
	"assay/registry/project"
	"assay/sdk"
)

// accessors are layers that read a fact of each kind. All give the same signals.
var accessors = map[project.Language]string{
	project.Go: `package main

import "layer/kinds/sdk"

func Score(c *sdk.Check) sdk.Outcome {
	for server := range c.List(sdk.DNSNS) {
		c.Signal(1, signalAgeNew, server)
	}
	if c.Not(sdk.DNSWildcard) && !c.Is(sdk.RDAPFound) && !c.Not(sdk.RDAPFound) {
		c.Signal(2, signalAgeNew, sdk.Join("is ", sdk.Quote(c.Get(sdk.DNSStatus))))
	}
	if n, known := c.Count(sdk.DNSNetworks); known {
		c.Signal(n, signalAgeNew, "networks")
	}
	return sdk.Scored
}
`,
	project.Rust: `#![cfg_attr(target_arch = "wasm32", no_std)]
mod assay;
mod signals;
layer!(score);

fn score(c: &mut assay::Check) -> assay::Outcome {
    for server in c.dns_ns() {
        c.signal(1, signals::AGE_NEW, server);
    }
    if c.dns_wildcard() == Some(false) && c.rdap_found() == None {
        let status = c.dns_status().unwrap_or("");
        c.signal(2, signals::AGE_NEW, format_args!("is {}", assay::Quote(status)));
    }
    if let Some(n) = c.dns_networks() {
        c.signal(n as i32, signals::AGE_NEW, "networks");
    }
    assay::Outcome::Scored
}
`,
	project.AssemblyScript: `import { Outcome, YesNo, quote, signal } from "./assay";
import { dnsNS, dnsNetworks, dnsStatus, dnsWildcard, rdapFound } from "./assay_facts";
import { Signal } from "./signals";

export function assay_v1_score(): i32 {
  const servers = dnsNS();
  for (let i = 0; i < servers.length; i++) signal(1, Signal.AgeNew, servers[i]);
  const status = dnsStatus();
  if (dnsWildcard() == YesNo.No && rdapFound() == YesNo.Unknown && status !== null) {
    signal(2, Signal.AgeNew, "is " + quote(status));
  }
  if (dnsNetworks() >= 0) signal(dnsNetworks(), Signal.AgeNew, "networks");
  return Outcome.Scored;
}
`,
	project.C: `#include "assay.h"
#include "signals.h"

static int score(void) {
  struct assay_text text = {0};
  char *rest = assay_dns_ns(), *server, *status = assay_dns_status();
  while ((server = assay_next(&rest))) {
    struct assay_text listed = {0};
    assay_add(&listed, server);
    assay_signal(1, SIGNAL_AGE_NEW, listed.bytes);
  }
  if (assay_dns_wildcard() == 0 && assay_rdap_found() < 0) {
    assay_add(&text, "is ");
    assay_add_quoted(&text, status);
    assay_signal(2, SIGNAL_AGE_NEW, text.bytes);
  }
  if (assay_dns_networks() >= 0) assay_signal(assay_dns_networks(), SIGNAL_AGE_NEW, "networks");
  return ASSAY_SCORED;
}

ASSAY_LAYER(score)
`,
}

// scoreFile is the file with the function that scores, by language.
var scoreFile = map[project.Language]string{
	project.Go: "score.go", project.Rust: "layer.rs", project.AssemblyScript: "layer.ts", project.C: "layer.c",
}

// TestLayersInReadmes builds and runs the complete layer in the README.md of each language's projects.
func TestLayersInReadmes(t *testing.T) {
	t.Parallel()
	for language, name := range scoreFile {
		t.Run(string(language), func(t *testing.T) {
			t.Parallel()
			_, layer := hosttest.NewLayer(t, "shown", language, func(folder string) {
				_, source, _ := strings.Cut(hosttest.ReadText(t, filepath.Join(folder, "README.md")),
					"## A complete layer\n\n```")
				_, source, _ = strings.Cut(source, "\n")
				source, _, _ = strings.Cut(source, "```\n")
				expect.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(source), 0o600))
			})
			facts := hosttest.WriteFile(t, "facts.json", []byte(`{"rdap.age_days": "3"}`))
			hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "run", layer, "shop.example", "--facts", facts),
				"score    30\n", "signal   +30 shown:age:new: Registered 3 days ago\n")
			hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "run", layer, "shop.example"), "abstains")
		})
	}
}

// longTexts are longer than a signal's text may be.
var longTexts = []string{
	strings.Repeat("é", 150), strings.Repeat("長", 100) + "x", "a“" + strings.Repeat("n", 239),
	"\"" + strings.Repeat("é", 120),
}

// natively compiles a layer with a test of its own, which must see the text that hosts show for a long one. Go has
// TestCutText in sdk, and AssemblyScript no native tests.
var natively = map[project.Language]func(t *testing.T, folder, long, want string){
	project.C: func(t *testing.T, folder, long, want string) {
		source := fmt.Sprintf(`#include "layer.c"
int main(void) {
  struct assay_known facts[] = {{"dns.ns", %q}, {0}};
  return strcmp(assay_run(score, facts).texts[0], %q);
}
`, long, want)
		expect.NoError(t, os.WriteFile(filepath.Join(folder, "shown.c"), []byte(source), 0o600))
		compileAndRun(t, folder, "clang", "-o", "shown", "shown.c")
	},
	project.Rust: func(t *testing.T, folder, long, want string) {
		source := expect.Value(os.ReadFile(filepath.Join(folder, scoreFile[project.Rust])))(t)
		source = fmt.Appendf(source, `
#[test]
fn shown() {
    assert_eq!(assay::run(score, &[("dns.ns", %q)]).signals[0].text, %q);
}
`, long, want)
		expect.NoError(t, os.WriteFile(filepath.Join(folder, "shown.rs"), source, 0o600))
		compileAndRun(t, folder, "rustc", "--edition=2021", "--test", "-o", "shown", "shown.rs")
	},
}

// compileAndRun compiles the program shown in a folder, and runs it.
func compileAndRun(t *testing.T, folder, compiler string, args ...string) {
	t.Helper()
	for _, cmd := range []*exec.Cmd{exec.CommandContext(t.Context(), compiler, args...),
		exec.CommandContext(t.Context(), "./shown")} {
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		expect.That(t, err == nil, "%s: %v\n%s", cmd, err, out)
	}
}

// TestAccessors reads a fact of each kind in each language, known and absent, and a long one. All quote, divide lists
// and cut texts as in Go. A misspelt fact does not compile.
func TestAccessors(t *testing.T) {
	t.Parallel()
	lists := map[project.Language]string{
		project.Go: "DNSNS", project.Rust: "dns_ns", project.AssemblyScript: "dnsNS", project.C: "assay_dns_ns",
	}
	for language, source := range accessors {
		t.Run(string(language), func(t *testing.T) {
			t.Parallel()
			folder, layer := hosttest.NewLayer(t, "kinds", language, func(folder string) {
				expect.NoError(t, os.WriteFile(filepath.Join(folder, scoreFile[language]), []byte(source), 0o600))
				hosttest.ReplaceIn(t, filepath.Join(folder, "manifest.json"), `"domain.registrable"`,
					`"dns.ns", "dns.wildcard", "dns.status", "dns.networks", "rdap.found"`)
				hosttest.ReplaceIn(t, filepath.Join(folder, "manifest.json"), "200000", "2000000")
			})
			facts := hosttest.WriteFile(t, "facts.json",
				[]byte(`{"dns.ns": " a.example  b.example ", "dns.wildcard": "no", `+
					`"dns.status": "ok", "dns.networks": "7"}`))
			hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "run", layer, "shop.example", "--facts", facts),
				"score    11\n", "signal   +1 kinds:age:new: a.example\nsignal   +1 kinds:age:new: b.example\n"+
					"signal   +2 kinds:age:new: is “ok”\nsignal   +7 kinds:age:new: networks\n")
			hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "run", layer, "shop.example"), "score    0\n")
			for _, value := range []string{
				strings.Repeat("長", 20), strings.Repeat("a", 54), strings.Repeat("a", 53) + "é",
				"a\u202eb\u2800c\ufffdd", "न\u200dम “x” \" \U000e0001😀\ufe0f\u0378",
			} {
				long := strings.TrimSpace(strings.Repeat(strings.Repeat("n", 200)+" ", 24))
				facts := hosttest.WriteFile(t, "facts.json", fmt.Appendf(nil, `{"dns.ns": %q, "dns.wildcard": "no",
					"dns.status": %s}`, long, expect.Value(json.Marshal(value))(t)))
				hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "run", layer, "shop.example", "--facts", facts),
					"score    26\n", "kinds:age:new: is "+sdk.Quote(value)+"\n")
			}
			for _, long := range longTexts {
				facts := hosttest.WriteFile(t, "facts.json", fmt.Appendf(nil, `{"dns.ns": %q}`, long))
				hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "run", layer, "shop.example", "--facts", facts),
					"signal   +1 kinds:age:new: "+sdk.CutText(long)+"\n")
				if test, ok := natively[language]; ok {
					test(t, folder, long, sdk.CutText(long))
				}
			}
			misspelt := lists[language] + "X"
			hosttest.ReplaceIn(t, filepath.Join(folder, scoreFile[language]), lists[language], misspelt)
			hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "build", folder), misspelt)
		})
	}
}
