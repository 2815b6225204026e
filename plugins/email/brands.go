package main

import (
	"slices"

	"assay/plugins/internal/brand"
)

// posedBrand is a brand that fraudsters pose as in local parts.
type posedBrand struct {
	name  string // as local parts spell it, without separators
	shown string // as the owner writes it
	alone bool   // counts only where the rest of the local part is service words and digits
}

// posedBrands are the brands that package brand flags for this layer, its other made-up names, and a few that it does
// not list because no domain borrows them. The longest name comes first: bookingcom is found before booking.
var posedBrands = func() []posedBrand {
	list := []posedBrand{
		{"geeksquad", "Geek Squad", false}, {"lloyds", "Lloyds", true}, {"elster", "ELSTER", true},
		{"fbi", "FBI", true}, {"medicare", "Medicare", true}, {"socialsecurity", "Social Security", false},
	}
	for i := range brand.Count() {
		if b := brand.At(i); b.Desk() != 0 || b.Kind() == brand.Coined {
			list = append(list, posedBrand{b.Key, b.Name, b.Desk() != brand.Desk})
		}
	}
	slices.SortStableFunc(list, func(a, b posedBrand) int { return len(b.name) - len(a.name) })
	return list
}()

// posedLetters holds the letters of each of posedBrands.
var posedLetters = func() []letters {
	var list []letters
	for _, b := range posedBrands {
		list = append(list, letterSet(b.name))
	}
	return list
}()
