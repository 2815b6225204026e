package brand

import (
	"reflect"
	"strings"
	"testing"

	"assay/plugins/internal/generated"
	"assay/plugins/internal/table"
	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

// slotSites returns the contents of siteSlots.
func slotSites(t *testing.T) []uint16 {
	slots, n, offset := make([]uint16, 1<<siteBits), 0, 0
	for site := range strings.FieldsSeq(Sites) {
		offset += strings.Index(Sites[offset:], site)
		k := siteSlot(site)
		for slots[k] != 0 {
			k = (k + 1) % (1 << siteBits)
		}
		slots[k] = uint16(offset + 1)
		n++
		offset += len(site)
	}
	expect.Must(t, n <= 1<<siteBits/2 && len(Sites) <= 1<<16-1, "%d sites in %d bytes are too many for the table", n,
		len(Sites))
	return slots
}

// TestIsSite looks up every site and names that are nearly sites.
func TestIsSite(t *testing.T) {
	t.Parallel()
	for site := range strings.FieldsSeq(Sites) {
		expect.That(t, isSite(site), "%s is not found", site)
		for _, other := range []string{site + "x", site[1:], site[:len(site)-1], "x" + site, site + " "} {
			got, want := isSite(other), wordlist.Has(Sites, other)
			expect.That(t, got == want, "%q is a site: %v, want %v", other, got, want)
		}
	}
	expect.That(t, !isSite(""), "nothing is a site")
}

// TestOwners fails if owners.bin does not follow from the tables and ASSAY_UPDATE does not ask for a new one.
func TestOwners(t *testing.T) {
	t.Parallel()
	want := ownersOf(t)
	generated.Check(t, "owners.bin", want.file())
	expect.That(t, reflect.DeepEqual(openOwners(string(want.file())), want), "the owners that are read differ")
}

// ownersOf returns the owners of the domains of all brands.
func ownersOf(t *testing.T) *ownerTables {
	t.Helper()
	buckets, x := make([][]ownerPattern, 1<<ownerBits), &ownerTables{starts: []uint16{0}, siteSlots: slotSites(t)}
	for i := range Count() {
		domains := At(i).Domains
		offset := 0
		for pattern, rest := nextWord(domains); pattern != ""; pattern, rest = nextWord(rest) {
			offset += strings.Index(domains[offset:], pattern)
			stem, _ := cutMarkets(pattern)
			if !strings.Contains(stem, "*") {
				hash := fnv1a(stem)
				k := ownerBucket(hash)
				buckets[k] = append(buckets[k], ownerPattern{hash, uint16(i), uint16(offset), uint8(len(pattern))})
			} else {
				x.branches = append(x.branches, ownerPattern{0, uint16(i), uint16(offset), uint8(len(pattern))})
			}
			offset += len(pattern)
		}
	}
	for _, bucket := range buckets {
		x.patterns = append(x.patterns, bucket...)
		x.starts = append(x.starts, uint16(len(x.patterns)))
	}
	return x
}

// file returns the file that openOwners reads.
func (x *ownerTables) file() []byte {
	var w table.Writer
	table.AddNumbers(&w, x.starts)
	for _, list := range [][]ownerPattern{x.patterns, x.branches} {
		w.Len(len(list))
		for _, p := range list {
			w.Number(4, uint64(p.hash))
			w.Number(2, uint64(p.brand))
			w.Number(2, uint64(p.offset))
			w.Number(1, uint64(p.length))
		}
	}
	table.AddNumbers(&w, x.siteSlots)
	return w
}
