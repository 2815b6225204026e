package main

import (
	"strings"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
)

// governments are the labels under which governments name their sites, as in gov.uk.
const governments = "gob gouv gov govt gub "

// namedGovernments are domains of governments without such a label, with a hyphen for the dot. Names of clubs and firms
// can end like them.
const namedGovernments = "bund-de europa-eu "

// governmentIn returns the part of h that spells a government's suffix with hyphens, as in gov-uk.example, or left of
// another domain, as in irs.gov.example.com. It is empty if there is none, or if h has such a suffix itself.
func governmentIn(h *host) string {
	if suffix.Restricted(h.Suffix) || len(h.Name) <= 2 { // gov.on.ca: a province has a name of two letters
		return ""
	}
	if part := hyphenatedGovernment(h.Name); part != "" {
		return part
	}
	for rest, from := h.Subdomain, 0; rest != ""; from++ {
		label, others, _ := strings.Cut(rest, ".")
		if part := hyphenatedGovernment(label); part != "" {
			return part
		}
		if rest = others; !wordlist.Has(governments, label) {
			continue
		}
		next := others
		if next == "" {
			next = h.Name
		}
		country, _, _ := strings.Cut(next, "-")
		if from > 0 || len(country) == 2 || suffix.IsRisky(h.TLD) {
			return label + "." + next
		}
	}
	return ""
}

// hyphenatedGovernment returns the part of label that is a government's label, at the beginning or before two letters
// like those of a country, together with the next part.
func hyphenatedGovernment(label string) string {
	for from := 0; ; {
		token, others, more := strings.Cut(label[from:], "-")
		if !more {
			return ""
		}
		next, _, _ := strings.Cut(others, "-")
		if wordlist.Has(governments, token) && (from == 0 && next != "" || len(next) == 2) ||
			token == "gc" && next == "ca" ||
			from == 0 && wordlist.Has(namedGovernments, label[:len(token)+1+len(next)]) {
			return label[from : from+len(token)+1+len(next)]
		}
		from += len(token) + 1
	}
}
