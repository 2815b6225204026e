package main

import (
	"math/bits"
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
// not list because no domain borrows them. Longer names come first, so that bookingcom is found before booking.
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

// posedWith holds, for 64 of posedBrands at a time and for each letter, a bit for each brand whose name has the letter.
var posedWith = func() [][26]uint64 {
	list := make([][26]uint64, (len(posedBrands)+63)/64)
	for i, b := range posedBrands {
		for set := letterSet(b.name); set != 0; set &= set - 1 {
			list[i/64][bits.TrailingZeros32(uint32(set))] |= 1 << (i % 64)
		}
	}
	return list
}()

// spelled finds, in order, the posedBrands whose letters all occur in a text.
type spelled struct {
	absent uint32 // letters that the text lacks
	group  int    // the next group of posedWith
	left   uint64 // remaining brands of the group before it
}

func spelledBy(present letters) spelled { return spelled{absent: uint32(^present) & (1<<26 - 1)} }

// next returns the index of the next brand, or -1.
func (s *spelled) next() int {
	for s.left == 0 {
		if s.group == len(posedWith) {
			return -1
		}
		with, others := &posedWith[s.group], uint64(0)
		for set := s.absent; set != 0; set &= set - 1 {
			others |= with[bits.TrailingZeros32(set)]
		}
		s.left = ^others
		s.group++
	}
	i := (s.group-1)*64 + bits.TrailingZeros64(s.left)
	s.left &= s.left - 1
	if i >= len(posedBrands) {
		return -1
	}
	return i
}

// letters is the set of letters a to z in a text, one bit each. It rules out most words without a search.
type letters uint32

func letterSet(text string) letters {
	var set letters
	for i := range len(text) {
		if c := text[i] - 'a'; c < 26 {
			set |= 1 << c
		}
	}
	return set
}

// spell reports whether the set holds every letter a to z of word.
func (set letters) spell(word string) bool {
	for i := range len(word) {
		if c := word[i] - 'a'; c < 26 && set&(1<<c) == 0 {
			return false
		}
	}
	return true
}
