// Package ngram turns the name of a site into hashed features and looks up their learned weights. The lexical layer and
// its trainer share it, so that both read a name in exactly the same way.
package ngram

import (
	_ "embed"
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/suffix"
)

// Address is the part of a domain that the model reads, in lower-case U-labels. The labels left of the name are not
// part of it: lists of honest sites hold domains and lists of reported ones hold host names, so a model would learn
// that any machine of an honest owner is suspicious.
type Address struct {
	Name   string // the label that the owner chose
	Suffix string // the public suffix or the shared host
	TLD    string
	Hosted bool // Suffix is a shared host
}

// maxName is the maximum number of bytes of a name that are read, which bounds the work.
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

// alphabets has a line for each language in Latin letters: its letters outside ASCII, each with the ASCII letter that
// it is read as.
//
//go:embed alphabets.txt
var alphabets string

// Plain removes the accents from a name if one language has them all. Lists of honest sites hold few such names, so a
// model would learn that accents are suspicious.
func Plain(name string) string {
	at := strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
	if at < 0 {
		return name
	}
	if r, _ := utf8.DecodeRuneInString(name[at:]); r > 'ỹ' || r > 'ț' && r < 'ạ' {
		return name // another script
	}
	for alphabet := range strings.Lines(alphabets) {
		known := true
		plain := strings.Map(func(r rune) rune {
			if r < utf8.RuneSelf {
				return r
			}
			at := strings.IndexRune(alphabet, r)
			known = known && at >= 0
			return rune(alphabet[max(at, 0)+utf8.RuneLen(r)])
		}, name)
		if known {
			return plain
		}
	}
	return name
}
