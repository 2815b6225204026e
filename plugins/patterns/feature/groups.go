package feature

// Group is a range of features that count the same thing.
type Group struct {
	Name string
	From int // the first feature
	Size int
	// The odds of its features lie in Least..Most, tenths of the natural logarithm. Bounds are set by judgement where
	// the rows cannot be believed: lists of honest names hold few subdomains and few of the many small honest sites on
	// shared hosts.
	Least, Most float64
	Prior       float64 // how many rows' worth of doubt a feature must outweigh
	Lure        bool    // must be backed by several sources: see the trainer
}

// Groups lists all features but the lexicon's words, in the table's order.
func Groups() []Group {
	return []Group{
		{"bias", Bias, 1, -100, 100, 0, false},
		{"suffix, by the steps of suffix.Odds up to 0", suffixAt, 7, -26, 0, 10, false},
		{"and beyond", suffixAt + 7, suffixOf - 7, 0, 16, 10, false}, // the domain layer counts risky suffixes too
		{"kind of shared host: blogs, others, the most abused, machines", hostAt, hostOf, -26, 15, 10, false},
		{"labels left of the name", labelAt, labelOf, 0, 16, 10, false},
		{"characters", lengthAt, lengthOf, -30, 20, 10, false},
		{"characters, under five steps, by kind of suffix", kindLenAt, kindLenOf, -7, 7, 100, false},
		{"digits", digitAt, digitOf, -20, 20, 10, false},
		{"a run of digits", runAt, runOf, 0, 10, 10, false},
		{"few and many digits, by kind of suffix", kindDigAt, kindDigOf, -7, 7, 100, false},
		{"up to two hyphens", hyphenAt, 3, -5, 20, 10, false},
		{"three and more", hyphenAt + 3, hyphenOf - 3, 5, 20, 10, false},
		{"hyphens, by kind of suffix", kindHyAt, kindHyOf, -7, 7, 100, false},
		{"order of letters, digits and hyphens", orderAt, orderOf, -10, 15, 30, false},
		{"rarity of letter pairs", rarityAt, rarityOf, -15, 20, 10, false},
		{"three steps of rarity, by kind of suffix", kindRarAt, kindRarOf, -7, 7, 100, false},
		{"turns from letters to digits and back", turnAt, turnOf, -10, 15, 10, false},
		{"other scripts beside Latin at home", idnHome, 1, -10, 0, 10, false}, // umlauts are no sign in Germany
		{"and elsewhere", idn, 1, -10, 12, 10, false},
		{"other scripts alone", foreign, 1, -13, 10, 10, false},
		{"hexadecimal", hex, 1, 8, 25, 10, false},
		{"false punycode", punycode, 1, 12, 25, 10, false},
		{"four parts of an address", token, 4, 8, 25, 10, false},
		{"one lure word in the name, or none", countAt, 2, -10, -4, 10, false}, // single words are honest
		{"two and more", countAt + 2, countOf - 2, 0, 30, 10, false},
		{"lure words left of it", leftAt, leftOf, -5, 15, 10, false},
		{"nothing but so many lure words", coverAt, coverOf, -5, 20, 10, false},
		{"class of a lure word", classAt, classOf, -10, 12, 10, true},
		{"theme left of the name", awayAt, awayOf, -5, 15, 30, true},
		{"theme, by kind of suffix", kindThAt, kindThOf, -12, 15, 30, true},
		{"theme beside digits", withDigAt, withDigOf, -10, 15, 30, true},
		{"theme and nothing else", wholeAt, wholeOf, -10, 15, 30, true},
		{"pair of themes", pairAt, pairOf, -10, 20, 30, true},
	}
}

// WordGroup is the group of the lexicon's words, of which there are size.
func WordGroup(size int) Group {
	return Group{"word of the lexicon, beyond its class", WordAt, size, -10, 12, 30, true}
}
