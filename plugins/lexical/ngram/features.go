package ngram

import "math/bits"

// Part is the aspect of an address that a feature belongs to.
type Part uint8

// The parts.
const (
	Name   Part = iota // a run of characters of the name, or the whole name
	Left               // a run of characters left of the name
	Suffix             // the suffix, together with the structure of the name
	Build              // the name's length and its mix of letters, digits and hyphens
	Parts  = 4
)

// Feature is one hashed property of an address.
type Feature struct {
	Hash uint32
	// Start and End bound the bytes of Address.Name, or of Address.Left, that the feature was read from.
	Start, End uint8
	Part       Part
}

// MaxFeatures is an upper bound on the features of an address.
const MaxFeatures = 740

// The longest runs of characters that are features, including the marks of start and end.
const (
	runsOfName = 7
	runsOfLeft = 5
)

// Seeds keep the kinds of features apart.
const (
	seedBias uint32 = 0x05070b0d * (iota + 1)
	seedName
	seedLeft
	seedShape
	seedRuns
	seedLength
	seedHyphens
	seedDigits
	seedVowels
	seedLengthVowels
	seedTLDLength
	seedTLDHyphens
	seedTLDDigits
	seedTLDVowels
	seedTLDShape
	seedHostedLength
	seedHead
	seedTail
	seedWord
	seedSuffixLength
	seedWhole
)

const prime = 16777619 // FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/

func step(h uint32, c byte) uint32 { return (h ^ uint32(c)) * prime }

func text(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * prime
	}
	return h
}

func number(h uint32, n int) uint32 { return (h ^ uint32(n)) * prime }

// spread finishes a hash with the finaliser of MurmurHash3, so that every bit depends on all of the input.
func spread(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}

// Features appends the features of a to list, at most MaxFeatures.
func (a *Address) Features(list []Feature) []Feature {
	list = runs(list, a.Name, seedName, Name, 1, runsOfName)
	list = append(list, Feature{spread(text(seedWhole, a.Name)), 0, uint8(len(a.Name)), Name})
	if a.Left != "" {
		list = runs(list, a.Left, seedLeft, Left, 2, runsOfLeft)
	}
	b := measure(a.Name)
	list = a.build(list, &b)
	return a.underSuffix(list, &b)
}

// runs appends every run of low to high characters of s, including the marks of its start and end.
func runs(list []Feature, s string, seed uint32, part Part, low, high int) []Feature {
	last := len(s) // positions -1 and len(s) are the marks of the start and the end
	for from := -1; from <= last; from++ {
		h := seed
		for n := 1; n <= high && from+n-1 <= last; n++ {
			c := byte('^')
			if at := from + n - 1; at == last {
				c = '$'
			} else if at >= 0 {
				c = s[at]
			}
			h = step(h, c)
			if n >= low {
				list = append(list, Feature{spread(h + uint32(n)), uint8(max(from, 0)), uint8(min(from+n, last)), part})
			}
		}
	}
	return list
}

// built describes the structure of a name.
type built struct {
	length, hyphens, digits, vowels int
	shape                           uint32 // hash of the sequence of character classes
	runs                            uint32 // the same with the length of each run as a power of two
}

// class returns '-' for a hyphen, '9' for a digit, 'u' for a byte outside ASCII, and 'a' for anything else.
func class(c byte) byte {
	switch {
	case c == '-':
		return '-'
	case c >= '0' && c <= '9':
		return '9'
	case c < 0x80:
		return 'a'
	}
	return 'u'
}

// maxRuns is how many runs of a name its shape covers.
const maxRuns = 10

func measure(name string) built {
	b := built{length: len(name), shape: seedShape, runs: seedRuns}
	for i, n := 0, 0; i < len(name); n++ {
		kind, start := class(name[i]), i
		for ; i < len(name) && class(name[i]) == kind; i++ {
			switch c := name[i]; {
			case kind == '-':
				b.hyphens++
			case kind == '9':
				b.digits++
			case c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || c == 'y':
				b.vowels++
			}
		}
		if n < maxRuns {
			b.shape = step(b.shape, kind)
			b.runs = number(step(b.runs, kind), bits.Len(uint(i-start)))
		}
	}
	return b
}

// step16 returns n up to 16, and then counts in steps of four.
func step16(n int) int {
	if n <= 16 {
		return n
	}
	return 16 + (n-16)/4
}

// build appends the structure of the name.
func (a *Address) build(list []Feature, b *built) []Feature {
	length := max(b.length, 1)
	hosted := 0
	if a.Hosted {
		hosted = 1
	}
	for _, h := range [...]uint32{
		number(seedBias, 0),
		b.shape, b.runs,
		number(seedLength, step16(b.length)),
		number(seedHyphens, b.hyphens),
		number(seedDigits, b.digits),
		number(seedVowels, b.vowels*10/length),
		number(seedLengthVowels, step16(b.length)*8+b.vowels*8/length),
		number(seedHostedLength, hosted*64+step16(b.length)),
	} {
		list = append(list, Feature{Hash: spread(h), Part: Build})
	}
	return list
}

// underSuffix appends the structure, the ends and the words of the name, each combined with the suffix or the TLD. The
// suffix alone is not a feature, because these cover it.
func (a *Address) underSuffix(list []Feature, b *built) []Feature {
	length := max(b.length, 1)
	tld := text(0, a.TLD)
	for _, h := range [...]uint32{
		number(seedTLDLength^tld, step16(b.length)),
		number(seedTLDHyphens^tld, b.hyphens),
		number(seedTLDDigits^tld, min(b.digits, 3)),
		number(seedTLDVowels^tld, b.vowels*10/length),
		number(seedTLDShape^tld, int(b.shape)),
		number(text(seedSuffixLength, a.Suffix), step16(b.length)/4),
	} {
		list = append(list, Feature{Hash: spread(h), Part: Suffix})
	}
	for n := 2; n <= 4 && n <= len(a.Name); n++ {
		list = append(list,
			Feature{spread(text(seedHead^tld, a.Name[:n])), 0, uint8(n), Suffix},
			Feature{spread(text(seedTail^tld, a.Name[len(a.Name)-n:])), uint8(len(a.Name) - n), uint8(len(a.Name)),
				Suffix})
	}
	under := text(seedWord, a.Suffix)
	for i := 0; i < len(a.Name); {
		kind, start, h := class(a.Name[i]), i, under
		if kind == 'u' {
			kind = 'a'
		}
		for ; i < len(a.Name) && (class(a.Name[i]) == kind || kind == 'a' && class(a.Name[i]) == 'u'); i++ {
			h = step(h, a.Name[i])
		}
		if kind != '-' {
			list = append(list, Feature{spread(h), uint8(start), uint8(i), Suffix})
		}
	}
	return list
}
