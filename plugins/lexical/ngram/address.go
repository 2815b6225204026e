// Package ngram turns the name of a site into hashed features and looks up their learned weights. The lexical layer and
// its trainer share it, so that both read a name in exactly the same way.
package ngram

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/suffix"
)

// Address is the part of a domain that the model reads, in lower-case U-labels.
type Address struct {
	Name   string // the label that the owner chose
	Left   string // the labels left of Name; usually ""
	Suffix string // the public suffix or the shared host
	TLD    string
	Hosted bool // Suffix is a shared host
}

// Limits on the text that is read, which bound the work on an address.
const (
	maxName = 64 // bytes, from the start
	maxLeft = 40 // bytes, from the end, which is next to the name
)

// Of returns the address of a host.
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

// tail returns at most the last n bytes of s, cut between two characters.
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
