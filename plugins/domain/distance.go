package main

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxEditLimit is the largest edit limit of a name.
const maxEditLimit = 3

// editLimit returns the edit distance up to which a label resembles a key with so many letters. It grows with the
// length, because few other words are near a long name.
func editLimit(letters int) int {
	switch {
	case letters < 5:
		return 0
	case letters < 9:
		return 1
	case letters < 13:
		return 2
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

// distance returns the edit distance of a and b with adjacent transpositions (optimal string alignment), or limit+1 if
// it is greater than limit. Neither may be longer than maxLetters*2.
func distance(a, b []byte, limit int) int {
	var rows [3][maxLetters*2 + 1]uint8
	before, above, row := &rows[0], &rows[1], &rows[2]
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	for j := range len(b) + 1 {
		above[j] = uint8(j)
	}
	far := uint8(limit + 1)
	for i := 1; i <= len(a); i++ {
		first, last := max(i-limit, 1), min(i+limit, len(b)) // cells further from the diagonal exceed limit
		row[first-1] = far
		if first == 1 {
			row[0] = uint8(min(i, limit+1))
		}
		least := row[first-1]
		if last == i+limit {
			above[last] = far
		}
		for j := first; j <= last; j++ {
			change := above[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			cost := min(change, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cost = min(cost, before[j-2]+1)
			}
			row[j] = cost
			least = min(least, cost)
		}
		if int(least) > limit {
			return limit + 1
		}
		before, above, row = above, row, before
	}
	return min(int(above[len(b)]), limit+1)
}

// typo is the difference between a word and a key whose skeletons are one edit apart.
type typo struct {
	text         string
	likely       bool // common in typing or hard to notice, such as a swap or a neighbouring key
	substitution bool // one letter is replaced
	multiple     bool // more than one letter differs as written, though the skeletons are one edit apart
}

// typoOf describes how written differs from key.
func typoOf(written, key string) typo {
	written = strings.ReplaceAll(written, "-", "")
	head, tail := commonEnds(written, key)
	mine, theirs := written[head:len(written)-tail], key[head:len(key)-tail]
	switch {
	case len(mine) == 2 && len(theirs) == 2 && mine[0] == theirs[1] && mine[1] == theirs[0]:
		return typo{text: quoted(theirs) + " swapped", likely: true}
	case len(theirs) == 0 && len(mine) == 1:
		doubled := head > 0 && written[head-1] == mine[0] || head+1 < len(written) && written[head+1] == mine[0]
		if doubled {
			return typo{text: quoted(mine) + " doubled", likely: true}
		}
		adjacent := head > 0 && areNeighbours(mine[0], written[head-1]) ||
			head+1 < len(written) && areNeighbours(mine[0], written[head+1])
		return typo{text: "extra " + quoted(mine), likely: adjacent}
	case len(mine) == 0 && len(theirs) == 1:
		return typo{text: quoted(theirs) + " missing", likely: true}
	case len(mine) == 1 && len(theirs) == 1:
		alike := areNeighbours(mine[0], theirs[0]) || isVowel(mine[0]) && isVowel(theirs[0])
		return typo{text: inPlaceOf(mine, theirs), likely: alike, substitution: true}
	case mine == "":
		return typo{text: quoted(theirs) + " missing", multiple: true}
	case theirs == "":
		return typo{text: "extra " + quoted(mine), multiple: true}
	}
	return typo{text: inPlaceOf(mine, theirs), multiple: true}
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
// returns false. at is the offset in written, mine is what written has there, and theirs what key has instead. Hyphens
// and underscores in written do not count.
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

// describeDifference describes the first difference between written and key, which have the same skeleton.
func describeDifference(written, key string) string {
	text := "hyphens inside"
	eachDifference(written, key, func(_ int, mine, theirs string) bool {
		switch r, size := utf8.DecodeRuneInString(mine); {
		case theirs == "":
			text = "extra " + describeRune(r)
		case size > 1:
			text = describeRune(r) + " in place of " + quoted(theirs)
		case len(mine) == 1 && isDigit(mine[0]):
			text = "digit " + inPlaceOf(mine, theirs)
		default:
			text = inPlaceOf(mine, theirs)
		}
		return false
	})
	return text
}

// inPlaceOf says that mine is written where a name has theirs.
func inPlaceOf(mine, theirs string) string { return quoted(mine) + " in place of " + quoted(theirs) }

// hexCode returns r as at least four hexadecimal digits.
func hexCode(r rune) string {
	s := strings.ToUpper(strconv.FormatInt(int64(r), 16))
	return "0000"[min(len(s), 4):] + s
}

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
