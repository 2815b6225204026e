package main

import (
	_ "embed"

	"assay/plugins/internal/table"
)

// tablesFile holds the tables, one after the other. TestTables writes it.
//
//go:embed tables.bin
var tablesFile string

// index holds the tables of tablesFile. A list of lists is flat: bucket k is members[starts[k]:starts[k+1]].
var index = openTables(tablesFile)

// tables find the names of brands and sites in a text, exactly or within their edit limits.
// ASSAY_UPDATE=1 go test ./plugins/domain -run 'TestTables$' rewrites them after a change of package brand.
type tables struct {
	names     []nameEntry
	skeletons string

	siteStarts                   []uint16
	prefixStarts, brandsByPrefix []uint16
	halfStarts, namesByHalf      []uint16
	endStarts, namesByEnds       []uint16

	ordinaryHashes []uint32
	powers         []uint32 // of radix
}

// nameEntry describes the skeleton of a name: skeletons[offset:][:length].
type nameEntry struct {
	letterBits uint32 // see letterBits
	offset     uint16
	length     uint8
	editLimit  uint8  // 0 if only equal skeletons match
	of         uint16 // number of the brand, or brand.Count() and more for a site
}

// openTables reads the tables of a file.
func openTables(file string) *tables {
	r := table.Reader(file)
	x := &tables{names: make([]nameEntry, r.Len())}
	for i := range x.names {
		x.names[i] = nameEntry{uint32(r.Number(4)), uint16(r.Number(2)), uint8(r.Number(1)), uint8(r.Number(1)),
			uint16(r.Number(2))}
	}
	x.skeletons = r.Text()
	for _, list := range x.lists() {
		*list = table.Numbers[uint16](&r)
	}
	x.ordinaryHashes, x.powers = table.Numbers[uint32](&r), table.Numbers[uint32](&r)
	return x
}

// lists returns the lists of small numbers in the order of the file.
func (x *tables) lists() []*[]uint16 {
	return []*[]uint16{&x.siteStarts, &x.prefixStarts, &x.brandsByPrefix, &x.halfStarts, &x.namesByHalf, &x.endStarts,
		&x.namesByEnds}
}
