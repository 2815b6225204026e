package feature

import (
	"math/bits"

	"assay/plugins/internal/suffix"
)

// Name is what the layer weighs of a host's name.
type Name struct {
	Host *suffix.Host
	Wording
	Build

	kind int // of the suffix, see kinds
}

// Read reads the name of h, which must outlive n.
func (n *Name) Read(h *suffix.Host) {
	n.Host = h
	n.Wording.read(h)
	n.Build = read(h)
	n.kind = kindOf(h)
}

// Part is what a feature speaks of: a reason is given for each part that makes a name suspicious.
type Part uint8

// The parts.
const (
	Words    Part = iota // lure words and what stands beside them
	Address              // a part of another address
	Hyphens              // two and more
	Long                 // 26 characters and more
	Digits               // many
	Deep                 // three labels and more left of the name
	Random               // letters that hardly stand side by side, or take turns with digits
	Hex                  // a hexadecimal number
	Punycode             // begins like an internationalised label and is none
	Suffix               // the suffix, or the shared host
	Left                 // labels left of the name
	Length               // of the name
	Letters              // how rare pairs of letters are, other scripts
	Mix                  // the order of letters, digits and hyphens
	Parts
)

// Feature is a trait that a name has: its odds are at ID of the table.
type Feature struct {
	ID   uint16
	Part Part
}

// How suffixes are told apart where they are weighed together with something else.
const (
	countries = iota // that honest names end in more often
	common           // com, net and the like
	doubtful
	risky
	machines // under which projects, devices and delivery networks are named
	sites    // shared hosts
	kinds
)

func kindOf(h *suffix.Host) int {
	switch {
	case h.Hosted():
		return sites
	case h.Private:
		return machines
	}
	switch odds := suffix.Odds(h.TLD); {
	case odds >= 16:
		return risky
	case odds >= 4:
		return doubtful
	case odds >= -4:
		return common
	}
	return countries
}

// Where the features of each group begin, and in how many steps what they count is told apart.
const (
	Bias      = 0
	suffixAt  = Bias + 1
	suffixOf  = 16 // steps of 4 tenths, from -24
	hostAt    = suffixAt + suffixOf
	hostOf    = 4
	labelAt   = hostAt + hostOf
	labelOf   = 4
	lengthAt  = labelAt + labelOf
	lengthOf  = 30 // the last four: from 26, 32, 40 and 50 characters on
	kindLenAt = lengthAt + lengthOf
	kindLenOf = 5 * kinds
	digitAt   = kindLenAt + kindLenOf
	digitOf   = 10
	runAt     = digitAt + digitOf
	runOf     = 1
	kindDigAt = runAt + runOf
	kindDigOf = 2 * kinds
	hyphenAt  = kindDigAt + kindDigOf
	hyphenOf  = 6
	kindHyAt  = hyphenAt + hyphenOf
	kindHyOf  = kinds
	orderAt   = kindHyAt + kindHyOf
	orderOf   = orders
	rarityAt  = orderAt + orderOf
	rarityOf  = 17 // the last: too few letters to say
	kindRarAt = rarityAt + rarityOf
	kindRarOf = 3 * kinds
	turnAt    = kindRarAt + kindRarOf
	turnOf    = 4
	oddAt     = turnAt + turnOf // the rest of the build: see there
	oddOf     = 9
	countAt   = oddAt + oddOf
	countOf   = 6
	leftAt    = countAt + countOf
	leftOf    = 4
	coverAt   = leftAt + leftOf
	coverOf   = 4
	classAt   = coverAt + coverOf
	classOf   = classes
	awayAt    = classAt + classOf
	awayOf    = int(Themes)
	kindThAt  = awayAt + awayOf
	kindThOf  = kinds * int(Themes)
	withDigAt = kindThAt + kindThOf
	withDigOf = int(Themes)
	wholeAt   = withDigAt + withDigOf
	wholeOf   = int(Themes)
	pairAt    = wholeAt + wholeOf
	pairOf    = int(Themes) * int(Themes)
	WordAt    = pairAt + pairOf // and from here on one for each word of the lexicon
)

