package main

import "unicode/utf8"

// likeness is how a character outside ASCII resembles ASCII (UTS 39, section 4).
type likeness byte

const (
	unlike     likeness = iota
	accented            // a letter with an accent or a stroke, as many languages write it
	similar             // looks similar, by judgement
	identical           // confusable in the Unicode data: most typefaces draw it like the ASCII letter
	rare                // any of these, but a Latin letter that no modern language uses (UTS 39, section 3.1)
	hyphenLike          // looks like a hyphen or an apostrophe
	dotLike             // looks like a dot or a slash, which would end a label
	combining           // an accent on another letter
)

// likenessOf returns the likeness that mark, the last byte of an entry in confusables, denotes.
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

// asASCII returns the one or two lower-case letters, or the digit, that r looks like, and how. Combining and
// punctuation-like characters have no letters.
func asASCII(r rune) (letters string, how likeness) {
	letter, entry := findRecord(confusables, r)
	if letter != r || entry == "" { // NUL has no record
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

// findRecord returns the record of table with the greatest character up to r: that character and the ASCII text after
// it. A table is the concatenation of records, sorted by their characters. The text is "" if all are greater.
func findRecord(table string, r rune) (letter rune, entry string) {
	start, end := 0, 0 // bounds of entry
	for low, high := 0, len(table); low < high; {
		middle := (low + high) / 2
		for table[middle] < 0xc0 {
			middle-- // to the start of the record
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
