// Package feed fetches and reads lists of bad, good or popular entities in the formats in which they are published:
// hosts files, plain lines, CSV, JSON, MISP events and STIX 2.1 bundles. It stores nothing.
package feed

import (
	"strings"
	"time"

	"assay/host/entity"
	"assay/sdk"
)

// Kind is the kind of all entries of a list.
type Kind string

// Kinds of lists.
const (
	Bad    Kind = "bad"
	Good   Kind = "good"
	Ranked Kind = "ranked" // domains by popularity, the most popular first
)

// Format is the format of a list.
type Format string

// Formats of lists.
const (
	Auto  Format = "auto"  // detected from the first 4 KiB
	Hosts Format = "hosts" // hosts(5): an address, then names
	Plain Format = "plain" // one entity or URL per line, or an ad blocker's rule for a whole host
	CSV   Format = "csv"   // separated by commas, semicolons, tabs or vertical bars
	JSON  Format = "json"  // strings or objects, in arrays or one per line
	MISP  Format = "misp"  // events in the MISP core format
	STIX  Format = "stix"  // the indicators of a STIX 2.1 bundle
)

// List describes an imported list.
type List struct {
	ID         int       `json:"-"`
	Name       string    `json:"name"`
	Kind       Kind      `json:"kind"`
	Category   string    `json:"category,omitempty"` // of entries without a category of their own
	Source     string    `json:"source"`             // the file or URL it was read from
	Format     Format    `json:"format"`
	Licence    string    `json:"licence,omitempty"`
	Entries    int       `json:"entries"` // distinct entities
	Version    int       `json:"version"` // number of imports so far
	ImportedAt time.Time `json:"imported_at"`
	// FreshUntil is when the entries go out of date: they still apply, but are no longer confirmed. nil means never.
	FreshUntil *time.Time `json:"fresh_until"`
	ExpiresAt  *time.Time `json:"expires_at"` // when the list stops applying; nil means never
}

// InForce reports whether the list applies at the given time.
func (l List) InForce(at time.Time) bool { return l.ExpiresAt == nil || l.ExpiresAt.After(at) }

// Change reports how an import changed a list. A ranked list is replaced as a whole.
type Change struct {
	Entries int `json:"entries"` // entries of the list after the import
	Added   int `json:"added"`
	Altered int `json:"altered"` // entries whose category or scope changed
	Removed int `json:"removed"`
}

// Entry is one entity of a list.
type Entry struct {
	Type  entity.Type
	Value string // as normalised by entity.Parse
	// Name is the registrable label of a domain, in U-labels, or the mailbox of an address. It is empty otherwise.
	Name     string
	Page     bool   // the list has a URL with a path or query on this host, not the host itself
	Category string // a published threat, or "" if the list names none
	Rank     int32  // of a domain on a ranked list, starting at 1; otherwise 0
}

// Category maps a list's name for a threat to a published threat. It returns "" if there is no match.
func Category(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	if sdk.Threat(text).Published() {
		return text
	}
	for _, known := range categoryWords {
		if strings.Contains(text, known.word) {
			return string(known.threat)
		}
	}
	return ""
}

// categoryWords maps words in lists' names for threats to published threats. The first match wins.
var categoryWords = []struct {
	word   string
	threat sdk.Threat
}{
	{"phish", sdk.Phishing}, {"credential", sdk.Phishing},
	{"malware", sdk.Malware}, {"botnet", sdk.Malware}, {"ransom", sdk.Malware}, {"trojan", sdk.Malware},
	{"stealer", sdk.Malware}, {"c2", sdk.Malware}, {"c&c", sdk.Malware}, {"exploit", sdk.Malware},
	{"malicious", sdk.Malware}, {"crypto", sdk.InvestmentScam}, {"invest", sdk.InvestmentScam},
	{"scam", sdk.Scam}, {"fraud", sdk.Scam}, {"fake shop", sdk.Scam},
	{"impersonat", sdk.Impersonation}, {"disposable", sdk.Disposable}, {"spam", sdk.Spam},
}
