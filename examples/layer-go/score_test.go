package main

import (
	"strings"
	"testing"

	"layer/borrowed-address/sdk"
)

func TestScore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, subdomain, kind, days string
		score                       int
		texts                       string // of the signals
	}{
		{"no label", "", "icann", "", 0, ""},
		{"an ordinary label", "blog", "icann", "3", 0, ""},
		{"an address", "direct.smbc.co.jp", "icann", "", 45, "Begins like the address “direct.smbc.co.jp”"},
		{"an address under com", "paypal.com", "icann", "", 45, "Begins like the address “paypal.com”"},
		{"an address under com.br", "caixa.com.br.seguro", "icann", "", 45, "Begins like the address “caixa.com.br”"},
		{"an address before other labels", "eki.net.login", "icann", "90", 45, "Begins like the address “eki.net”"},
		{"an address at a new domain", "paypal.com", "icann", "89", 75,
			"Begins like the address “paypal.com”; Registered 89 days ago"},
		{"an address at a domain of one day", "paypal.com", "icann", "1", 75,
			"Begins like the address “paypal.com”; Registered 1 day ago"},
		{"a customer of a hosting company", "paypal.com", "private", "3", 0, ""},
		{"com alone", "com", "icann", "", 0, ""},
		{"co without a country", "paypal.co.login", "icann", "", 0, ""},
		{"co at the end", "paypal.co", "icann", "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			facts := sdk.Facts{"domain.registrable": "a.example", "domain.suffix_kind": c.kind}
			if c.subdomain != "" {
				facts["domain.subdomain"] = c.subdomain
			}
			if c.days != "" {
				facts["rdap.age_days"] = c.days
			}
			got := sdk.Run(Score, facts)
			if got.Refused != nil || got.Outcome != sdk.Scored || got.Score != c.score ||
				(got.Threat == sdk.Phishing) != (c.score > 0) {
				t.Errorf("got %+v, want the score %d", got, c.score)
			}
			var texts []string
			for _, s := range got.Signals {
				texts = append(texts, s.Text)
			}
			if text := strings.Join(texts, "; "); text != c.texts {
				t.Errorf("the texts are %q, want %q", text, c.texts)
			}
		})
	}
	if got := sdk.Run(Score, sdk.Facts{}); got.Outcome != sdk.Abstained {
		t.Errorf("without facts, got %+v", got)
	}
}
