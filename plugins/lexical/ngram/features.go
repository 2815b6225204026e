package ngram

import "math/bits"

// Part is the aspect of an address that a feature belongs to.
type Part uint8

// The parts.
const (
	Name   Part = iota // a run of characters of the name
	Suffix             // the suffix, alone and together with the name's structure and words
	Shape              // the name's length and its mix of letters, digits and hyphens
	Parts  = 3
)

// MaxFeatures is an upper bound on the features of an address.
const MaxFeatures = 5*(maxName+2) + 9 + 9 + 6 + maxName

// longestRun is the length of the longest runs of characters that are features, including the marks of start and end.
const longestRun = 5

// Seeds keep the kinds of features apart.
const (
	seedBias uint64 = 0x05070b0d * (iota + 1)
	seedName
	seedShape
	seedRuns
	seedLength
	seedHyphens
	seedDigits
	seedVowels
	seedLengthVowels
	seedHostedLength
	seedTLD
	seedSuffix
	seedHosted
	seedTLDLength
	seedTLDHyphens
	seedTLDDigits
	seedTLDVowels
	seedTLDShape
	seedSuffixLength
	seedHead
	seedTail
	seedWord
)

// Hashes are the lower 32 bits of 64, because WebAssembly computes with 64 bits and Go would clear the others after
// every step.

const prime = 16777619 // FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/

func step(h uint64, c byte) uint64 { return (h ^ uint64(c)) * prime }

func text(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime
	}
	return h
}

func number(h uint64, n int) uint64 { return (h ^ uint64(n)) * prime }

// spread is 2^32 divided by the golden ratio.
const spread = 0x9e3779b1

// Slot returns the slot of the feature with hash h. The multiplication spreads the hash's bits (Fibonacci hashing).
func Slot(h uint32) uint32 { return h * spread >> (32 - slotBits) }

// Features appends the hash of each feature of a to list, at most MaxFeatures. The layer reads the same features with
// [Table.Sum].
func (a *Address) Features(list []uint32) []uint32 {
	last := len(a.Name)
	for from := -1; from <= last; from++ {
		h := seedName
		for at := from; at <= last && at < from+longestRun; at++ {
			h = step(h, a.at(at))
			list = append(list, uint32(h))
		}
	}
	var others [maxOthers]uint64
	n, _ := a.others(&others)
	for _, h := range others[:n] {
		list = append(list, uint32(h))
	}
	return list
}

// at returns a byte of the name, or the marks of its start and end.
func (a *Address) at(i int) byte {
	switch {
	case i < 0:
		return '^'
	case i >= len(a.Name):
		return '$'
	}
	return a.Name[i]
}

// maxOthers bounds the features that are not runs: those of the shape, and those of the suffix.
const maxOthers = 9 + 9 + 6 + maxName

// others sets list to the features that are not runs: first those of the shape, then those of the suffix. It returns
// their number and the index of the first of the suffix.
func (a *Address) others(list *[maxOthers]uint64) (n, suffixAt int) {
	s := a.Name
	hyphens, digits, vowels := 0, 0, 0
	shape, runs := seedShape, seedRuns // of the character classes; runs also of each run's length as a power of two
	under := text(seedWord, a.Suffix)
	n = shapes
	for i, count := 0, 0; i < len(s); count++ {
		kind, start, h := classOf[s[i]], i, under
		for ; i < len(s) && classOf[s[i]] == kind; i++ {
			h = step(h, s[i])
			if isVowel(s[i]) {
				vowels++
			}
		}
		if count < maxRuns {
			shape = step(shape, kind)
			runs = number(step(runs, kind), bits.Len(uint(i-start)))
		}
		switch kind {
		case '-':
			hyphens += i - start
			continue
		case '9':
			digits += i - start
		}
		list[n] = h
		n++
	}
	length, hosted := max(len(s), 1), 0
	if a.Hosted {
		hosted = 1
	}
	size, vowelShare := step16(len(s)), vowels*10/length
	list[0] = number(seedBias, 0)
	list[1] = shape
	list[2] = runs
	list[3] = number(seedLength, size)
	list[4] = number(seedHyphens, hyphens)
	list[5] = number(seedDigits, digits)
	list[6] = number(seedVowels, vowelShare)
	list[7] = number(seedLengthVowels, size*8+vowels*8/length)
	list[8] = number(seedHostedLength, hosted*64+size)
	tld, suffix := text(0, a.TLD), text(seedSuffix, a.Suffix)
	list[n] = number(seedTLD^tld, 0)
	list[n+1] = suffix
	list[n+2] = number(seedHosted, hosted)
	list[n+3] = number(seedTLDLength^tld, size)
	list[n+4] = number(seedTLDHyphens^tld, hyphens)
	list[n+5] = number(seedTLDDigits^tld, min(digits, 3))
	list[n+6] = number(seedTLDVowels^tld, vowelShare)
	list[n+7] = number(seedTLDShape^tld, int(shape))
	list[n+8] = number(seedSuffixLength^suffix, size/4)
	n += 9
	head, tail := seedHead^tld, seedTail^tld
	for i := 0; i < 4 && i < len(s); i++ {
		head, tail = step(head, s[i]), step(tail, s[len(s)-1-i])
		if i > 0 {
			list[n], list[n+1] = head, tail
			n += 2
		}
	}
	return n, shapes
}

const (
	shapes  = 9  // features of the shape
	maxRuns = 10 // runs of a name that its shape covers
)

// classOf maps a byte to '-', to '9' for a digit, to 'u' outside ASCII, and to 'a' otherwise.
var classOf = func() (classes [256]byte) {
	for c := range classes {
		switch {
		case c == '-':
			classes[c] = '-'
		case c >= '0' && c <= '9':
			classes[c] = '9'
		case c < 0x80:
			classes[c] = 'a'
		default:
			classes[c] = 'u'
		}
	}
	return classes
}()

// vowels has a bit for each of the letters a, e, i, o, u and y.
const vowelBits = 1<<0 | 1<<('e'-'a') | 1<<('i'-'a') | 1<<('o'-'a') | 1<<('u'-'a') | 1<<('y'-'a')

func isVowel(c byte) bool { return c >= 'a' && c <= 'y' && vowelBits>>(c-'a')&1 == 1 }

// step16 returns n up to 16, and then counts in steps of four.
func step16(n int) int {
	if n <= 16 {
		return n
	}
	return 16 + (n-16)/4
}
