package main

import "strings"

// ownerIndex finds the brand that names a domain as its own.
type ownerIndex struct {
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
	at      uint16 // directory.brand(at)
	next    uint16 // of the same bucket, as in ownerIndex.heads
}

// branch is a pattern with a "*" inside, and whose it is.
type branch struct {
	pattern string
	before  int    // bytes up to the "*"
	at      uint16 // directory.brand(at)
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

// bind fills the index.
func (x *ownerIndex) bind() {
	at := uint16(0)
	for _, table := range tables {
		for i := range table {
			for pattern, rest := nextWord(table[i].own); pattern != ""; pattern, rest = nextWord(rest) {
				x.add(pattern, at)
			}
			at++
		}
	}
}

func (x *ownerIndex) add(pattern string, brand uint16) {
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

// nextWord returns the first word of text, "" when there is none, and what follows it.
func nextWord(text string) (word, rest string) {
	start := 0
	for start < len(text) && text[start] <= ' ' {
		start++
	}
	end := start
	for end < len(text) && text[end] > ' ' {
		end++
	}
	return text[start:end], text[end:]
}

// ownerOf returns the brand whose domain h is, and how surely: of several likely, the brand that was found in the name.
func (d *directory) ownerOf(h *host, likely *brand) (*brand, ownership) {
	if likely.kind == site && likely.owns(h) == owner {
		return likely, owner
	}
	stem := h.Registrable
	if n := len(stem) - len(h.Suffix) - 1; n > 0 {
		stem = stem[:n]
	}
	var whose *brand
	best := stranger
	ask := func(pattern string, at uint16) {
		if how := h.fits(pattern); how >= best && how > stranger {
			if b := d.brand(int(at)); how > best || b == likely {
				whose, best = b, how
			}
		}
	}
	for _, name := range [...]string{h.Registrable, h.ASCII, stem} {
		hash := hashOf(name)
		for i := d.owners.heads[hash%ownedBuckets]; i > 0; i = d.owners.owned[i-1].next {
			if o := &d.owners.owned[i-1]; o.hash == hash {
				ask(o.pattern, o.at)
			}
		}
	}
	if best < owner {
		for i := range d.owners.locals {
			if l := &d.owners.local[i]; strings.HasPrefix(h.Registrable, l.pattern[:l.before]) {
				ask(l.pattern, l.at)
			}
		}
	}
	return whose, best
}
