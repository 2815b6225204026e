// Package ngram turns the name of a site into hashed features and adds up the learned weights of them. The layer and
// its trainer share it, so that a name is read in service exactly as it was in training.
package ngram

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/suffix"
)

// Address is what the model reads of a domain: text in U-labels, lower case.
type Address struct {
	Name   string // the label that the owner chose
	Left   string // what stands left of it; "" mostly
	Suffix string // the public suffix, or the shared host, right of it
	TLD    string
	Hosted bool // the suffix is a shared host's
}

// What is read of an address: a longer name says no more, and work must be bounded.
const (
	maxName = 64 // bytes from the start
	maxLeft = 40 // bytes from the end, which is next to the name
)

// Of returns what the model reads of a host.
func Of(h *suffix.Host) Address {
	a := Address{
		Name: head(h.Name, maxName), Left: tail(strings.TrimPrefix(h.Subdomain, "www."), maxLeft),
		Suffix: h.Suffix, TLD: h.TLD, Hosted: h.Private,
	}
	if a.Left == "www" {
		a.Left = ""
	}
	return a
}

// head cuts s to at most n bytes between two characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// tail keeps at most the last n bytes of s, cut between two characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	from := len(s) - n
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
