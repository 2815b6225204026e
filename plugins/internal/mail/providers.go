// Package mail knows mailbox providers and privacy relays, beyond those that the host recognises.
package mail

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/wordlist"
	"assay/sdk"
)

var (
	// networks are providers that the host does not recognise and whose mailboxes people keep for years, mostly
	// internet access providers. In wordlist form.
	//
	//go:embed networks.txt
	networks string

	// vanity are names that mail.com and other providers offer in addition to their own. They are words, so a name that
	// is one letter away is another word. In wordlist form.
	//
	//go:embed vanity.txt
	vanity string

	// relays are services that forward a masked address to a real mailbox, in wordlist form. Their users are real
	// people, so they are never disposable.
	//
	//go:embed relays.txt
	relays string
)

// Provider returns the provider's domain that equals host or is a parent of it, or "". Mail2World offers addresses
// under a great many names that begin with mail2.
func Provider(host string) string {
	if strings.HasPrefix(host, "mail2") && strings.HasSuffix(host, ".com") && strings.Count(host, ".") == 1 &&
		len(host) > len("mail2ab.com") {
		return host
	}
	if name := Listed(networks, host); name != "" {
		return name
	}
	return Listed(vanity, host)
}

// NoGmail reports whether c is about a mailbox that Gmail cannot have: Gmail's names consist of a to z, digits and dots
// (support.google.com/mail/answer/9211434).
func NoGmail(c *sdk.Check) bool {
	return c.Get(sdk.EmailProvider) == "google" &&
		strings.Trim(c.Get(sdk.EmailUser), "abcdefghijklmnopqrstuvwxyz0123456789") != ""
}

// Relay returns the privacy relay whose domain equals host or is a parent of it, or "".
func Relay(host string) string { return Listed(relays, host) }

// Written returns the mail domain as written in the address. host is its normalised form: some providers have several
// names for one domain.
func Written(c *sdk.Check, host string) string {
	address := c.Get(sdk.EmailAddress)
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return address[at+1:]
	}
	return host
}

// Listed returns the entry of list, in wordlist form, that equals host or is a parent domain of it, or "". It never
// looks up a single label.
func Listed(list, host string) string {
	for strings.IndexByte(host, '.') >= 0 {
		if wordlist.Has(list, host) {
			return host
		}
		host = host[strings.IndexByte(host, '.')+1:]
	}
	return ""
}
