package main

import (
	"slices"
	"strings"
)

// A word that stands apart in so many bad names of the pool, of so many families of sources, is one that fraud borrows.
const (
	borrowedRows     = 6
	borrowedFamilies = 3
	shortestBorrowed = 5 // letters
	longestBorrowed  = 20
)

// lenderWeight is what the row of a borrowed word counts in training, against the pool's average row.
const lenderWeight = 5

// exonerate appends a good row for the bare name of every borrowed word under .com, unless the pool has that name.
// Reports name what is made of a brand and seldom the brand's own site, which without this would count as the sum of
// its forgeries. Target rows are not looked at, so that nothing of what is tested is given away.
func exonerate(rows []row) []row {
	type use struct {
		rows     int
		families map[string]bool
	}
	uses, known := map[string]*use{}, map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if r.target {
			continue
		}
		known[r.site] = true
		if !r.bad {
			continue
		}
		for _, word := range apart(r.address.Name) {
			u := uses[word]
			if u == nil {
				u = &use{families: map[string]bool{}}
				uses[word] = u
			}
			u.rows++
			u.families[key(r)] = true
		}
	}
	var lenders []string
	for word, u := range uses {
		if u.rows >= borrowedRows && len(u.families) >= borrowedFamilies && !known[word+".com"] {
			lenders = append(lenders, word)
		}
	}
	slices.Sort(lenders)
	for _, word := range lenders {
		r := row{lent: true}
		r.address.Name, r.address.Suffix, r.address.TLD = word, "com", "com"
		r.read()
		rows = append(rows, r)
	}
	return rows
}

// apart returns the words of a name that hyphens, digits or its ends part from the rest, where they are as long as
// brands.
func apart(name string) []string {
	words := strings.FieldsFunc(name, func(c rune) bool { return c == '-' || c >= '0' && c <= '9' })
	return slices.DeleteFunc(words, func(w string) bool {
		return len(w) < shortestBorrowed ||
			len(w) > longestBorrowed
	})
}