// classes is how many classes of lure words there are.
const classes = 27

// The single traits of the build.
const (
	// letters of other scripts beside Latin ones, under a suffix that honest names end in more often
	idnHome  = oddAt + iota
	idn      // elsewhere
	foreign  // letters of other scripts alone
	hex      // see Build.Hex
	punycode // begins with xn- and is no internationalised label
	token    // see posingToken
	glued    // see gluedWWW
	country  // see posingCountry
	label    // see posingLabel
)

const (
	manyDigits  = 8
	longRun     = 5
	longLabel   = 26
	deepLabels  = 3
	manyTurns   = 4
	rarityLeast = 11
	rarityOdd   = 18 // from here on letters seldom stand side by side
	rarityRare  = 22 // from here on letters read as drawn at random
	fewLetters  = 5
	manyLetters = 7 // fewer are as likely an abbreviation
)

// MaxFeatures bounds how many features a name has: lure words have at most three each, and pairs of themes are not
// repeated.
const MaxFeatures = 24 + MostWords + 3*int(Themes) + int(Themes)*int(Themes)/2 + 2*classes

// Features appends those of n to found, the bias aside. Rarity is of letter pairs.
func (n *Name) Features(rarity *Rarity, found []Feature) []Feature {
	add := func(id int, part Part) { found = append(found, Feature{uint16(id), part}) }
	found = n.place(found)

	switch l := n.Length; {
	case l < longLabel:
		add(lengthAt+l, Length)
	case l < 32:
		add(lengthAt+26, Long)
	case l < 40:
		add(lengthAt+27, Long)
	case l < 50:
		add(lengthAt+28, Long)
	default:
		add(lengthAt+29, Long)
	}
	size := 0
	for _, from := range [...]int{5, 8, 13, 20} {
		if n.Length >= from {
			size++
		}
	}
	add(kindLenAt+5*n.kind+size, Length)

	part := Mix
	if n.Digits >= manyDigits {
		part = Digits
	}
	if n.Digits > 0 {
		add(digitAt+min(n.Digits, digitOf-1), part)
		add(kindDigAt+2*n.kind+min(n.Digits/4, 1), part)
	}
	if n.Run >= longRun && n.Run < len(n.Host.Name) {
		add(runAt, Digits)
	}
	if part = Mix; n.Hyphens >= 2 {
		part = Hyphens
	}
	if n.Hyphens > 0 {
		add(hyphenAt+min(n.Hyphens, hyphenOf-1), part)
		add(kindHyAt+n.kind, part)
	}
	add(orderAt+n.order, Mix)

	if len(n.Letters) < fewLetters {
		add(rarityAt+rarityOf-1, Letters)
	} else {
		rare := rarity.Of(n.Letters)
		part = Letters
		if rare >= rarityRare && len(n.Letters) >= manyLetters && n.kind != machines {
			part = Random
		}
		add(rarityAt+min(max(rare-rarityLeast, 0), rarityOf-2), part)
		if rare >= rarityOdd {
			add(kindRarAt+3*n.kind+min((rare-rarityOdd)/2, 2), part)
		}
	}
	if n.Turns > 0 {
		part = Mix
		if n.Turns >= manyTurns {
			part = Random
		}
		add(turnAt+min(n.Turns, turnOf)-1, part)
	}
	found = n.oddities(found)
	return n.wording(found)
}

// place appends the features of where the name is.
func (n *Name) place(found []Feature) []Feature {
	h := n.Host
	switch n.kind {
	case sites:
		step := 1
		if odds := suffix.HostedOdds(h.Suffix); odds > 15 {
			step = 2
		} else if odds < 15 {
			step = 0
		}
		found = append(found, Feature{uint16(hostAt + step), Suffix})
	case machines:
		return append(found, Feature{uint16(hostAt + 3), Suffix})
	default:
		found = append(found, Feature{uint16(suffixAt + min(max(suffix.Odds(h.TLD)+24, 0)/4, suffixOf-1)), Suffix})
	}
	if n.Labels > 0 {
		part := Left
		if n.Labels >= deepLabels {
			part = Deep
		}
		found = append(found, Feature{uint16(labelAt + min(n.Labels, labelOf-1)), part})
	}
	return found
}

