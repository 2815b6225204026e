package brand

import (
	"strings"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
)

// Index finds the brand that names a domain as its own. It lies in arrays, so that a guest has nothing to allocate.
type Index struct {
	buckets      [patternBuckets]uint16 // one more than where the first of a bucket is in owned, 0 for none
	patterns     [maxPatterns]domainPattern
	branches     [maxBranches]branchPattern
	patternCount int // of owned
	branchCount  int
}

// owned is a pattern without a "*" inside, and whose it is.
type domainPattern struct {
	pattern string
	hash    uint32 // of the pattern without the ".*" at its end
	brand   uint16 // At(at) is the brand
	next    uint16 // of the same bucket, as in Index.heads
}

// branch is a pattern with a "*" inside, and whose it is.
type branchPattern struct {
	pattern string
	prefix  int    // bytes up to the "*"
	brand   uint16 // At(at) is the brand
}

const (
	patternBuckets = 1 << 10
	maxPatterns    = 1600
	maxBranches    = 60
)

// hashOf is FNV-1a.
func fnv1a(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// Bind fills an empty index with every brand.
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
	stem := strings.TrimSuffix(pattern, ".*")
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

// Of returns the brand whose domain h is, and how surely: of several, likely if it is among them. A site is found only
// where it is likely. A customer's name (see Customer) is nobody's.
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
		b := &x.branches[i]
		if strings.HasPrefix(h.Registrable, b.pattern[:b.prefix]) && matchPattern(h, b.pattern) == Plausible {
			if b := At(int(b.brand)); owner == nil || b == candidate {
				owner, relation = b, Plausible
			}
		}
	}
	return owner, relation
}

// listed returns the brand on whose list h is, and how surely: of several likely, or without one (nil) that which bears
// the domain's name.
func (x *Index) lookupListed(h *suffix.Host, candidate *Brand) (owner *Brand, relation Relation) {
	stem := h.Registrable
	if n := len(stem) - len(h.Suffix) - 1; n > 0 {
		stem = stem[:n]
	}
	for _, name := range [...]string{h.Registrable, h.ASCII, stem} {
		hash := fnv1a(name)
		for i := x.buckets[hash%patternBuckets]; i > 0; i = x.patterns[i-1].next {
			o := &x.patterns[i-1]
			if o.hash != hash {
				continue
			}
			r := matchPattern(h, o.pattern)
			if r == Unrelated || r < relation {
				continue
			}
			if b := At(int(o.brand)); r > relation || b == candidate || candidate == nil && b.Key == stem {
				owner, relation = b, r
			}
		}
	}
	return owner, relation
}

// Known returns the name of the brand or well-known site whose own domain h surely is, "" when it is none's: neither a
// branch's nor a customer's under it.
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

// published lists hosts of brands at which anybody puts up pages, forms and files under paths of the same name.
const publishingHosts = "" +
	"docs.google.com drive.google.com firebasestorage.googleapis.com forms.office.com groups.google.com " +
	"onedrive.live.com script.google.com sites.google.com storage.googleapis.com sway.office.com "

// Customer says whether a brand's or site's customers say what stands at h, under its owner's domain: then the owner's
// good name tells nothing.
func IsCustomer(h *suffix.Host) bool {
	return h.Subdomain != "" && (isTenant(h) || wordlist.Has(publishingHosts, h.ASCII))
}

// tenant says whether h is the name that a service gave to a customer.
func isTenant(h *suffix.Host) bool {
	return h.Subdomain != "" && h.Subdomain != "www" && suffix.HasTenants(h.Registrable)
}
