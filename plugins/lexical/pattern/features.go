package pattern

import (
	"math/bits"

	"assay/plugins/internal/suffix"
)

// Name is a host name with its wording and structure.
type Name struct {
	Host *suffix.Host
	Wording
	Build

	found [MaxFeatures]Feature
}

// Read sets n to the name of h, which must outlive n.
func (n *Name) Read(h *suffix.Host) {
	n.Host = h
	n.Wording.read(h)
	n.Build = read(h)
}

// Part is the aspect of a name that a feature belongs to.
type Part uint8

// The parts.
const (
	Words   Part = iota // bait words
	Address             // a part of another address
	Letters             // how the letters follow each other, and other scripts
	Shape               // length, hyphens, digits
	Left                // labels left of a site on a shared host
	Parts
)

// The first feature of each group and the number of its features.
const (
	biasAt     = 0
	lengthAt   = biasAt + 1
	lengthOf   = 32
	hyphenAt   = lengthAt + lengthOf
	hyphenOf   = 6
	digitAt    = hyphenAt + hyphenOf
	digitOf    = 10
	runAt      = digitAt + digitOf
	runOf      = 9
	turnAt     = runAt + runOf
	turnOf     = 6
	rarityAt   = turnAt + turnOf
	rarityOf   = 17 // the last one means too few letters
	consAt     = rarityAt + rarityOf
	consOf     = 8
	lettersAt  = consAt + consOf // length of the longest run of letters, in steps of two
	lettersOf  = 12
	oddAt      = lettersAt + lettersOf // the single properties below
	oddOf      = 9
	labelAt    = oddAt + oddOf
	labelOf    = 4
	countAt    = labelAt + labelOf // bait words in the name
	countOf    = 6
	leftAt     = countAt + countOf // bait words left of it
	leftOf     = 4
	coveredAt  = leftAt + leftOf // bait words in a name of nothing else
	coveredOf  = 4
	classAt    = coveredAt + coveredOf
	classOf    = 27
	awayAt     = classAt + classOf // themes of the bait words left of the name
	awayOf     = int(Themes)
	hostWordAt = awayAt + awayOf // bait words on a shared host
	hostWordOf = 3
	goodsAt    = hostWordAt + hostWordOf // two or more words of goods that need a licence

	// Features is the number of features.
	Features = goodsAt + 1
)

// The single properties of the structure.
const (
	idn      = oddAt + iota // Latin letters mixed with other scripts
	foreign                 // only letters of other scripts
	hex                     // see Build.Hex
	punycode                // starts with xn- without being an internationalised label
	token                   // see posingToken
	glued                   // see gluedWWW
	country                 // see posingCountry
	label                   // see posingLabel
	neutral                 // a shared host for developers and devices
)

// Bias is the feature of every name.
const Bias = biasAt

// Bounds returns bounds of the odds of a feature, in points. They are set by hand where the rows are biased. Lists of
// honest sites hold domains and lists of reported ones hold host names, so a single bait word left of a name, such as
// shop or login, counts little. Bait words never speak for a name, and what looks like a part of another address, a
// hexadecimal number or punycode speaks against it.
func Bounds(id int) (low, high int) {
	switch {
	case id == hex:
		return 30, 60
	case id > hex && id <= label:
		return 8, 60
	case id == leftAt || id == leftAt+1:
		return 0, 0
	case id >= leftAt && id < leftAt+leftOf:
		return 0, 40
	case id >= awayAt && id < awayAt+awayOf:
		return 0, 10
	case id == goodsAt:
		return 52, 60
	case id >= classAt:
		return 0, 60
	}
	return -60, 60
}

// MaxFeatures is an upper bound on the features of a name.
const MaxFeatures = 21 + classOf + awayOf

const (
	rarityLeast = 11
	fewLetters  = 5
	// RarityRare is the rarity from which on letters look random, if there are ManyLetters.
	RarityRare = 22
	// ManyLetters is the number of letters from which on rare letters look random.
	ManyLetters = 7
)

// Feature is a property of a name. Its odds are entry ID of the table.
type Feature struct {
	ID   uint16
	Part Part
}

// add appends a feature to n.found.
func (n *Name) add(count *int, id int, part Part) {
	n.found[*count] = Feature{uint16(id), part}
	*count++
}

