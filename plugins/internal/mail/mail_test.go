package mail

import (
	"testing"

	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

func TestListsSearchable(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{"relays": relays, "knownProviders": knownProviders} {
		expect.Equal(t, name, wordlist.Fault(list), "")
	}
}

func TestProviderAndRelay(t *testing.T) {
	t.Parallel()
	for host, want := range map[string][2]string{
		"consultant.com":      {"consultant.com", ""},
		"mail2norway.com":     {"mail2norway.com", ""},
		"mail2a.com":          {"", ""},
		"sub.example.com":     {"", ""},
		"mozmail.com":         {"", "mozmail.com"},
		"jane.anonaddy.me":    {"", "anonaddy.me"},
		"com":                 {"", ""},
		"":                    {"", ""},
		"notconsultant.com":   {"", ""},
		"box.hushmail.com":    {"hushmail.com", ""},
		"mail2norway.net":     {"", ""},
		"mail2norway.a.com":   {"", ""},
		"privaterelay.apple.": {"", ""},
	} {
		if got := [2]string{Provider(host), Relay(host)}; got != want {
			t.Errorf("Provider and Relay of %q are %q, want %q", host, got, want)
		}
	}
}
