package feature

import (
	"math/bits"

	"assay/plugins/internal/suffix"
)

// Name is a host name with its wording and structure.
type Name struct {
	Host *suffix.Host
	Wording
	Build

	kind int // kind of the suffix
}

// Read sets n to the name of h, which must outlive n.
func (n *Name) Read(h *suffix.Host) {
	n.Host = h
	n.Wording.read(h)
	n.Build = read(h)
	n.kind = kindOf(h)
}

// Part is the aspect of a name that a feature belongs to. The layer gives one reason for each suspicious part.
type Part uint8

// The parts.
const (
	Words    Part = iota // bait words and their context
	Address              // a part of another address
	Hyphens              // two or more
	Long                 // 26 characters or more
	Digits               // many
	Deep                 // three or more labels left of the name
	Random               // rare pairs of letters, or many changes between letters and digits
	Hex                  // a hexadecimal number
	Punycode             // starts like an internationalised label without being one
	Suffix               // the suffix or the shared host
	Left                 // labels left of the name
	Length               // of the name
	Letters              // rarity of letter pairs, other scripts
	Mix                  // the order of letters, digits and hyphens
	Parts
)

// Feature is a property of a name. Its odds are entry ID of the table.
type Feature struct {
	ID   uint16
	Part Part
}

// The kinds of suffixes that features combine with other properties.
const (
	countries = iota // more frequent among honest names than among reported ones
	common           // com, net and the like
	doubtful
	risky
	machines // suffixes for projects, devices and delivery networks
	sites    // shared hosts
	kinds
)

func kindOf(h *suffix.Host) int {
	switch {
	case h.OnSharedHosting():
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

// The first feature of each group (At) and its number of features (Of).
const (
	Bias      = 0
	suffixAt  = Bias + 1
	suffixOf  = 16 // steps of 4 tenths, from -24
	hostAt    = suffixAt + suffixOf
	hostOf    = 4
	labelAt   = hostAt + hostOf
	labelOf   = 4
	lengthAt  = labelAt + labelOf
	lengthOf  = 30 // the last four start at 26, 32, 40 and 50 characters
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
	rarityOf  = 17 // the last one means too few letters
	kindRarAt = rarityAt + rarityOf
	kindRarOf = 3 * kinds
	turnAt    = kindRarAt + kindRarOf
	turnOf    = 4
	oddAt     = turnAt + turnOf // the single properties below
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
	WordAt    = pairAt + pairOf // one feature for each word of the lexicon
)

// classes is the number of classes of bait words.
const classes = 27

// The single properties of the structure.
const (
	// Latin letters mixed with other scripts, under a suffix that is more frequent among honest names
	idnHome  = oddAt + iota
	idn      // the same under another suffix
	foreign  // only letters of other scripts
	hex      // see Build.Hex
	punycode // starts with xn- without being an internationalised label
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
	rarityOdd   = 18 // from here on, the letters are unusual neighbours
	rarityRare  = 22 // from here on, the letters look random
	fewLetters  = 5
	manyLetters = 7 // fewer may be an abbreviation
)

// MaxFeatures is an upper bound on the features of a name.
const MaxFeatures = 24 + MaxWords + 3*int(Themes) + int(Themes)*int(Themes)/2 + 2*classes

// Features appends the features of n, without the bias, to found. rarity rates its letter pairs.
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

// place appends the features of the suffix and of the labels left of the name.
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

// oddities appends the single properties of the structure, except those that are common in names of machines.
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

// fakesPunycode reports whether one of the labels starts with xn-. Real internationalised labels arrive decoded.
func fakesPunycode(labels string) bool {
	for i := 0; i+3 <= len(labels); i++ {
		if labels[i:i+3] == "xn-" && (i == 0 || labels[i-1] == '.') {
			return true
		}
	}
	return false
}

// Unusual reports whether the name has rare pairs of letters.
func (n *Name) Unusual(rarity *Rarity) bool {
	return len(n.Letters) >= fewLetters && rarity.Of(n.Letters) >= rarityOdd
}

// Mixed reports whether the name has letters both inside and outside ASCII.
func (n *Name) Mixed() bool { return n.Letters != "" && n.Length != len(n.Host.Name) }

// Place is where a name imitates a part of another address.
type Place uint8

// The places.
const (
	Nowhere   Place = iota
	Within          // inside the name, such as com- in blumen-com-wiese
	AtStart         // at the start of the name, like the end of a country's address
	ToTheLeft       // left of the name
)

// Posing returns the part of the name, or of the labels left of it, that imitates a part of another address, and where
// it is.
func (n *Name) Posing() (part string, where Place) {
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

// posing returns the feature and the text of an imitated address, or 0 and "".
func (n *Name) posing() (id int, part string) {
	if n.kind != machines {
		if part = posingToken(n.Host.Name, n.Hyphens > 0); part != "" {
			return token, part
		}
		if gluedWWW(n.Host.Name) {
			return glued, "www"
		}
	}
	if n.Hyphens > 0 && (n.kind == sites || n.kind < machines && suffix.RiskPoints(n.Host.TLD) > 0) {
		if part = posingCountry(n.Host.Name); part != "" {
			return country, part
		}
	}
	if part = posingLabel(n.Host.Subdomain); part != "" {
		return label, part
	}
	return 0, ""
}

// wording appends the features of the bait words.
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
