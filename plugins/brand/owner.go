package brand

import (
	"strings"

	"assay/plugins/suffix"
	"assay/plugins/wordlist"
)

// Index finds the brand that names a domain as its own. It lies in arrays, so that a guest has nothing to allocate.
type Index struct {
	heads  [ownedBuckets]uint16 // one more than where the first of a bucket is in owned, 0 for none
	owned  [maxOwned]owned
	local  [maxLocal]branch
	count  int // of owned
	locals int
}

// owned is a pattern without a "*" inside, and whose it is.
type owned struct {
	pattern string
	hash    uint32 // of the pattern without the ".*" at its end
	at      uint16 // At(at) is the brand
	next    uint16 // of the same bucket, as in Index.heads
}

// branch is a pattern with a "*" inside, and whose it is.
type branch struct {
	pattern string
	before  int    // bytes up to the "*"
	at      uint16 // At(at) is the brand
}

const (
	ownedBuckets = 1 << 10
	maxOwned     = 1600
	maxLocal     = 60
)

// hashOf is FNV-1a.
func hashOf(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// Bind fills an empty index with every brand.
func (x *Index) Bind() {
	at := uint16(0)
	for _, table := range tables {
		for i := range table {
			for pattern, rest := nextWord(table[i].Own); pattern != ""; pattern, rest = nextWord(rest) {
				x.add(pattern, at)
			}
			at++
		}
	}
}

func (x *Index) add(pattern string, brand uint16) {
	stem := strings.TrimSuffix(pattern, ".*")
	if star := strings.IndexByte(stem, '*'); star >= 0 {
		x.local[x.locals] = branch{pattern, star, brand}
		x.locals++
		return
	}
	h := hashOf(stem)
	head := &x.heads[h%ownedBuckets]
	x.owned[x.count] = owned{pattern, h, brand, *head}
	x.count++
	*head = uint16(x.count)
}

// Of returns the brand whose domain h is, and how surely: of several, likely if it is among them. A site is found only where
// it is likely.
func (x *Index) Of(h *suffix.Host, likely *Brand) (*Brand, Ownership) {
	if likely.Kind == Site && likely.Owns(h) == Owner {
		return likely, Owner
	}
	if b := x.listed(h, likely); b != nil {
		return b, Owner
	}
	var whose *Brand
	for i := range x.locals {
		l := &x.local[i]
		if strings.HasPrefix(h.Registrable, l.pattern[:l.before]) && fits(h, l.pattern) == Akin {
			if b := At(int(l.at)); whose == nil || b == likely {
				whose = b
			}
		}
	}
	if whose == nil {
		return nil, Stranger
	}
	return whose, Akin
}

// listed returns the brand on whose list h is, nil when it is on none: of several likely, or without one (nil) that which
// bears the domain's name.
func (x *Index) listed(h *suffix.Host, likely *Brand) *Brand {
	stem := h.Registrable
	if n := len(stem) - len(h.Suffix) - 1; n > 0 {
		stem = stem[:n]
	}
	var whose *Brand
	for _, name := range [...]string{h.Registrable, h.ASCII, stem} {
		hash := hashOf(name)
		for i := x.heads[hash%ownedBuckets]; i > 0; i = x.owned[i-1].next {
			o := &x.owned[i-1]
			if o.hash != hash || fits(h, o.pattern) != Owner {
				continue
			}
			if b := At(int(o.at)); whose == nil || b == likely || likely == nil && b.Key == stem {
				whose = b
			}
		}
	}
	return whose
}

// Known returns the name of the brand or well-known site whose own domain h surely is, "" when it is none's: neither a
// branch's nor a customer's under it.
func (x *Index) Known(h *suffix.Host) string {
	if h.Subdomain != "" && suffix.Tenants(h.Registrable) {
		return ""
	}
	if b := x.listed(h, nil); b != nil {
		return b.Name
	}
	if wordlist.Has(Sites, h.Registrable) {
		return h.Registrable
	}
	return ""
}
