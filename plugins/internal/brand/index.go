package brand

import (
	"strings"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
)

// Index finds the brand that owns a domain. It consists of arrays, so that a guest fills it without allocating.
type Index struct {
	buckets      [patternBuckets]uint16 // 1 + the index in patterns of the first pattern, or 0
	patterns     [maxPatterns]domainPattern
	patternCount int
	branches     [maxBranches]branchPattern
	branchCount  int
}

// domainPattern is a pattern of Brand.Domains without "*", except for a final ".*" or ".**".
type domainPattern struct {
	pattern string
	hash    uint32 // of the pattern without ".*" and ".**"
	brand   uint16 // argument of At
	next    uint16 // the next pattern of the bucket, as in Index.buckets
}

// branchPattern is a pattern of Brand.Domains with another "*".
type branchPattern struct {
	pattern string
	prefix  int    // length of the text before the first "*"
	brand   uint16 // argument of At
}

const (
	patternBuckets = 1 << 10
	maxPatterns    = 1600
	maxBranches    = 60
)

// fnv1a returns the 32-bit FNV-1a hash of s.
func fnv1a(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// Fill adds every brand to an empty index.
func (x *Index) Fill() {
	at := uint16(0)
	for _, table := range tables {
		for i := range table {
			for pattern, rest := nextWord(table[i].Domains); pattern != ""; pattern, rest = nextWord(rest) {
				x.add(pattern, at)
			}
			at++
		}
	}
}

func (x *Index) add(pattern string, brand uint16) {
	stem, _ := cutMarkets(pattern)
	if star := strings.IndexByte(stem, '*'); star >= 0 {
		x.branches[x.branchCount] = branchPattern{pattern, star, brand}
		x.branchCount++
		return
	}
	h := fnv1a(stem)
	head := &x.buckets[h%patternBuckets]
	x.patterns[x.patternCount] = domainPattern{pattern, h, brand, *head}
	x.patternCount++
	*head = uint16(x.patternCount)
}

// Lookup returns the brand that h is most closely related to, and the relation. If several brands are related equally,
// it prefers candidate. It finds a site only if that is the candidate, and nothing for a customer's page (IsCustomer).
func (x *Index) Lookup(h *suffix.Host, candidate *Brand) (*Brand, Relation) {
	if IsCustomer(h) {
		return nil, Unrelated
	}
	if candidate.kind == Site && candidate.RelationTo(h) == Owned {
		return candidate, Owned
	}
	owner, relation := x.lookupListed(h, candidate)
	if relation == Owned {
		return owner, Owned
	}
	for i := range x.branchCount {
		p := &x.branches[i]
		if strings.HasPrefix(h.Registrable, p.pattern[:p.prefix]) && matchPattern(h, p.pattern) == Plausible {
			if b := At(int(p.brand)); owner == nil || b == candidate {
				owner, relation = b, Plausible
			}
		}
	}
	return owner, relation
}

// lookupListed is Lookup without sites and branch patterns. If candidate is nil, it prefers the brand whose key is the
// domain's name.
func (x *Index) lookupListed(h *suffix.Host, candidate *Brand) (owner *Brand, relation Relation) {
	stem := h.Registrable
	if n := len(stem) - len(h.Suffix) - 1; n > 0 {
		stem = stem[:n]
	}
	for _, name := range [...]string{h.Registrable, h.ASCII, stem} {
		hash := fnv1a(name)
		for i := x.buckets[hash%patternBuckets]; i > 0; i = x.patterns[i-1].next {
			p := &x.patterns[i-1]
			if p.hash != hash {
				continue
			}
			r := matchPattern(h, p.pattern)
			if r == Unrelated || r < relation {
				continue
			}
			if b := At(int(p.brand)); r > relation || b == candidate || candidate == nil && b.Key == stem {
				owner, relation = b, r
			}
		}
	}
	return owner, relation
}

// OwnerName returns the name of the brand or well-known site that owns h, or "". Plausible domains and names that a
// service gave to its customers have no known owner.
func (x *Index) OwnerName(h *suffix.Host) string {
	if isTenant(h) {
		return ""
	}
	if b, relation := x.lookupListed(h, nil); relation == Owned {
		return b.Name
	}
	if wordlist.Has(Sites, h.Registrable) {
		return h.Registrable
	}
	return ""
}

// publishingHosts lists hosts of brands where anyone can publish pages, forms or files under a path.
const publishingHosts = "" +
	"docs.google.com drive.google.com firebasestorage.googleapis.com forms.office.com groups.google.com " +
	"onedrive.live.com script.google.com sites.google.com storage.googleapis.com sway.office.com "

// IsCustomer reports whether customers of a brand or site choose the content at h, so that its owner's reputation does
// not apply.
func IsCustomer(h *suffix.Host) bool {
	return h.Subdomain != "" && (isTenant(h) || wordlist.Has(publishingHosts, h.ASCII))
}

// isTenant reports whether h is a name that a service gave to a customer.
func isTenant(h *suffix.Host) bool {
	return h.Subdomain != "" && h.Subdomain != "www" && suffix.HasTenants(h.Registrable)
}
