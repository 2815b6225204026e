package main

import _ "embed"

// tablesFile holds the tables, one after the other. TestTables writes it.
//
//go:embed tables.bin
var tablesFile string

// index is what tablesFile holds. A list of lists is flat: bucket k is members[starts[k]:starts[k+1]].
var index = openTables(tablesFile)

// tables find the names of brands and sites in a text, exactly or within their edit limits. They are made beforehand,
// because a guest that sorted names at its start would burn more fuel than thousands of checks.
// ASSAY_UPDATE=1 go test ./plugins/domain -run TestTables makes them anew after a change of package brand.
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

// openTables reads tables in the order of TestTables. It trusts the file, which is part of the program. An empty file
// gives empty tables, with which TestTables can make others.
func openTables(file string) *tables {
	r := tableReader(file)
	x := &tables{}
	x.names = make([]nameEntry, r.number(4))
	for i := range x.names {
		x.names[i] = nameEntry{r.number(4), uint16(r.number(2)), uint8(r.number(1)), uint8(r.number(1)),
			uint16(r.number(2))}
	}
	n := r.number(4)
	x.skeletons = string(r[:n])
	r = r[n:]
	for _, list := range x.lists() {
		*list = make([]uint16, r.number(4))
		for i := range *list {
			(*list)[i] = uint16(r.number(2))
		}
	}
	for _, list := range []*[]uint32{&x.ordinaryHashes, &x.powers} {
		*list = make([]uint32, r.number(4))
		for i := range *list {
			(*list)[i] = r.number(4)
		}
	}
	return x
}

// lists returns the lists of small numbers in the order of the file.
func (x *tables) lists() []*[]uint16 {
	return []*[]uint16{&x.siteStarts, &x.prefixStarts, &x.brandsByPrefix, &x.halfStarts, &x.namesByHalf, &x.endStarts,
		&x.namesByEnds}
}

// tableReader is the rest of a file of tables.
type tableReader string

// number reads a number of so many bytes, the lowest first.
func (r *tableReader) number(bytes int) (n uint32) {
	if *r == "" {
		return 0
	}
	for i := range bytes {
		n |= uint32((*r)[i]) << (8 * i)
	}
	*r = (*r)[bytes:]
	return n
}
