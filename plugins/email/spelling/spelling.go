// Package spelling reads how a mail domain is spelt as hashed features, and adds up what was learned of them: whether
// honest mail domains, or throw-away ones, have them. The email layer and its trainer share it, so that a domain is
// read in service exactly as in training.
package spelling

import (
	"math/bits"
	"strings"
)

// Domain is what is read of a mail domain, in A-labels and lower case.
type Domain struct {
	Label  string // left of the public suffix
	Left   string // what stands left of the label; "" mostly
	Suffix string // the public suffix
}

// maxLabel is the longest a label can be, in bytes: RFC 1035 section 2.3.4.
const maxLabel = 63

// Of takes a mail domain apart; ok is false when it is no more than its public suffix, or no domain name.
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
	// Start and End bound the bytes of the label that the feature was read from; both 0 for all but runs of characters.
	Start, End uint8
	Ending     bool // the feature is of the public suffix, or of what is built how under it
}

// Slots is how many weights there are; features share them by their hash.
const Slots = 1 << 16

// MaxFeatures bounds what a domain of 253 bytes can have.
const MaxFeatures = 480

// The lengths of the runs of characters that count, the marks of start and end included.
const (
	shortest = 2
	longest  = 5
)

// sounds is how long the runs of vowels and consonants are that count.
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

// slot finishes a hash so that its place depends on all of its input (MurmurHash3's finaliser).
func slot(h uint32) uint16 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return uint16((h ^ h>>16) % Slots)
}

// Features appends what d has to list, at most MaxFeatures.
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

// maxLeft bounds how many labels left of the name count.
const maxLeft = 4

// built says how a label is put together, in steps.
type built struct {
	length, digits, hyphens, vowels, consonants int
	shape                                       uint32 // hash of which kinds of characters follow each other
	runs                                        uint32 // the same with how long each run is, by powers of two
	sound                                       uint32 // hash of which characters are vowels
}

// class tells letters, digits, hyphens and dots apart.
func class(c byte) byte {
	switch {
	case c == '-' || c == '.':
		return c
	case c >= '0' && c <= '9':
		return '9'
	}
	return 'a'
}

// sound tells vowels from consonants, and both from what is no letter.
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

// Weights are learned log-odds, a character a slot in lines of perLine: 'P' for nothing, each step away from it a
// Quantum.
type Weights string

// Quantum is one step of a weight, in log-odds.
const Quantum = 1.0 / 32

// The characters of Weights, and how many stand in a line.
const (
	lowest  = '!'
	zero    = 'P'
	highest = '~'
	perLine = 128
)

// At returns the weight of a slot in steps of a Quantum; 0 where there are no weights.
func (w Weights) At(slot uint16) int {
	at := int(slot) + int(slot)/perLine
	if at >= len(w) {
		return 0
	}
	return int(w[at]) - zero
}

// Sum adds up the weights of features, in steps of a Quantum.
func (w Weights) Sum(features []Feature) int {
	sum := 0
	for i := range features {
		sum += w.At(features[i].Slot)
	}
	return sum
}

// Encode writes weights, one for each slot in log-odds, as At reads them. What is beyond the characters is held to
// them.
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