// Features returns the features of n without the bias. rarity rates its letter pairs. The slice aliases n.
func (n *Name) Features(rarity *Rarity) []Feature {
	count := 0
	n.add(&count, lengthAt+min(n.Length, lengthOf-1), Shape)
	n.add(&count, hyphenAt+min(n.Hyphens, hyphenOf-1), Shape)
	n.add(&count, digitAt+min(n.Digits, digitOf-1), Shape)
	n.add(&count, runAt+min(n.Run, runOf-1), Shape)
	n.add(&count, turnAt+min(n.Turns, turnOf-1), Shape)
	rare := rarityOf - 1
	if len(n.Letters) >= fewLetters {
		rare = min(max(rarity.Of(n.Letters)-rarityLeast, 0), rarityOf-2)
	}
	n.add(&count, rarityAt+rare, Letters)
	n.add(&count, consAt+min(n.consonants, consOf-1), Letters)
	n.add(&count, lettersAt+min(len(n.Letters)/2, lettersOf-1), Shape)

	name := n.Host.Name
	if n.Length != len(name) {
		if n.Letters == "" {
			n.add(&count, foreign, Letters)
		} else {
			n.add(&count, idn, Letters)
		}
	}
	if n.Hex() {
		n.add(&count, hex, Letters)
	}
	if fakesPunycode(name) || fakesPunycode(n.Host.Subdomain) {
		n.add(&count, punycode, Address)
	}
	if id, _ := n.posing(); id > 0 {
		n.add(&count, id, Address)
	}
	shared := n.Host.OnSharedHosting()
	if n.Host.Private {
		n.add(&count, labelAt+min(n.Labels, labelOf-1), Left)
		if !shared {
			n.add(&count, neutral, Left)
		}
	}
	n.add(&count, countAt+min(n.inName, countOf-1), Words)
	n.add(&count, leftAt+min(n.inLeft, leftOf-1), Words)
	if n.covered {
		n.add(&count, coveredAt+min(n.inName, coveredOf-1), Words)
	}
	for c := n.classes; c != 0; c &= c - 1 {
		n.add(&count, classAt+bits.TrailingZeros32(uint32(c)), Words)
	}
	for t := n.left; t != 0 && n.inLeft > 1; t &= t - 1 {
		n.add(&count, awayAt+bits.TrailingZeros32(t), Words)
	}
	if n.goods > 1 {
		n.add(&count, goodsAt, Words)
	}
	if shared && n.inName > 0 {
		n.add(&count, hostWordAt+min(n.inName, hostWordOf)-1, Words)
	}
	return n.found[:count]
}

// Theme returns the theme whose bait words have the largest odds.
func (n *Name) Theme(odds *[Features]int8) Theme {
	var sums [Themes]int
	best := Theme(0)
	for i := range n.n {
		for c := n.words[i].Class; c != 0; c &= c - 1 {
			class := bits.TrailingZeros32(uint32(c))
			t := themeOf[class]
			if sums[t] += int(odds[classAt+class]) + 1; sums[t] > sums[best] {
				best = t
			}
		}
	}
	return best
}

// fakesPunycode reports whether one of the labels starts with xn-. Real internationalised labels arrive decoded.
func fakesPunycode(labels string) bool {
	for i := 0; i+3 <= len(labels); i++ {
		if labels[i] == 'x' && labels[i+1] == 'n' && labels[i+2] == '-' && (i == 0 || labels[i-1] == '.') {
			return true
		}
	}
	return false
}

// Random reports whether the letters of the name look drawn at random.
func (n *Name) Random(rarity *Rarity) bool {
	return len(n.Letters) >= ManyLetters && rarity.Of(n.Letters) >= RarityRare
}

// Posing returns the part of the name, or of the labels left of it, that imitates a part of another address. It is ""
// if none does.
func (n *Name) Posing() string {
	_, part := n.posing()
	return part
}

// posing returns the feature and the text of an imitated address, or 0 and "".
func (n *Name) posing() (id int, part string) {
	own := !n.Host.Private || n.Host.OnSharedHosting()
	if own {
		if part = posingToken(n.Host.Name, n.Hyphens > 0); part != "" {
			return token, part
		}
		if gluedWWW(n.Host.Name) {
			return glued, "www"
		}
		if n.Hyphens > 0 && (n.Host.Private || suffix.RiskPoints(n.Host.TLD) > 0) {
			if part = posingCountry(n.Host.Name); part != "" {
				return country, part
			}
		}
	}
	if part = posingLabel(n.Host.Subdomain); part != "" {
		return label, part
	}
	return 0, ""
}
