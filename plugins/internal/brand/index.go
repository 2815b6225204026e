package brand

import (
	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
)

// ownerPattern is a pattern of Brand.Domains without "*", except for a final ".*" or ".**": Domains[offset:][:length]
// of the brand.
type ownerPattern struct {
	hash   uint32 // of the pattern without its markets
	brand  uint16 // argument of At
	offset uint16
	length uint8
}

const ownerBits = 10 // of buckets of patterns

// ownerBucket returns the bucket of the patterns with this hash.
func ownerBucket(hash uint32) uint32 { return hash >> (32 - ownerBits) }

// fnv1a returns the 32-bit FNV-1a hash of s.
func fnv1a(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// Lookup returns the brand that h is most closely related to, and the relation. If several brands are related equally,
// it prefers candidate, an argument of At. It finds local branches only of candidate, and finds no sites. The caller
// must rule out pages of customers (IsCustomer).
func Lookup(h *suffix.Host, candidate int) (*Brand, Relation) {
	owner, relation := lookupListed(h, candidate)
	if relation != Unrelated {
		return owner, relation
	}
	for i := range owners.branches {
		p := &owners.branches[i]
		if int(p.brand) > candidate {
			break
		}
		if int(p.brand) == candidate && matchPattern(h, At(candidate).Domains[p.offset:][:p.length]) == Plausible {
			return At(candidate), Plausible
		}
	}
	return nil, Unrelated
}

// lookupListed is like Lookup, but ignores patterns of branches. It prefers candidate and, if that is negative, the
// brand whose key is the domain's name.
func lookupListed(h *suffix.Host, candidate int) (owner *Brand, relation Relation) {
	stem := h.Registrable
	if n := len(stem) - len(h.Suffix) - 1; n > 0 {
		stem = stem[:n]
	}
	for i, name := range [...]string{h.Registrable, h.ASCII, stem} {
		if i == 1 && h.ASCII == h.Registrable {
			continue
		}
		hash := fnv1a(name)
		k := ownerBucket(hash)
		for j := owners.starts[k]; j < owners.starts[k+1]; j++ {
			p := &owners.patterns[j]
			if p.hash != hash {
				continue
			}
			b := At(int(p.brand))
			r := matchPattern(h, b.Domains[p.offset:][:p.length])
			preferred := int(p.brand) == candidate || candidate < 0 && b.Key == stem
			if r > relation || r == relation && r != Unrelated && preferred {
				owner, relation = b, r
			}
		}
	}
	return owner, relation
}

// OwnerName returns the name of the brand or well-known site that owns h, or "". Plausible domains and names that a
// service gave to its customers have no known owner.
func OwnerName(h *suffix.Host) string {
	if h.IsTenant() {
		return ""
	}
	if b, relation := lookupListed(h, -1); relation == Owned {
		return b.Name
	}
	if isSite(h.Registrable) {
		return h.Registrable
	}
	return ""
}

const siteBits = 11 // of ownerTables.siteSlots

func siteSlot(name string) uint32 { return fnv1a(name) * 0x9e3779b1 >> (32 - siteBits) }

// isSite reports whether name is one of Sites. A search of the text itself would burn ten times as much fuel.
func isSite(name string) bool {
	for k := siteSlot(name); ; k = (k + 1) % (1 << siteBits) {
		at := int(owners.siteSlots[k])
		if at == 0 {
			return false
		}
		if end := at - 1 + len(name); end < len(Sites) && Sites[end] == '\n' && Sites[at-1:end] == name {
			return true
		}
	}
}

// publishingHosts lists hosts of brands where anyone can publish pages, forms or files under a path.
const publishingHosts = "" +
	"docs.google.com drive.google.com firebasestorage.googleapis.com forms.office.com groups.google.com " +
	"onedrive.live.com script.google.com sites.google.com storage.googleapis.com sway.office.com "

// IsCustomer reports whether customers of a brand or site choose the content at h, so that its owner's reputation does
// not apply.
func IsCustomer(h *suffix.Host) bool {
	return h.Subdomain != "" && (h.IsTenant() || wordlist.Has(publishingHosts, h.ASCII))
}
