package bait

import (
	_ "embed"

	"assay/plugins/internal/table"
)

// wordsFile holds the words of the lexicon for lookups. TestWords writes it.
//
//go:embed words.bin
var wordsFile string

var index = openWords(wordsFile)

// words are the words of the lexicon. Bucket k is entries[starts[k]:starts[k+1]], the longest word first.
type words struct {
	starts        []uint16
	entries       []entry
	tails         string
	pairs         []Class  // of words of two letters, by 36 times the number of the first plus that of the second
	secondLetters []uint64 // for each first letter, a bit for each second letter of the words
}

func openWords(file string) *words {
	r := table.Reader(file)
	x := &words{starts: table.Numbers[uint16](&r), entries: make([]entry, r.Len())}
	for i := range x.entries {
		x.entries[i] = entry{r.Number(8), Class(r.Number(4)), uint16(r.Number(2)), uint8(r.Number(1)),
			uint8(r.Number(1)), r.Number(1) != 0}
	}
	x.tails, x.pairs, x.secondLetters = r.Text(), table.Numbers[Class](&r), table.Numbers[uint64](&r)
	return x
}
