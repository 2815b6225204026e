package main

import (
	"testing"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/wordlist"
)

// The index must find every name by its skeleton and by every text within its edit limit.
func TestIndexFindsEveryName(t *testing.T) {
	t.Parallel()
	for name := range index.count {
		b, skeleton := index.brand(name), index.skeletonOf(name)
		if len(skeleton) < 3 || len(skeleton) > maxNameLetters || string(skeleton) != skeletonOf(b.Key) {
			t.Errorf("%s has the skeleton %q, which is too short, too long or wrong", b.Key, skeleton)
			continue
		}
		found := false
		k := prefixBucket(skeleton[0], skeleton[1], skeleton[2])
		for _, at := range index.brandsByPrefix[index.prefixStarts[k]:index.prefixStarts[k+1]] {
			found = found || int(at) == name
		}
		if !found && b.Kind() != brand.Site {
			t.Errorf("%s is not found by its first letters", b.Key)
		}
		for _, typo := range editedTexts(skeleton, int(index.names[name].editLimit)) {
			var s prefixHashes
			s.compute(typo)
			found := false
			index.candidates(typo, &s, 0, len(typo), func(at int) { found = found || at == name })
			if !found {
				t.Errorf("%s is not found by %q", b.Key, typo)
			}
		}
	}
}

// editedTexts returns texts within so many edits of text: with one letter replaced, deleted, inserted or swapped at
// every position, and for every fifth position also the edits of these texts.
func editedTexts(text []byte, edits int) [][]byte {
	if edits == 0 {
		return nil
	}
	var all [][]byte
	for i := range text {
		head, tail := text[:i:i], text[i:]
		one := [][]byte{
			append(append(head, 'z'), tail[1:]...), append(head, tail[1:]...), append(append(head, 'z'), tail...),
		}
		if len(tail) > 1 {
			one = append(one, append(append(head, tail[1], tail[0]), tail[2:]...))
		}
		all = append(all, one...)
		if i%5 == edits {
			for _, typo := range one {
				all = append(all, editedTexts(typo, edits-1)...)
			}
		}
	}
	return all
}

func TestOrdinaryWordsSearchable(t *testing.T) {
	t.Parallel()
	if fault := wordlist.Fault(ordinaryWords); fault != "" {
		t.Errorf("the list cannot be searched: %q", fault)
	}
}
