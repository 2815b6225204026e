package brand

import (
	"strings"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
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

// Of returns the brand whose domain h is, and how surely: of several, likely if it is among them. A site is found only
// where it is likely. A customer's name (see Customer) is nobody's.
func (x *Index) Of(h *suffix.Host, likely *Brand) (*Brand, Ownership) {
	if Customer(h) {
		return nil, Stranger
	}
	if likely.kind == Site && likely.Owns(h) == Owner {
		return likely, Owner
	}
	whose, how := x.listed(h, likely)
	if how == Owner {
		return whose, Owner
	}
	for i := range x.locals {
		l := &x.local[i]
		if strings.HasPrefix(h.Registrable, l.pattern[:l.before]) && fits(h, l.pattern) == Akin {
			if b := At(int(l.at)); whose == nil || b == likely {
				whose, how = b, Akin
			}
		}
	}
	return whose, how
}

// listed returns the brand on whose list h is, and how surely: of several likely, or without one (nil) that which bears
// the domain's name.
func (x *Index) listed(h *suffix.Host, likely *Brand) (whose *Brand, how Ownership) {
	stem := h.Registrable
	if n := len(stem) - len(h.Suffix) - 1; n > 0 {
		stem = stem[:n]
	}
	for _, name := range [...]string{h.Registrable, h.ASCII, stem} {
		hash := hashOf(name)
		for i := x.heads[hash%ownedBuckets]; i > 0; i = x.owned[i-1].next {
			o := &x.owned[i-1]
			if o.hash != hash {
				continue
			}
			standing := fits(h, o.pattern)
			if standing == Stranger || standing < how {
				continue
			}
			if b := At(int(o.at)); standing > how || b == likely || likely == nil && b.Key == stem {
				whose, how = b, standing
			}
		}
	}
	return whose, how
}

// Known returns the name of the brand or well-known site whose own domain h surely is, "" when it is none's: neither a
// branch's nor a customer's under it.
func (x *Index) Known(h *suffix.Host) string {
	if tenant(h) {
		return ""
	}
	if b, how := x.listed(h, nil); how == Owner {
		return b.Name
	}
	if wordlist.Has(Sites, h.Registrable) {
		return h.Registrable
	}
	return ""
}

// published lists hosts of brands at which anybody puts up pages, forms and files under paths of the same name.
const published = "" +
	"docs.google.com drive.google.com firebasestorage.googleapis.com forms.office.com groups.google.com " +
	"onedrive.live.com script.google.com sites.google.com storage.googleapis.com sway.office.com "

// Customer says whether a brand's or site's customers say what stands at h, under its owner's domain: then the owner's
// good name tells nothing.
func Customer(h *suffix.Host) bool {
	return h.Subdomain != "" && (tenant(h) || wordlist.Has(published, h.ASCII))
}

// tenant says whether h is the name that a service gave to a customer.
func tenant(h *suffix.Host) bool {
	return h.Subdomain != "" && h.Subdomain != "www" && suffix.Tenants(h.Registrable)
}
