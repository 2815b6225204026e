// Package spelling turns the spelling of a mail domain into hashed features and adds up their learned weights. The
// mailbox layer and its trainer share it, so that both read a domain in exactly the same way.
package spelling

import (
	"math/bits"
	"strings"
)

// Domain is a mail domain in its parts, in A-labels and lower case.
type Domain struct {
	Label  string // the label left of the public suffix
	Left   string // the labels left of Label; usually ""
	Suffix string // the public suffix
}

// maxLabel is the longest label in bytes, RFC 1035 section 2.3.4.
const maxLabel = 63

// Of splits host, whose public suffix is suffix. ok is false if host does not end in suffix, has no label left of it,
// or that label is too long.
func Of(host, suffix string) (d Domain, ok bool) {
	rest, found := strings.CutSuffix(host, "."+suffix)
	if !found || rest == "" || suffix == "" {
		return d, false
	}
	d.Label, d.Suffix = rest, suffix
	if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
		d.Left, d.Label = rest[:dot], rest[dot+1:]
	}
	return d, d.Label != "" && len(d.Label) <= maxLabel
}

// Feature is one property of a domain.
type Feature struct {
	Slot uint16
	// Start and End bound the bytes of the label that the feature was read from. Both are 0 unless it is a run of
	// characters.
	Start, End uint8
	Ending     bool // the feature involves the public suffix
}

// Slots is the number of weights. Features with equal hashes share one.
const Slots = 1 << 16

// MaxFeatures is an upper bound on the features of a domain of 253 bytes.
const MaxFeatures = 480

// The lengths of the runs of characters that are features, including the marks of start and end.
const (
	shortest = 2
	longest  = 5
)

// sounds is the length of the runs of vowels and consonants that are features.
const sounds = 4

// Seeds keep the kinds of features apart.
const (
	seedBias uint32 = 0x05070b0d * (iota + 1)
	seedRun
	seedSuffix
	seedTLD
	seedLength
	seedDigits
	seedHyphens
	seedVowels
	seedConsonants
	seedTLDLength
	seedTLDVowels
	seedTLDDigits
	seedTLDTail
	seedLeft
	seedLeftLabel
	seedLeftLength
	seedLeftShape
	seedLeftBuilt
	seedShape
	seedShapeRuns
	seedTLDShape
	seedLengthVowels
	seedSound
	seedSounds
	seedTLDHead
	seedTLDEnd
)

func step(h uint32, c byte) uint32 { return (h ^ uint32(c)) * 16777619 } // FNV-1a

func text(h uint32, s string) uint32 {
	for i := range len(s) {
		h = step(h, s[i])
	}
	return h
}

func number(h uint32, n int) uint32 { return step(h, byte(n)) }

// slot finishes a hash with the finaliser of MurmurHash3, so that the slot depends on all of the input.
func slot(h uint32) uint16 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return uint16((h ^ h>>16) % Slots)
}

// Features appends d's features to list, at most MaxFeatures.
func (d Domain) Features(list []Feature) []Feature {
	list = d.runs(list)
	add := func(h uint32) { list = append(list, Feature{Slot: slot(h)}) }
	under := func(h uint32) { list = append(list, Feature{Slot: slot(h), Ending: true}) }
	b := measure(d.Label)
	tld := text(0, d.Suffix[strings.LastIndexByte(d.Suffix, '.')+1:])
	add(seedBias)
	add(number(seedLength, b.length))
	add(number(seedDigits, b.digits))
	add(number(seedHyphens, b.hyphens))
	add(number(seedVowels, b.vowels))
	add(number(seedConsonants, b.consonants))
	add(number(seedLengthVowels, b.length*8+b.vowels))
	add(b.shape)
	add(b.runs)
	add(b.sound)
	under(text(seedSuffix, d.Suffix))
	under(seedTLD ^ tld)
	under(number(seedTLDLength^tld, b.length/3))
	under(number(seedTLDVowels^tld, b.vowels))
	under(number(seedTLDDigits^tld, min(b.digits, 1)))
	under(step(seedTLDShape^tld^b.shape, 0))
	for n := 2; n <= 4 && n <= len(d.Label); n++ {
		under(text(seedTLDHead^tld, d.Label[:n]))
		under(text(seedTLDEnd^tld, d.Label[len(d.Label)-n:]))
	}
	if d.Left == "" {
		return list
	}
	add(seedLeft)
	add(number(seedLeftLength^tld, min(len(d.Left), 12)))
	add(number(seedLeftBuilt, min(len(d.Left), 12)))
	shape := seedLeftShape
	for i := range len(d.Left) {
		shape = step(shape, class(d.Left[i]))
	}
	add(shape)
	labels := 0
	for rest := d.Left; rest != "" && labels < maxLeft; labels++ {
		var label string
		label, rest, _ = strings.Cut(rest, ".")
		add(text(seedLeftLabel, label))
	}
	return list
}