// oddities appends the single traits of the build. Machines' names are spared those that theirs have too.
func (n *Name) oddities(found []Feature) []Feature {
	add := func(id int, part Part) { found = append(found, Feature{uint16(id), part}) }
	name, left := n.Host.Name, n.Host.Subdomain
	if n.Length != len(name) {
		switch {
		case n.Letters == "":
			add(foreign, Letters)
		case n.kind == countries:
			add(idnHome, Letters)
		default:
			add(idn, Letters)
		}
	}
	if n.kind != machines && n.Hex() {
		add(hex, Hex)
	}
	if fakesPunycode(name) || fakesPunycode(left) {
		add(punycode, Punycode)
	}
	if id, _ := n.posing(); id > 0 {
		add(id, Address)
	}
	return found
}

// fakesPunycode says whether one of the labels begins with xn-; real ones come decoded.
func fakesPunycode(labels string) bool {
	for i := 0; i+3 <= len(labels); i++ {
		if labels[i:i+3] == "xn-" && (i == 0 || labels[i-1] == '.') {
			return true
		}
	}
	return false
}

// Unusual says whether letters stand side by side in the name that seldom do.
func (n *Name) Unusual(rarity *Rarity) bool {
	return len(n.Letters) >= fewLetters && rarity.Of(n.Letters) >= rarityOdd
}

// Mixed says whether the name holds letters outside ASCII beside those of it.
func (n *Name) Mixed() bool { return n.Letters != "" && n.Length != len(n.Host.Name) }

// Posed says where a name holds a part of another address.
type Posed uint8

// The places.
const (
	Nowhere   Posed = iota
	Within          // the name, as com- in blumen-com-wiese
	AtStart         // of the name, as the end of a country's address
	ToTheLeft       // of the name
)

// Posing returns what in the name or left of it passes for a part of another address, and where.
func (n *Name) Posing() (part string, where Posed) {
	switch id, part := n.posing(); id {
	case 0:
		return "", Nowhere
	case country:
		return part, AtStart
	case label:
		return part, ToTheLeft
	default:
		return part, Within
	}
}

func (n *Name) posing() (id int, part string) {
	if n.kind != machines {
		if part = posingToken(n.Host.Name, n.Hyphens > 0); part != "" {
			return token, part
		}
		if gluedWWW(n.Host.Name) {
			return glued, "www"
		}
	}
	if n.Hyphens > 0 && (n.kind == sites || n.kind < machines && suffix.Risk(n.Host.TLD) > 0) {
		if part = posingCountry(n.Host.Name); part != "" {
			return country, part
		}
	}
	if part = posingLabel(n.Host.Subdomain); part != "" {
		return label, part
	}
	return 0, ""
}

// wording appends the features of the lure words.
func (n *Name) wording(found []Feature) []Feature {
	add := func(id int) { found = append(found, Feature{uint16(id), Words}) }
	for c := n.classes; c != 0; c &= c - 1 {
		add(classAt + bits.TrailingZeros32(uint32(c)))
	}
	w := &n.Wording
	if w.n == 0 {
		return found
	}
	for i := range w.n {
		add(WordAt + int(w.words[i].place))
	}
	add(countAt + min(w.inName, countOf-1))
	if w.covered {
		add(coverAt + min(w.inName, coverOf-1))
	}
	if w.inLeft > 0 {
		add(leftAt + min(w.inLeft, leftOf-1))
	}
	for t := w.left; t != 0; t &= t - 1 {
		add(awayAt + bits.TrailingZeros32(t))
	}
	for t := w.themes; t != 0; t &= t - 1 {
		theme := bits.TrailingZeros32(t)
		add(kindThAt + kinds*theme + n.kind)
		if n.Digits > 0 {
			add(withDigAt + theme)
		}
		if w.covered {
			add(wholeAt + theme)
		}
		for other := t & (t - 1); other != 0; other &= other - 1 {
			add(pairAt + theme*int(Themes) + bits.TrailingZeros32(other))
		}
	}
	return found
}
