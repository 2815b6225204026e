// Package ngram turns the name of a site into hashed features and looks up their learned weights. The lexical layer and
// its trainer share it, so that both read a name in exactly the same way.
package ngram

import (
	"unicode/utf8"

	"assay/plugins/internal/suffix"
)

// Address is the part of a domain that the model reads, in lower-case U-labels. The labels left of the name are not
// among it: lists of honest sites hold domains and lists of reported ones hold host names, so a model would learn that
// any machine of an honest owner is suspicious.
type Address struct {
	Name   string // the label that the owner chose
	Suffix string // the public suffix or the shared host
	TLD    string
	Hosted bool // Suffix is a shared host
}

// maxName is how many bytes of a name are read, which bounds the work.
const maxName = 64

// Of returns the address of a host.
func Of(h *suffix.Host) Address {
	return Address{Name: head(h.Name, maxName), Suffix: h.Suffix, TLD: h.TLD, Hosted: h.Private}
}

// head returns at most the first n bytes of s, cut between two characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
