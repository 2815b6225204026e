// Package spelling reads how a mail domain is spelt as hashed features, and adds up what was learned of them: whether honest
// mail domains, or throw-away and reported ones, have them. The email layer and its trainer share it, so that a domain is
// read in service exactly as in training.
package spelling

import "strings"

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
const Slots = 1 << 15

// MaxFeatures bounds what a domain of 253 bytes can have.
const MaxFeatures = 400

// The lengths of the runs of characters that count, the marks of start and end included.
const (
	shortest = 2
	longest  = 5
)

// Seeds keep the kinds of features apart.
const (
	seedBias uint32 = 0x0b0d1117 * (iota + 1)
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
	add := func(h uint32) { list = append(list, Feature{Slot: slot(h)}) }
	under := func(h uint32) { list = append(list, Feature{Slot: slot(h), Ending: true}) }
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
				list = append(list, Feature{Slot: slot(h + uint32(n)), Start: uint8(max(from, 0)), End: uint8(min(from+n, last))})
			}
		}
	}
	b := measure(d.Label)
	tld := text(0, d.Suffix[strings.LastIndexByte(d.Suffix, '.')+1:])
	add(seedBias)
	add(number(seedLength, b.length))
	add(number(seedDigits, b.digits))
	add(number(seedHyphens, b.hyphens))
	add(number(seedVowels, b.vowels))
	add(number(seedConsonants, b.consonants))
	under(text(seedSuffix, d.Suffix))
	under(seedTLD ^ tld)
	under(number(seedTLDLength^tld, b.length/3))
	under(number(seedTLDVowels^tld, b.vowels))
	under(number(seedTLDDigits^tld, min(b.digits, 1)))
	if last >= 3 {
		under(text(seedTLDTail^tld, d.Label[last-3:]))
	}
	if d.Left == "" {
		return list
	}
	add(seedLeft)
	add(number(seedLeftLength^tld, min(len(d.Left), 12)))
	labels := 0
	for rest := d.Left; rest != "" && labels < maxLeft; labels++ {
		var label string
		label, rest, _ = strings.Cut(rest, ".")
		add(text(seedLeftLabel, label))
	}
	return list
}

// maxLeft bounds how many labels left of the name count.
const maxLeft = 4

// built says how a label is put together, in steps.
type built struct{ length, digits, hyphens, vowels, consonants int }

func measure(label string) built {
	b := built{length: min(len(label), 20)}
	run, letters := 0, 0
	for i := range len(label) {
		switch c := label[i]; {
		case c >= '0' && c <= '9':
			b.digits, run = b.digits+1, 0
		case c == '-':
			b.hyphens, run = b.hyphens+1, 0
		case strings.IndexByte("aeiouy", c) >= 0:
			b.vowels, letters, run = b.vowels+1, letters+1, 0
		default:
			letters, run = letters+1, run+1
			b.consonants = max(b.consonants, run)
		}
	}
	b.vowels = b.vowels * 8 / max(letters, 1)
	b.digits, b.hyphens, b.consonants = min(b.digits, 4), min(b.hyphens, 3), min(b.consonants, 7)
	return b
}

// Weights are learned log-odds, a character a slot in lines of perLine: 'P' for nothing, each step away from it a Quantum.
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

// Encode writes weights, one for each slot in log-odds, as At reads them. What is beyond the characters is held to them.
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
