package main

import (
	"reflect"
	"strings"
	"testing"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/generated"
	"assay/plugins/internal/table"
	"assay/registry/expect"
)

// TestTables fails if tables.bin does not follow from package brand and ASSAY_UPDATE does not ask for a new one, or if
// openTables does not read what file writes.
func TestTables(t *testing.T) {
	t.Parallel()
	want := buildTables(t)
	text := want.file()
	generated.Check(t, "tables.bin", text)
	expect.That(t, reflect.DeepEqual(openTables(string(text)), want), "the tables that are read differ")
}

// buildTables indexes all brands and sites. A name with a pair of letters that looks like a single one has another
// entry with its plain letters, so that a slip inside the pair is still close to it.
func buildTables(t *testing.T) *tables {
	x := &tables{ordinaryHashes: make([]uint32, 1<<ordinaryBits), powers: []uint32{1}}
	for i := range maxLetters * 2 {
		x.powers = append(x.powers, x.powers[i]*radix)
	}
	add := func(skeleton string, limit, of int) {
		expect.Must(t, len(skeleton) >= 3 && len(skeleton) <= maxNameLetters,
			"the skeleton %q is too short or too long", skeleton)
		x.names = append(x.names, nameEntry{letterBits([]byte(skeleton)), uint16(len(x.skeletons)),
			uint8(len(skeleton)), uint8(limit), uint16(of)})
		x.skeletons += skeleton
	}
	var keys []string
	var limits []int
	for i := range brand.Count() {
		limit := 0
		if b := brand.At(i); b.Kind() != brand.Short {
			limit = keyEditLimit(b.Key)
		}
		keys, limits = append(keys, brand.At(i).Key), append(limits, limit)
	}
	for start := 0; start < len(brand.Sites); {
		x.siteStarts = append(x.siteStarts, uint16(start))
		var label string
		label, start = brand.NextSite(start)
		// The limit is lower than that of a brand, because ordinaryWords does not cover the neighbours of sites.
		keys, limits = append(keys, label), append(limits, min(maxEditLimit, 1+len(label)/10))
	}
	for i, key := range keys {
		add(skeletonString(key), limits[i], i)
	}
	for i, key := range keys {
		if plain := plainSkeleton(key); limits[i] > 0 && plain != skeletonString(key) {
			add(plain, limits[i], i)
		}
	}
	byPrefix, byHalf := make([][]uint16, 1<<prefixBits), make([][]uint16, 1<<halfBits)
	byEnds := make([][]uint16, 1<<endBits)
	put := func(buckets [][]uint16, k uint32, name int) { buckets[k] = append(buckets[k], uint16(name)) }
	for i := range x.names {
		n := &x.names[i]
		s := x.skeletons[n.offset:][:n.length]
		if i < brand.Count() {
			put(byPrefix, prefixBucket(uint32(s[0])|uint32(s[1])<<8|uint32(s[2])<<16), i)
		}
		if n.editLimit > 0 {
			for second, half := range []string{s[:firstHalf(len(s))], s[firstHalf(len(s))+1:]} {
				var hashes prefixHashes
				hashes.compute([]byte(half))
				put(byHalf, halfBucket(hashes[len(half)], len(s), uint32(second)), i)
			}
		}
		if n.editLimit > 1 {
			put(byEnds, endBucket(s[0], s[len(s)-1]), i)
		}
	}
	flat := func(buckets [][]uint16) (starts, members []uint16) {
		for _, b := range buckets {
			starts, members = append(starts, uint16(len(members))), append(members, b...)
		}
		return append(starts, uint16(len(members))), members
	}
	for word := range strings.FieldsSeq(ordinaryWords) {
		k := wordHash(word) >> (32 - ordinaryBits)
		for x.ordinaryHashes[k] != 0 {
			k = (k + 1) % uint32(len(x.ordinaryHashes))
		}
		x.ordinaryHashes[k] = wordHash(word)
	}
	x.prefixStarts, x.brandsByPrefix = flat(byPrefix)
	x.halfStarts, x.namesByHalf = flat(byHalf)
	x.endStarts, x.namesByEnds = flat(byEnds)
	return x
}

// plainSkeleton is skeletonString without pairs of letters that look like a single one.
func plainSkeleton(key string) string {
	plain := ""
	for i := range len(key) {
		if c := lookalikeOf[key[i]]; c != ignored {
			plain += string(c)
		}
	}
	return plain
}

// file returns the file that openTables reads.
func (x *tables) file() []byte {
	var w table.Writer
	w.Len(len(x.names))
	for _, n := range x.names {
		w.Number(4, uint64(n.letterBits))
		w.Number(2, uint64(n.offset))
		w.Number(1, uint64(n.length))
		w.Number(1, uint64(n.editLimit))
		w.Number(2, uint64(n.of))
	}
	w.Text(x.skeletons)
	for _, list := range x.lists() {
		table.AddNumbers(&w, *list)
	}
	table.AddNumbers(&w, x.ordinaryHashes)
	table.AddNumbers(&w, x.powers)
	return w
}
