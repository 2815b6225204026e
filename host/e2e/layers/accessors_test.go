package layers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/lineup/rehearsal"
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
	expect.EachNamed(t, scoreFile, func(t *testing.T, language project.Language, name string) {
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

// longTexts are longer than a signal's text may be.
var longTexts = []string{
	strings.Repeat("é", 150), strings.Repeat("長", 100) + "x", "a“" + strings.Repeat("n", 239),
	"\"" + strings.Repeat("é", 120),
}

// natively are tests of a layer, compiled with it: they must see the texts that hosts show for long ones.
var natively = map[project.Language]struct{ begin, each, command string }{
	project.C: {"\nint main(void) {\n", "  { struct assay_known facts[] = {{\"dns.ns\", %q}, {0}};\n" +
		"    if (strcmp(assay_run(score, facts).texts[0], %q)) return 1; }\n", "clang -o shown shown.c"},
	project.Rust: {"\n#[test]\nfn shown() {\n",
		"    assert_eq!(assay::run(score, &[(\"dns.ns\", %q)]).signals[0].text, %q);\n",
		"rustc --edition=2021 --test -o shown shown.rs"},
}

// runNatively compiles and runs a layer with its native test, if its language has one.
func runNatively(t *testing.T, folder string, language project.Language) {
	t.Helper()
	test, ok := natively[language]
	if !ok {
		return
	}
	source := hosttest.ReadText(t, filepath.Join(folder, scoreFile[language])) + test.begin
	for _, long := range longTexts {
		source += fmt.Sprintf(test.each, long, sdk.CutText(long))
	}
	words := strings.Fields(test.command)
	expect.NoError(t, os.WriteFile(filepath.Join(folder, words[len(words)-1]), []byte(source+"}\n"), 0o600))
	for _, cmd := range []*exec.Cmd{exec.CommandContext(t.Context(), words[0], words[1:]...),
		exec.CommandContext(t.Context(), "./shown")} {
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		expect.That(t, err == nil, "%s: %v\n%s", cmd, err, out)
	}
}

// TestAccessors reads facts of each kind in each language. A misspelt fact does not compile.
func TestAccessors(t *testing.T) {
	t.Parallel()
	lists := map[project.Language]string{
		project.Go: "DNSNS", project.Rust: "dns_ns", project.AssemblyScript: "dnsNS", project.C: "assay_dns_ns",
	}
	known := map[string]string{"dns.ns": " a.example  b.example ", "dns.wildcard": "no", "dns.status": "ok",
		"dns.networks": "7"}
	expect.EachNamed(t, accessors, func(t *testing.T, language project.Language, source string) {
		folder, layer := hosttest.NewLayer(t, "kinds", language, func(folder string) {
			expect.NoError(t, os.WriteFile(filepath.Join(folder, scoreFile[language]), []byte(source), 0o600))
			hosttest.ReplaceIn(t, filepath.Join(folder, "manifest.json"), `"domain.registrable"`,
				`"dns.ns", "dns.wildcard", "dns.status", "dns.networks", "rdap.found"`)
			hosttest.ReplaceIn(t, filepath.Join(folder, "manifest.json"), "200000", "2000000")
		})
		plugin := opened(t, moduleIn(t, layer))
		run := func(facts map[string]string) (texts []string) {
			call := expect.Value(rehearsal.Run(t.Context(), plugin,
				rehearsal.Subject{Type: entity.Domain, Value: "shop.example", Facts: facts}))(t)
			for _, s := range call.Signals {
				texts = append(texts, fmt.Sprintf("%+d %s", s.Points, s.Text))
			}
			return texts
		}
		expect.NoDiff(t, "known facts", run(known),
			[]string{"+1 a.example", "+1 b.example", "+2 is “ok”", "+7 networks"})
		expect.Equal(t, "signals without facts", len(run(nil)), 0)
		for _, value := range []string{
			strings.Repeat("長", 20), strings.Repeat("a", 54), strings.Repeat("a", 53) + "é",
			"a\u202eb\u2800c\ufffdd", "न\u200dम “x” \" \U000e0001😀\ufe0f\u0378",
		} {
			server := strings.Repeat("n", 200)
			texts := run(map[string]string{"dns.ns": strings.TrimSpace(strings.Repeat(server+" ", 24)),
				"dns.wildcard": "no", "dns.status": value})
			expect.NoDiff(t, value, texts, append(slices.Repeat([]string{"+1 " + server}, 24),
				"+2 is "+sdk.Quote(value)))
		}
		for _, long := range longTexts {
			expect.NoDiff(t, long, run(map[string]string{"dns.ns": long}), []string{"+1 " + sdk.CutText(long)})
		}
		runNatively(t, folder, language)
		misspelt := lists[language] + "X"
		hosttest.ReplaceIn(t, filepath.Join(folder, scoreFile[language]), lists[language], misspelt)
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "build", folder), misspelt)
	})
}