// runs appends the runs of characters of the label between marks of its start and end, and the runs of its sounds.
func (d Domain) runs(list []Feature) []Feature {
	last := len(d.Label)
	for from := -1; from < last; from++ {
		h := seedRun
		for n := 1; n <= longest && from+n-1 <= last; n++ {
			c := byte('^')
			if at := from + n - 1; at == last {
				c = '$'
			} else if at >= 0 {
				c = d.Label[at]
			}
			if h = step(h, c); n >= shortest {
				list = append(list, Feature{Slot: slot(h + uint32(n)), Start: uint8(max(from, 0)),
					End: uint8(min(from+n, last))})
			}
		}
	}
	for from := 0; from+sounds <= last; from++ {
		h := seedSounds
		for i := from; i < from+sounds; i++ {
			h = step(h, sound(d.Label[i]))
		}
		list = append(list, Feature{Slot: slot(h), Start: uint8(from), End: uint8(from + sounds)})
	}
	return list
}

// maxLeft is the maximum number of labels of Domain.Left that are features.
const maxLeft = 4

// built describes the structure of a label. Its numbers are capped.
type built struct {
	length, digits, hyphens, vowels, consonants int
	shape                                       uint32 // hash of the sequence of character classes
	runs                                        uint32 // the same with the length of each run as a power of two
	sound                                       uint32 // hash of the sequence of vowels and consonants
}

// class returns 'a' for a letter, '9' for a digit, and hyphens and dots as they are.
func class(c byte) byte {
	switch {
	case c == '-' || c == '.':
		return c
	case c >= '0' && c <= '9':
		return '9'
	}
	return 'a'
}

// sound returns 'v' for a vowel, 'c' for a consonant, and the class of any other character.
func sound(c byte) byte {
	if kind := class(c); kind != 'a' {
		return kind
	}
	switch c {
	case 'a', 'e', 'i', 'o', 'u', 'y':
		return 'v'
	}
	return 'c'
}

func measure(label string) built {
	b := built{length: min(len(label), 20), shape: seedShape, runs: seedShapeRuns, sound: seedSound}
	letters := 0
	for i := 0; i < len(label); {
		kind, start, consonants := class(label[i]), i, 0
		for ; i < len(label) && class(label[i]) == kind; i++ {
			s := sound(label[i])
			b.sound = step(b.sound, s)
			switch s {
			case '-':
				b.hyphens++
			case '9':
				b.digits++
			case 'v':
				b.vowels, letters, consonants = b.vowels+1, letters+1, 0
			default:
				letters, consonants = letters+1, consonants+1
				b.consonants = max(b.consonants, consonants)
			}
		}
		b.shape = step(b.shape, kind)
		b.runs = number(step(b.runs, kind), bits.Len(uint(i-start)))
	}
	b.vowels = b.vowels * 8 / max(letters, 1)
	b.digits, b.hyphens, b.consonants = min(b.digits, 4), min(b.hyphens, 3), min(b.consonants, 7)
	return b
}

// Weights are learned log-odds, one character for each slot in lines of perLine characters: 'P' is 0, and each step
// away from it is one Quantum.
type Weights string

// Quantum is the resolution of a weight, in log-odds.
const Quantum = 1.0 / 32

// The encoding of Weights.
const (
	lowest  = '!'
	zero    = 'P'
	highest = '~'
	perLine = 128
)

// At returns the weight of a slot in steps of Quantum, or 0 if w is empty.
func (w Weights) At(slot uint16) int {
	at := int(slot) + int(slot)/perLine
	if at >= len(w) {
		return 0
	}
	return int(w[at]) - zero
}

// Sum returns the sum of the weights of features, in steps of Quantum.
func (w Weights) Sum(features []Feature) int {
	sum := 0
	for i := range features {
		sum += w.At(features[i].Slot)
	}
	return sum
}

// Encode encodes weights, log-odds by slot, as At reads them. Weights outside the range of the characters are capped.
func Encode(weights []float64) Weights {
	coded := make([]byte, 0, len(weights)+len(weights)/perLine)
	for i, weight := range weights {
		steps := weight / Quantum
		if steps < 0 {
			steps -= 0.5
		} else {
			steps += 0.5
		}
		coded = append(coded, byte(min(max(int(steps)+zero, lowest), highest)))
		if i%perLine == perLine-1 {
			coded = append(coded, '\n')
		}
	}
	return Weights(coded)
}
