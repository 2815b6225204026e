package brand

import (
	_ "embed"

	"assay/plugins/internal/table"
)

// ownersFile holds the owners of domains for lookups. TestOwners writes it.
//
//go:embed owners.bin
var ownersFile string

var owners = openOwners(ownersFile)

// ownerTables are the patterns of all brands. Bucket k is patterns[starts[k]:starts[k+1]].
type ownerTables struct {
	starts    []uint16
	patterns  []ownerPattern
	branches  []ownerPattern // those with another "*"
	siteSlots []uint16       // a hash table with linear probing: the offset of each of Sites plus one
}

func openOwners(file string) *ownerTables {
	r := table.Reader(file)
	x := &ownerTables{starts: table.Numbers[uint16](&r)}
	for _, list := range []*[]ownerPattern{&x.patterns, &x.branches} {
		*list = make([]ownerPattern, r.Len())
		for i := range *list {
			(*list)[i] = ownerPattern{uint32(r.Number(4)), uint16(r.Number(2)), uint16(r.Number(2)), uint8(r.Number(1))}
		}
	}
	x.siteSlots = table.Numbers[uint16](&r)
	return x
}
