package main

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxEditLimit is the largest edit limit of a name.
const maxEditLimit = 2

// editLimit returns the edit distance up to which a label resembles a key with this many letters. It grows with the
// length, because few other words are near a long name.
func editLimit(letters int) int {
	switch {
	case letters < 5:
		return 0
	case letters < 9:
		return 1
	}
	return maxEditLimit
}

// commonEndings are words that end the names of many companies. Only the letters before them distinguish such a name.
var commonEndings = [...]string{
	"bank", "express", "connect", "games", "mobile", "post", "market", "cloud", "direct", "mail", "pay", "wallet",
	"card", "swap", "scan", "point", "energy", "park", "land", "social", "finance", "internet", "trade", "contact",
	"money", "craft", "station", "media", "box", "coin", "check", "vision", "public", "national", "america",
}

// keyEditLimit returns the edit limit of key, which is at most 1 for a key with a common ending.
func keyEditLimit(key string) int {
	for _, tail := range commonEndings {
		if head, ok := strings.CutSuffix(key, tail); ok {
			return min(1, editLimit(len(head)+3))
		}
	}
	return editLimit(len(key))
}

// isCommonEnding reports whether s is one of commonEndings.
func isCommonEnding(s string) bool { return slices.Contains(commonEndings[:], s) }

// genericWords begin or end the names of many banks and say nothing about which one.
var genericWords = [...]string{"bank", "banka", "banks", "banking", "banca", "banco", "banque"}

// minDistinctive is the least number of letters of the distinctive part of a name whose slips are findings.
const minDistinctive = 5

// distinctive returns the part of s, in letters, that no generic word at its ends covers.
func distinctive(s string) (from, to int) {
	to = len(s)
	for found := true; found; {
		found = false
		for _, word := range genericWords {
			if part := s[from:to]; len(part) < len(word) {
				continue
			} else if strings.HasPrefix(part, word) {
				from, found = from+len(word), true
			} else if strings.HasSuffix(part, word) {
				to, found = to-len(word), true
			}
		}
	}
	return from, to
}

// isMostlyGeneric reports whether fewer than three letters of the brand are distinctive, as in mbank.
func (m *match) isMostlyGeneric() bool {
	from, to := distinctive(m.Key)
	return to-from < 3
}

// isOtherName reports whether a slip makes a name that another company may have: it begins an ordinary word, as
// alliancebank does, one letter of a short distinctive part is replaced, extra or missing, as in oberbank and sberbank,
// or only the generic words differ, as in otpbanka and otpbank.
func (m *match) isOtherName() bool {
	written, key := m.written(), m.Key
	if m.end < len(m.label) && isOrdinary(m.label[m.start:m.end+1]) {
		return true
	}
	if strings.IndexByte(written, '-') >= 0 {
		written = strings.ReplaceAll(written, "-", "")
	}
	from, to := distinctive(key)
	if to-from == len(key) {
		return false
	}
	myFrom, myTo := distinctive(written)
	if mine := written[myFrom:myTo]; mine == key[from:to] || isOrdinary(mine) {
		return true
	}
	head, tail := commonEnds(written, key)
	return to-from < minDistinctive && head <= to && len(key)-tail >= from &&
		m.typo.kind != swapped && m.typo.kind != doubled
}

// distance returns the edit distance of a and b with adjacent transpositions (optimal string alignment), or limit+1 if
// it is greater than limit, which is at most maxEditLimit.
func distance(a []byte, b string, limit int) int {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	switch {
	case len(a) == 0 || len(b) == 0:
		return min(len(a)+len(b), limit+1)
	case limit == 0 || max(len(a)-len(b), len(b)-len(a)) > limit:
		return limit + 1
	}
	least := limit // of the edits that follow one at the first letters, which differ
	least = min(least, distance(a[1:], b[1:], limit-1), distance(a[1:], b, limit-1), distance(a, b[1:], limit-1))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		least = min(least, distance(a[2:], b[2:], limit-1))
	}
	return least + 1
}

// typo is the difference between a word and a key whose skeletons are one edit apart.
type typo struct {
	kind         typoKind
	mine, theirs string // the letters that differ, as the word and as the key has them
	likely       bool   // common in typing or hard to notice, such as a swap or a neighbouring key
	multiple     bool   // more than one letter differs as written, though the skeletons are one edit apart
}

// typoKind is the kind of edit that was made to a key.
type typoKind byte

const (
	replaced typoKind = iota
	swapped
	doubled
	extra
	missing
)

// substitution reports whether one letter is replaced.
func (t *typo) substitution() bool { return t.kind == replaced && !t.multiple }

