package feature

// Group is a range of features that measure the same property.
type Group struct {
	Name string
	From int // the first feature
	Size int
	// Bounds of the learned odds, in tenths of the natural logarithm. They are set by hand where the rows are biased:
	// lists of honest names have few subdomains and few small sites on shared hosts.
	Min, Max float64
	Prior    float64 // strength of the pull towards 0, in rows
	Bait     bool    // several sources must support the odds, see the trainer
}

// Groups lists all features except the words of the lexicon, in the order of the table.
func Groups() []Group {
	return []Group{
		{"bias", Bias, 1, -100, 100, 0, false},
		{"suffix, by steps of suffix.Odds up to 0", suffixAt, 7, -26, 0, 10, false},
		// Bounded, because the domain layer scores risky suffixes too.
		{"suffix, by steps of suffix.Odds above 0", suffixAt + 7, suffixOf - 7, 0, 16, 10, false},
		{"kind of shared host: blogs, others, the most abused, machines", hostAt, hostOf, -26, 15, 10, false},
		{"labels left of the name", labelAt, labelOf, 0, 16, 10, false},
		{"length", lengthAt, lengthOf, -30, 20, 10, false},
		{"length in five steps, by kind of suffix", kindLenAt, kindLenOf, -7, 7, 100, false},
		{"digits", digitAt, digitOf, -20, 20, 10, false},
		{"a run of digits", runAt, runOf, 0, 10, 10, false},
		{"few and many digits, by kind of suffix", kindDigAt, kindDigOf, -7, 7, 100, false},
		{"up to two hyphens", hyphenAt, 3, -5, 20, 10, false},
		{"three or more hyphens", hyphenAt + 3, hyphenOf - 3, 5, 20, 10, false},
		{"hyphens, by kind of suffix", kindHyAt, kindHyOf, -7, 7, 100, false},
		{"order of letters, digits and hyphens", orderAt, orderOf, -10, 15, 30, false},
		{"rarity of letter pairs", rarityAt, rarityOf, -15, 20, 10, false},
		{"three steps of rarity, by kind of suffix", kindRarAt, kindRarOf, -7, 7, 100, false},
		{"changes between letters and digits", turnAt, turnOf, -10, 15, 10, false},
		// Not above 0, because umlauts are normal in Germany.
		{"Latin mixed with other scripts, under a country's suffix", idnHome, 1, -10, 0, 10, false},
		{"Latin mixed with other scripts, under another suffix", idn, 1, -10, 12, 10, false},
		{"only other scripts", foreign, 1, -13, 10, 10, false},
		{"hexadecimal", hex, 1, 8, 25, 10, false},
		{"false punycode", punycode, 1, 12, 25, 10, false},
		{"four parts of an address", token, 4, 8, 25, 10, false},
		// Below 0, because single bait words are common in honest names.
		{"no bait word in the name, or one", countAt, 2, -10, -4, 10, false},
		{"two or more bait words", countAt + 2, countOf - 2, 0, 30, 10, false},
		{"bait words left of the name", leftAt, leftOf, -5, 15, 10, false},
		{"number of bait words in a name of nothing else", coverAt, coverOf, -5, 20, 10, false},
		{"class of a bait word", classAt, classOf, -10, 12, 10, true},
		{"theme left of the name", awayAt, awayOf, -5, 15, 30, true},
		{"theme, by kind of suffix", kindThAt, kindThOf, -12, 15, 30, true},
		{"theme with digits", withDigAt, withDigOf, -10, 15, 30, true},
		{"theme in a name of nothing but bait words", wholeAt, wholeOf, -10, 15, 30, true},
		{"pair of themes", pairAt, pairOf, -10, 20, 30, true},
	}
}

// WordGroup returns the group of the words of the lexicon, size of them.
func WordGroup(size int) Group {
	return Group{"word of the lexicon, beyond its class", WordAt, size, -10, 12, 30, true}
}
