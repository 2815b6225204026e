package suffix

import (
	"strings"

	"assay/sdk"
)

// Host is the name of a host in its parts. It is read from as few facts as tell them: each costs a call out of the
// sandbox.
type Host struct {
	ASCII       string // the whole name, A-labels
	Registrable string // suffix plus one label, A-labels
	Suffix      string // the public suffix, or the free host that no list of suffixes holds
	TLD         string
	Name        string // the label left of the suffix, U-label
	Subdomain   string // what stands left of the registrable domain, U-labels; "" when nothing does
	Private     bool   // names under the suffix are given out by its owner: shared hosting and the like
}

// Read returns the host of the check's domain; ok is false when it has no registrable domain. A site under a free host
// (see Site) is taken for what it is: its suffix is the host.
func Read(c *sdk.Check) (h Host, ok bool) {
	h.ASCII, h.Registrable = c.Get("domain.ascii"), c.Get("domain.registrable")
	name, under, ok := strings.Cut(h.Registrable, ".")
	if !ok || h.ASCII == "" {
		return h, false
	}
	h.Name, h.Suffix, h.TLD = name, under, under[strings.LastIndexByte(under, '.')+1:]
	if strings.HasPrefix(name, "xn--") {
		h.Name = c.Get("domain.name")
	}
	if n := len(h.ASCII) - len(h.Registrable); n > 0 {
		h.Subdomain = h.ASCII[:n-1]
		if strings.Contains(h.Subdomain, "xn--") {
			h.Subdomain = c.Get("domain.subdomain")
		}
	}
	h.Private = c.Get("domain.suffix_kind") == "private"
	if site, rest, ok := SplitSite(h.Registrable, h.Subdomain); ok {
		h.Suffix, h.Registrable = h.Registrable, site+"."+h.Registrable
		h.Name, h.Subdomain, h.Private = site, rest, true
	}
	return h, h.Name != ""
}

// Hosted says whether anybody puts up pages under the suffix.
func (h *Host) OnSharedHosting() bool { return h.Private && !Neutral(h.Suffix) }