// typoOf describes how written differs from key.
func typoOf(written, key string) typo {
	if strings.IndexByte(written, '-') >= 0 {
		written = strings.ReplaceAll(written, "-", "")
	}
	head, tail := commonEnds(written, key)
	t := typo{mine: written[head : len(written)-tail], theirs: key[head : len(key)-tail]}
	mine, theirs := t.mine, t.theirs
	switch {
	case len(mine) == 2 && len(theirs) == 2 && mine[0] == theirs[1] && mine[1] == theirs[0]:
		t.kind, t.likely = swapped, true
	case len(theirs) == 0 && len(mine) == 1:
		t.kind = extra
		before, after := byte(0), byte(0)
		if head > 0 {
			before = written[head-1]
		}
		if head+1 < len(written) {
			after = written[head+1]
		}
		if before == mine[0] || after == mine[0] {
			t.kind, t.likely = doubled, true
		} else {
			t.likely = areNeighbours(mine[0], before) || areNeighbours(mine[0], after)
		}
	case len(mine) == 0 && len(theirs) == 1:
		t.kind, t.likely = missing, true
	case len(mine) == 1 && len(theirs) == 1:
		t.likely = isVowel(mine[0]) && isVowel(theirs[0]) || areNeighbours(mine[0], theirs[0])
	default:
		t.multiple = true
		if mine == "" {
			t.kind = missing
		} else if theirs == "" {
			t.kind = extra
		}
	}
	return t
}

// commonEnds returns the length of the common prefix of a and b, and that of the common suffix of the rest.
func commonEnds[T string | []byte](a, b T) (head, tail int) {
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// eachDifference calls visit for each difference between written and key, which have the same skeleton, until visit
// returns false. at is the offset in written, mine is the part of written there, and theirs is the part of key instead.
// Hyphens and underscores in written do not count.
func eachDifference(written, key string, visit func(at int, mine, theirs string) bool) {
	for i, j := 0, 0; i < len(written); {
		size, theirs := 1, 1 // lengths of the difference in written and in key
		switch c := written[i]; {
		case c == '-' || c == '_':
			i++
			continue
		case j < len(key) && c == key[j]:
			i, j = i+1, j+1
			continue
		case c >= utf8.RuneSelf:
			var r rune
			r, size = utf8.DecodeRuneInString(written[i:])
			letters, how := asASCII(r)
			if theirs = len(letters); how == unlike || r == 'ß' && !strings.HasPrefix(key[j:], "ss") {
				theirs = 1
			}
		case i+1 < len(written) && written[i+1] < utf8.RuneSelf && j < len(key) &&
			mergedLetter(written[i:i+2]) == lookalikeOf[key[j]]:
			size = 2
		case j+1 < len(key) && mergedLetter(key[j:j+2]) == lookalikeOf[c]:
			theirs = 2
		}
		end := min(j+theirs, len(key))
		if !visit(i, written[i:i+size], key[j:end]) {
			return
		}
		i, j = i+size, end
	}
}

// mergedLetter returns the skeleton of two ASCII letters that look like a single one, or 0 for other pairs.
func mergedLetter(two string) byte { return mergePair(lookalikeOf[two[0]], lookalikeOf[two[1]]) }

func isVowel(c byte) bool { return strings.IndexByte("aeiouy", c) >= 0 }

// keyboard holds the rows of a QWERTY keyboard. A key touches its neighbours in the row, and in the row above the keys
// of the same column and of the next one.
var keyboard = [...]string{"1234567890", "qwertyuiop", "asdfghjkl;", "zxcvbnm"}

// areNeighbours reports whether two keys touch on a QWERTY, QWERTZ or AZERTY keyboard.
func areNeighbours(a, b byte) bool {
	return touch(a, b) || touch(qwertz(a), qwertz(b)) || touch(azerty(a), azerty(b))
}

// qwertz returns the key of a QWERTY keyboard that is where QWERTZ has c.
func qwertz(c byte) byte {
	switch c {
	case 'y':
		return 'z'
	case 'z':
		return 'y'
	}
	return c
}

// azerty returns the key of a QWERTY keyboard that is where AZERTY has c.
func azerty(c byte) byte {
	switch c {
	case 'a':
		return 'q'
	case 'q':
		return 'a'
	case 'z':
		return 'w'
	case 'w':
		return 'z'
	case 'm':
		return ';'
	}
	return c
}

// touch reports whether two keys of keyboard touch.
func touch(a, b byte) bool {
	ra, ca := keyPosition(a)
	rb, cb := keyPosition(b)
	if ra < 0 || rb < 0 {
		return false
	}
	down, across := rb-ra, cb-ca
	switch {
	case down == 0:
		return across == 1 || across == -1
	case down == 1:
		return across == 0 || across == -1
	case down == -1:
		return across == 0 || across == 1
	}
	return false
}

// keyPosition returns the row and column of c in keyboard, or -1, -1.
func keyPosition(c byte) (row, column int) {
	for r, letters := range keyboard {
		if column := strings.IndexByte(letters, c); column >= 0 {
			return r, column
		}
	}
	return -1, -1
}
