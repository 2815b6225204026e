// Package feed reads lists of known bad or known good entities in the formats in which they are published: hosts files,
// plain lines, CSV, JSON, MISP events and STIX 2.1 bundles. It stores nothing and fetches nothing.
package feed

import (
	"strings"

	"assay/host/entity"
	"assay/sdk"
)

// Kind says what a list says of its entries.
type Kind string

// The kinds.
const (
	Bad  Kind = "bad"
	Good Kind = "good"
)

// Format is how a list is written.
type Format string

// The formats. Auto finds out by the first lines.
const (
	Auto  Format = "auto"
	Hosts Format = "hosts" // hosts(5): an address, then names
	// a domain, URL, email address, phone number or IBAN a line; what ad blockers write for a whole host
	Plain Format = "plain"
	CSV   Format = "csv"  // separated by comma, semicolon, tab or bar
	JSON  Format = "json" // strings or objects, in an array or a line each
	MISP  Format = "misp" // events of the MISP core format
	STIX  Format = "stix" // a bundle of STIX 2.1, of which the indicators are read
)

// Entry is one entity of a list.
type Entry struct {
	Type  entity.Type
	Value string // normalised, as entity.Parse gives it
	// the registrable label of a domain or the mailbox of an address, in U-labels; "" where there is none
	Name     string
	Page     bool   // a URL with a path was listed: a page on this host, not the host
	Category string // a published threat, "" when the list does not say
}

// Category reads what a list calls its threat as one of the published ones; "" when it is none that we know.
func Category(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return ""
	}
	for _, t := range sdk.Threats() {
		if text == string(t) {
			return text
		}
	}
	for _, known := range categoryWords {
		if strings.Contains(text, known.word) {
			return string(known.threat)
		}
	}
	return ""
}

// categoryWords are words by which lists name threats, the more telling first.
var categoryWords = []struct {
	word   string
	threat sdk.Threat
}{
	{"phish", sdk.Phishing}, {"credential", sdk.Phishing}, {"malware", sdk.Malware}, {"botnet", sdk.Malware},
	{"ransom", sdk.Malware},
	{"trojan", sdk.Malware}, {"stealer", sdk.Malware}, {"c2", sdk.Malware}, {"c&c", sdk.Malware},
	{"exploit", sdk.Malware},
	{"malicious", sdk.Malware}, {"crypto", sdk.InvestmentScam}, {"invest", sdk.InvestmentScam}, {"scam", sdk.Scam},
	{"fraud", sdk.Scam}, {"fake shop", sdk.Scam}, {"impersonat", sdk.Impersonation}, {"disposable", sdk.Disposable},
	{"spam", sdk.Spam},
}
