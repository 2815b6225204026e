package main

import "unicode/utf8"

// likeness says how a character outside ASCII passes for ASCII ones (UTS 39, section 4).
type likeness byte

const (
	unlike     likeness = iota
	accented            // a letter with a mark or a stroke: plain spelling in many languages
	similar             // another letter that can pass for it, by judgement
	identical           // confusable: most typefaces draw it alike
	rare                // any of these, by a Latin letter that no language of today spells with (UTS 39, section 3.1)
	hyphenLike          // reads as a hyphen or an apostrophe
	dotLike             // reads as a dot or a slash, which would end a label
	combining           // a mark over or under another letter
)

// marked are the likenesses by the marks that stand behind the letters in lookalikes.
func likenessOf(mark byte) likeness {
	switch mark {
	case '\'':
		return accented
	case '~':
		return similar
	case '!':
		return rare
	case '-':
		return hyphenLike
	case '/':
		return dotLike
	}
	return identical
}

// reads returns the one or two lower-case letters, or the digit, that r passes for, and how. Signs and marks pass for
// none.
func asASCII(r rune) (letters string, how likeness) {
	letter, entry := findRecord(confusables, r)
	if letter != r {
		return "", unlike
	}
	if entry == "^" {
		return "", combining
	}
	last := len(entry) - 1
	how = likenessOf(entry[last])
	if how != identical {
		entry = entry[:last]
	}
	return entry, how
}

// record returns the record of table that begins with the greatest character up to r, and what follows that character.
// A table is text: records in the order of the characters that they begin with, the rest of each ASCII. The first
// character of a table is up to every r that is not ASCII.
func findRecord(table string, r rune) (letter rune, entry string) {
	start, end := 0, 0 // of the best entry
	for low, high := 0, len(table); low < high; {
		middle := (low + high) / 2
		for table[middle] < 0xc0 {
			middle-- // to where the record begins
		}
		c, size := utf8.DecodeRuneInString(table[middle:])
		if c > r {
			high = middle
			continue
		}
		letter, start, end = c, middle+size, middle+size
		for end < len(table) && table[end] < utf8.RuneSelf {
			end++
		}
		low = end
	}
	return letter, table[start:end]
}
