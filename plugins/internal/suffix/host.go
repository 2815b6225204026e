package suffix

import (
	"strings"

	"assay/sdk"
)

// Host is a host name split at its public suffix.
type Host struct {
	ASCII       string // the whole name, in A-labels
	Registrable string // the suffix and the label left of it, in A-labels
	Suffix      string // the public suffix or shared host
	TLD         string // the last label
	Name        string // the label left of the suffix, as a U-label
	Subdomain   string // the labels left of the registrable domain, as U-labels; may be ""
	Private     bool   // the suffix belongs to a company that gives out names under it, such as a web host
}

// IsTenant reports whether a service gave the name to a customer, see HasTenants.
func (h *Host) IsTenant() bool {
	return h.Subdomain != "" && h.Subdomain != "www" && HasTenants(h.Registrable)
}

// Read returns the host name of the check's domain. ok is false if it has no registrable domain. It reads as few facts
// as possible, because each is a call out of the sandbox.
func Read(c *sdk.Check) (h Host, ok bool) {
	h.ASCII, h.Registrable = c.Get(sdk.DomainASCII), c.Get(sdk.DomainRegistrable)
	name, under, ok := strings.Cut(h.Registrable, ".")
	if !ok || h.ASCII == "" {
		return h, false
	}
	h.Name, h.Suffix, h.TLD = name, under, under[strings.LastIndexByte(under, '.')+1:]
	if strings.HasPrefix(name, "xn--") {
		h.Name = c.Get(sdk.DomainName)
	}
	if n := len(h.ASCII) - len(h.Registrable); n > 0 {
		h.Subdomain = h.ASCII[:n-1]
		if strings.Contains(h.Subdomain, "xn--") {
			h.Subdomain = c.Get(sdk.DomainSubdomain)
		}
	}
	h.Private = c.Get(sdk.DomainSuffixKind) == "private"
	return h, h.Name != ""
}

// OnSharedHosting reports whether anyone can publish pages under the suffix.
func (h *Host) OnSharedHosting() bool { return h.Private && !Neutral(h.Suffix) }
