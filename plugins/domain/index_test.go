package main

import (
	"slices"
	"strings"
	"testing"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

// The tables find every name by its skeleton and by texts within one edit, or with a higher limit, by its ends.
func TestTablesFindEveryName(t *testing.T) {
	t.Parallel()
	for name := range index.names {
		b, skeleton := brandOf(int(index.names[name].of)), skeletonOf(name)
		k := prefixBucket(uint32(skeleton[0]) | uint32(skeleton[1])<<8 | uint32(skeleton[2])<<16)
		bucket := index.brandsByPrefix[index.prefixStarts[k]:index.prefixStarts[k+1]]
		expect.That(t, name >= brand.Count() || slices.Contains(bucket, uint16(name)),
			"%s is not found by its first letters", b.Key)
		for _, typo := range editedTexts([]byte(skeleton), int(index.names[name].editLimit)) {
			var s prefixHashes
			s.compute(typo)
			var space [64]uint16
			expect.That(t, slices.Contains(candidates(typo, &s, 0, len(typo), space[:0]), uint16(name)),
				"%s is not found by %q", b.Key, typo)
		}
	}
}

// editedTexts returns texts within so many edits of text: with one letter replaced, deleted, inserted or swapped at
// every position, and in the middle also the edits of these texts.
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
		if edits == 2 && i > 0 && i < len(text)-3 && i%3 == 0 {
			for _, typo := range one {
				for _, two := range editedTexts(typo[1:len(typo)-1], 1) {
					all = append(all, append(append([]byte{typo[0]}, two...), typo[len(typo)-1]))
				}
			}
		}
	}
	return all
}

func TestListsSearchable(t *testing.T) {
	t.Parallel()
	for _, list := range []string{ordinaryWords, soldSuffixes, shortWords, widelyNamed, bankNames} {
		expect.Equal(t, "the list cannot be searched", wordlist.Fault(list), "")
	}
}

func TestIsOrdinary(t *testing.T) {
	t.Parallel()
	for word := range strings.FieldsSeq(ordinaryWords) {
		expect.That(t, wordHash(word) != 0 && isOrdinary(word) && (!isOrdinary(word+"x") || wordlist.Has(ordinaryWords,
			word+"x")), "%q is not found, or with a letter more", word)
	}
	for i := range brand.Count() { // a coined brand is not a word
		b := brand.At(i)
		expect.That(t, b.Kind() != brand.Coined || !isOrdinary(b.Key), "%s is an ordinary word", b.Key)
	}
}

func TestHasStrayHyphen(t *testing.T) {
	t.Parallel()
	for written, want := range map[struct{ written, name string }]bool{
		{"facebook", "Facebook"}: false, {"you-tube", "YouTube"}: true, {"facebo-ok", "Facebook"}: true,
		{"f-acebook", "Facebook"}: true, {"face--book", "Facebook"}: true, {"t-mobile", "T-Mobile"}: false,
		{"tm-obile", "T-Mobile"}: true, {"la-poste", "La Poste"}: false, {"royal-mail", "Royal Mail"}: false,
	} {
		b := brand.Brand{Key: strings.ReplaceAll(written.written, "-", ""), Name: written.name}
		m := match{Brand: &b, label: written.written, end: len(written.written)}
		expect.Equal(t, written.written+" for "+written.name+" has a stray hyphen", m.hasStrayHyphen(), want)
	}
}
