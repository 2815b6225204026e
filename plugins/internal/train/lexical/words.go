package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/plugins/lexical/ngram"
)

const (
	vocabulary    = 18_000 // words
	minUses       = 80     // of a sequence of letters that may be a word
	wordRounds    = 6
	candidateBits = 17 // of the table of candidates
)

// learnWords learns the words that names consist of, without knowing their labels: it begins with all frequent
// sequences of letters, cuts the names into the likeliest ones, counts them, and drops the rarest (Kudo, 2018, Subword
// Regularization, section 3.2, with the best cut in place of all cuts).
func learnWords(names []string) (words []string, costs []uint8) {
	var runs []string
	for _, name := range names {
		runs = append(runs, strings.FieldsFunc(name, func(c rune) bool { return c < 'a' || c > 'z' })...)
	}
	uses := candidates(runs)
	for word, n := range uses { // prefer long words in the first cut
		uses[word] = n * len(word) * len(word)
	}
	for round := range wordRounds {
		words, costs = costsOf(uses)
		v, err := ngram.OpenWords(ngram.EncodeWords(words, costs, candidateBits), candidateBits)
		if err != nil {
			panic(err) // the table was just made
		}
		uses = map[string]int{}
		var segments ngram.Segments
		for _, run := range runs {
			at := uint8(0)
			for _, end := range v.Segment(run, &segments) {
				if end-at >= ngram.MinWord {
					uses[run[at:end]]++
				}
				at = end
			}
		}
		keep := len(uses)
		switch {
		case round == 0:
		case round < wordRounds-2:
			keep = max(vocabulary, keep*6/10)
		default:
			keep = vocabulary
		}
		list := slices.SortedFunc(maps.Keys(uses), func(a, b string) int {
			return cmp.Or(cmp.Compare(uses[b]*(len(b)-1), uses[a]*(len(a)-1)), strings.Compare(a, b))
		})
		for _, word := range list[min(keep, len(list)):] {
			delete(uses, word)
		}
	}
	return costsOf(uses)
}

// candidates returns the sequences of letters that occur often enough to be words, and how often.
func candidates(runs []string) map[string]int {
	uses := map[string]int{}
	for length := ngram.MinWord; length <= ngram.MaxWord; length++ { // a long one is frequent only if its start is
		next := map[string]int{}
		for _, run := range runs {
			for at := 0; at+length <= len(run); at++ {
				if length > ngram.MinWord && uses[run[at:at+length-1]] < minUses {
					continue
				}
				next[run[at:at+length]]++
			}
		}
		for word, n := range next {
			if n >= minUses {
				uses[word] = n
			}
		}
	}
	return uses
}

// costsOf returns the words in order, with their costs.
func costsOf(uses map[string]int) (words []string, costs []uint8) {
	total := 0
	for _, n := range uses {
		total += n
	}
	words = slices.Sorted(maps.Keys(uses))
	for _, word := range words {
		cost := math.Round(16 * math.Log(float64(total)/float64(uses[word])))
		costs = append(costs, uint8(min(max(cost, 1), 255)))
	}
	return words, costs
}
