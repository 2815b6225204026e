package ngram

import "math/bits"

// Part is the aspect of an address that a feature belongs to.
type Part uint8

// The parts.
const (
	Name   Part = iota // a run of characters of the name, or a word
	Suffix             // the suffix, alone and together with the name's structure and end
	Shape              // the name's length, its mix of letters, digits and hyphens, and how much of it is words
	Parts  = 3
)

// Feature is a property of an address.
type Feature struct {
	Hash     uint32
	From, To uint8 // of a feature of the part Name: the bytes of the name that it is about
	Part     Part
}

const (
	longestRun = 4  // characters of the longest runs that are features, including the marks of start and end
	maxSuffix  = 32 // bytes of a suffix whose runs are read
	tail       = 2  // bytes of the name that the runs of the suffix begin with

	// MaxFeatures is an upper bound on the features of an address: of the runs, of the suffix's runs, of the words with
	// their pairs, and of all others.
	MaxFeatures = longestRun*(maxName+2) + longestRun*(maxSuffix+tail+3) + 2*(maxName+1) + 24
)

// Seeds keep the kinds of features apart.
const (
	seedBias uint64 = 0x05070b0d * (iota + 1)
	seedRun
	seedEnding
	seedShape
	seedRuns
	seedLength
	seedHyphens
	seedDigits
	seedVowels
	seedDistinct
	seedHostedLength
	seedCount
	seedCovered
	seedTLD
	seedSuffix
	seedHosted
	seedTLDLength
	seedTLDHyphens
	seedTLDDigits
	seedTLDShape
	seedWord
	seedUnknown
	seedPair
	seedFirst
	seedLast
	seedTLDLast
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

// Reader reads the features of addresses. It is large for a guest's stack.
type Reader struct {
	Words *Words

	list     [MaxFeatures]Feature
	n        int
	segments Segments
	text     [maxName + maxSuffix + 4]byte
}

func (r *Reader) add(h uint64, part Part) { r.addAt(h, part, 0, 0) }

func (r *Reader) addAt(h uint64, part Part, from, to int) {
	r.list[r.n] = Feature{uint32(h), uint8(from), uint8(to), part}
	r.n++
}

// Read returns the features of a, at most MaxFeatures. The slice aliases r.
func (r *Reader) Read(a *Address) []Feature {
	r.n = 0
	last := len(a.Name)
	r.text[0] = '^'
	copy(r.text[1:], a.Name)
	r.text[last+1] = '$'
	for from := range last + 2 {
		h := seedRun
		for at := from; at < last+2 && at < from+longestRun; at++ {
			h = step(h, r.text[at])
			r.addAt(h, Name, max(from-1, 0), min(at, last))
		}
	}
	tld := text(seedTLD, a.TLD)
	r.structure(a, tld)
	r.ending(a)
	r.readWords(a.Name, tld)
	return r.list[:r.n]
}

// ending adds the runs of the name's last characters with the suffix.
func (r *Reader) ending(a *Address) {
	n := copy(r.text[:], a.Name[max(len(a.Name)-tail, 0):])
	r.text[n] = '.'
	n += 1 + copy(r.text[n+1:], head(a.Suffix, maxSuffix))
	r.text[n] = '$'
	for from := range n + 1 {
		h := seedEnding
		for at := from; at <= n && at < from+longestRun; at++ {
			h = step(h, r.text[at])
			r.add(h, Suffix)
		}
	}
}

const maxRuns = 10 // runs of a name that its shape covers

// structure adds the features of the shape, and those of the suffix with it.
func (r *Reader) structure(a *Address, tld uint64) {
	s := a.Name
	hyphens, digits, vowels := 0, 0, 0
	var distinct [4]uint64             // a bit for each byte
	shape, runs := seedShape, seedRuns // of the character classes; runs also of each run's length as a power of two
	for i, count := 0, 0; i < len(s); count++ {
		kind, start := classOf(s[i]), i
		for ; i < len(s) && classOf(s[i]) == kind; i++ {
			distinct[s[i]>>6] |= 1 << (s[i] & 63)
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
		case '9':
			digits += i - start
		}
	}
	different, hosted, size := 0, 0, step16(len(s))
	for _, d := range distinct {
		different += bits.OnesCount64(d)
	}
	if a.Hosted {
		hosted = 1
	}
	r.add(number(seedBias, 0), Shape)
	r.add(shape, Shape)
	r.add(runs, Shape)
	r.add(number(seedLength, size), Shape)
	r.add(number(seedHyphens, hyphens), Shape)
	r.add(number(seedDigits, digits), Shape)
	r.add(number(seedVowels, vowels*10/max(len(s), 1)), Shape)
	r.add(number(seedDistinct, different), Shape)
	r.add(number(seedHostedLength, hosted*64+size), Shape)
	r.add(tld, Suffix)
	r.add(text(seedSuffix, a.Suffix), Suffix)
	r.add(number(seedHosted, hosted), Suffix)
	r.add(number(seedTLDLength^tld, size), Suffix)
	r.add(number(seedTLDHyphens^tld, hyphens), Suffix)
	r.add(number(seedTLDDigits^tld, digits), Suffix)
	r.add(number(seedTLDShape^tld, int(shape&(1<<32-1))), Suffix)
}

// readWords adds the words of a name, pairs of neighbours, the first and the last one, and how much of the name is
// words. Adjacent letters that no word covers count as a word, identified only by its length.
func (r *Reader) readWords(name string, tld uint64) {
	count, letters, covered := 0, 0, 0
	previous, first, last := seedPair, uint64(0), uint64(0)
	word := func(h uint64, from, to int) {
		r.addAt(h, Name, from, to)
		r.addAt(previous^h*spread, Name, from, to)
		if count == 0 {
			first = h
		}
		last, previous = h, number(h, int(seedPair&0xff))
		count++
	}
	for start := 0; start < len(name); {
		end := start
		for end < len(name) && name[end] >= 'a' && name[end] <= 'z' {
			end++
		}
		at, unknown := start, 0
		for _, cut := range r.Words.Segment(name[start:end], &r.segments) {
			to := start + int(cut)
			if to-at < MinWord {
				unknown += to - at
				at = to
				continue
			}
			if unknown > 0 {
				word(number(seedUnknown, unknown), at-unknown, at)
				unknown = 0
			}
			covered += to - at
			word(text(seedWord, name[at:to]), at, to)
			at = to
		}
		if unknown > 0 {
			word(number(seedUnknown, unknown), end-unknown, end)
		}
		letters += end - start
		start = end + 1
	}
	if count > 0 {
		r.addAt(number(seedFirst, int(first&(1<<32-1))), Name, 0, len(name))
		r.addAt(number(seedLast, int(last&(1<<32-1))), Name, 0, len(name))
		r.add(number(seedTLDLast^tld, int(last&(1<<32-1))), Suffix)
		r.addAt(number(previous, 0), Name, 0, len(name))
	}
	r.add(number(seedCount, count), Shape)
	r.add(number(seedCovered, covered*10/max(letters, 1)), Shape)
}

// classOf returns '-', '9' for a digit, 'u' outside ASCII, and 'a' otherwise.
func classOf(c byte) byte {
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

// vowelBits has a bit for each of the letters a, e, i, o, u and y.
const vowelBits = 1<<0 | 1<<('e'-'a') | 1<<('i'-'a') | 1<<('o'-'a') | 1<<('u'-'a') | 1<<('y'-'a')

func isVowel(c byte) bool { return c >= 'a' && c <= 'y' && vowelBits>>(c-'a')&1 == 1 }

// step16 returns n up to 16, and then counts in steps of four.
func step16(n int) int {
	if n <= 16 {
		return n
	}
	return 16 + (n-16)/4
}
