package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
)

// finding is a brand found in a name, with its points.
type finding struct {
	points int  // 0 if the match is harmless
	code   code // of the signal
	match  match

	ownedBy *brand.Brand // the owner of the domain, if the search found it
}

// Points of the findings that decide. The manifest promises that reviewPoints lead to a review and blockPoints to a
// block, whatever the style of the name.
const (
	reviewPoints = 58
	blockPoints  = 100
	baitPoints   = 20 // of the signal for bait words next to a slip
	hintPoints   = 18 // of a brand next to other words: not enough for a review, even of an address
)

// baitPoints returns the points of the signal for bait words next to a slip.
func (f *finding) baitPoints() int {
	if (f.code == codeTypo || f.code == codeTypos) && f.match.hasStrongBait() {
		return baitPoints
	}
	return 0
}

// coinedLetters is the least number of letters of a coined brand whose slips are findings. Shorter names have many
// honest neighbours.
const coinedLetters = 6

// scoreMatch scores a brand in the label next to the suffix.
func scoreMatch(h *host, m *match) finding {
	f := finding{match: *m}
	switch {
	case m.Kind() == brand.Site:
		f.scoreSite(h)
	case m.form == exact && m.isWholeLabel() && m.Kind() != brand.Short && len(m.Key) >= 5 && m.hasStrayHyphen():
		if f.set(codeHyphen, reviewPoints); m.Kind() != brand.Coined || len(m.Key) < coinedLetters {
			f.set(codeSimilar, 40)
		}
	case m.form == exact && m.Kind() != brand.Short && m.isDotlessAddress():
		if f.set(codeMissingDot, blockPoints); m.Kind() == brand.Word && len(m.Key) < 7 {
			f.set(codeSimilar, 50)
		}
	case m.form == exact:
		f.scoreExact(h)
	case m.form == misspelled:
		f.scoreTypo(h)
	case m.form == substituted:
		f.scoreSubstituted()
	default:
		f.scoreLookalike()
	}
	if h.Private && !h.OnSharedHosting() && m.form == exact && !m.isWholeLabel() && f.points > 0 {
		f.set(codeInside, 8) // developers name the services they work with
	}
	return f
}

// set sets the code and the points of f.
func (f *finding) set(code code, points int) { f.code, f.points = code, points }

// scoreExact scores a brand spelled letter for letter. The points of a name that joins a brand with other words depend
// on how much more often reported names do so than honest ones.
func (f *finding) scoreExact(h *host) {
	m, r := &f.match, &f.match.around
	letters, strong := len(m.Key), m.hasStrongBait()
	f.code = codeInside
	switch {
	case m.isWholeLabel():
		f.scoreOtherSuffix(h)
	case m.Kind() == brand.Short:
		switch {
		case !m.delimited:
			if m.isGluedToBait() && !m.namesBank(h) && (!wordlist.Has(shortWords, m.Key) ||
				m.startsToken() && (wordlist.Has("evri gls irs ups ", m.Key) || // the others begin other words
					wordlist.Has("ing xbox ", m.Key) && r.classes&(bait.Login|bait.Verify|bait.Account) != 0)) {
				f.set(codeCombined, reviewPoints)
			}
		case strong && (r.onlyBait || !wordlist.Has(shortWords, m.Key)) && !m.namesBank(h):
			f.set(codeCombined, reviewPoints)
		default:
			f.points = 12
		}
	case m.Kind() == brand.Word:
		switch {
		case strong && m.delimited && (r.onlyBait || r.strong > 1):
			f.set(codeCombined, reviewPoints)
		case strong && r.onlyBait && letters >= 6, strong && m.delimited:
			f.points = 30
		case m.delimited, strong && letters >= 6 && h.OnSharedHosting():
			f.points = 15
		}
	case m.isMostlyGeneric() && !m.startsToken(): // as mbank in combank
	case strong && r.strong > 1 && letters >= coinedLetters && (r.onlyBait || m.delimited):
		f.set(codeBaitWords, blockPoints)
	case strong && m.namesBank(h): // not enough for a review, even of an address
		f.points = 18
	case strong && (r.onlyBait || m.delimited || letters >= 7 || m.isGluedToBait()):
		f.set(codeCombined, reviewPoints)
	case m.delimited && m.isDistinctive() && !m.isFederated(h):
		f.set(codeBeside, reviewPoints)
	case r.onlyBait && (r.classes&weakBait != 0 || m.delimited || letters >= 6):
		f.points = 28
	case m.delimited:
		f.points = 22
	case keyEditLimit(m.Key) == 0: // short apart from a common ending, as atmobile in jsatmobile
	case isOrdinary(m.label):
	case letters >= 8, letters >= 6 && (m.start == 0 || m.end == len(m.label)):
		f.points = 9
	}
}

// shortWords are short brands that are also words or common abbreviations.
const shortWords = "" +
	"aeon bell bing boi cox cra eon evri fnac gls ing irs juno keds lido nab payu puma shaw teva " +
	"ugg ups vans visa wise xbox yeti zoom "

// isDistinctive reports whether hardly any honest names except the owner's contain the brand as a separate word.
func (m *match) isDistinctive() bool {
	return m.Kind() == brand.Coined && len(m.Key) >= coinedLetters && !isOrdinary(m.Key) &&
		!wordlist.Has(widelyNamed, m.Key)
}

// widelyNamed are coined brands that shops, fans and developers put into the names of their own sites.
const widelyNamed = "" +
	"allianz atlassian cloudflare github iphone minecraft mozilla nintendo salesforce societegenerale wikipedia "

// namedInHosts are further distinctive brands that companies name their servers after.
const namedInHosts = "hubspot mailchimp office365 sharepoint tumblr "

// isFederated reports whether the brand is shared by independent banks, each with a name and a domain of its own in
// their countries.
func (m *match) isFederated(h *host) bool {
	return wordlist.Has("raiffeisen sparkasse ", m.Key) && wordlist.Has("at ch de it li lu ", h.TLD) && !h.Private
}

// namesBank reports whether the only bait next to a brand says that it is a bank, as in bancosantander.es, under a
// suffix that fraud rarely uses. Banks and their branches are named so, and some have the name of a brand of another
// trade, as GLS Bank has.
func (m *match) namesBank(h *host) bool {
	r := &m.around
	if r.classes&strongBait != bait.Bank || r.strong > r.count || h.Private || suffix.IsRisky(h.TLD) {
		return false
	}
	for _, word := range r.words[:r.count] {
		if !wordlist.Has(bankNames, m.label[word.from:word.to]) {
			return false
		}
	}
	return true
}

// bankNames are the bait words that a bank has in its name. The others are its tools, such as pushtan.
const bankNames = "" +
	"banca banche banco bank banka banken bankieren banking banks banque banques caisse internetbanking netbank " +
	"netbanking onlinebanking raiffeisen sparkasse volksbank "

// scoreSubstituted scores a brand with digits or non-ASCII letters in place of its own.
func (f *finding) scoreSubstituted() {
	m := &f.match
	letters, glued := len(m.Key), !m.delimited
	f.code = codeLookalike
	if m.foreign {
		f.code = codeHomograph
	}
	switch {
	case letters < 5 && m.foreign && m.isWholeLabel() && !m.isWordWithAccent():
		f.points = blockPoints
	case m.Kind() == brand.Short:
		if m.delimited && m.hasStrongBait() && m.around.onlyBait {
			f.set(codeSimilar, 45)
		}
	case m.Kind() == brand.Word && glued, letters < 5, glued && letters < 6:
	case letters < 6 && m.changes > 1 && !m.foreign:
	case m.foreign && !(glued && m.Kind() == brand.Word):
		f.points = blockPoints
	case glued && letters < 8:
		f.set(codeSimilar, 50)
	default:
		f.points = blockPoints
	}
}

// isWordWithAccent reports whether a vowel has an accent in a brand that is also a word, as in über.
func (m *match) isWordWithAccent() bool {
	r, _ := utf8.DecodeRuneInString(m.mine)
	_, how := asASCII(r)
	return how == accented && isVowel(m.theirs[0]) &&
		(m.Kind() == brand.Word || wordlist.Has(shortWords, m.Key) || wordlist.Has("nike uber ", m.Key))
}

// scoreLookalike scores a brand with other Latin letters in place of its own.
func (f *finding) scoreLookalike() {
	m := &f.match
	letters := len(m.Key)
	switch {
	case m.Kind() == brand.Coined && m.delimited && letters >= coinedLetters && letters < 8 && m.changes > 1 &&
		typoOf(m.written(), m.Key).kind == swapped: // netfilx, because i and l look alike
		f.set(codeTypo, reviewPoints)
	case m.Kind() == brand.Short || letters < 5 || isOrdinary(m.written()) || letters < 8 && m.changes > 1:
	case m.Kind() == brand.Word:
		if m.delimited && letters >= 6 {
			f.set(codeSimilar, 40)
		}
	case !m.delimited:
		if letters >= 8 {
			f.set(codeSimilar, 50)
		}
	case letters >= coinedLetters:
		f.set(codeLookalike, blockPoints)
	default:
		f.set(codeSimilar, 50)
	}
}

// scoreSite scores the label of a well-known site, which matches only as a whole.
func (f *finding) scoreSite(h *host) {
	m := &f.match
	switch {
	case m.form == exact && m.isDotlessAddress():
		f.set(codeSiteMissingDot, reviewPoints)
	case m.form == exact && m.isWholeLabel():
		if !h.Private {
			f.scoreSuffixTypo(h)
		}
	case m.form == exact:
	case !m.isWholeLabel() && !m.isDotlessAddress():
	case m.form != misspelled:
		f.set(codeSimilar, 50)
		if m.foreign {
			f.set(codeHomograph, blockPoints)
		} else if len(m.Key) >= 7 {
			f.set(codeLookalike, blockPoints)
		}
	default:
		f.scoreTypo(h)
	}
}

// scoreTypo scores a misspelling. One slip of a coined brand is a finding if it is the whole label, or a part of it
// with enough evidence. Other misspellings only resemble a brand.
func (f *finding) scoreTypo(h *host) {
	m := &f.match
	letters, baited := len(m.Key), m.hasStrongBait()
	written := m.written()
	likely := m.edits == 1 && m.typo.likely
	sameFirst := written[0] == m.Key[0]
	sameLast := written[len(written)-1] == m.Key[letters-1]
	f.code = codeSimilar
	switch {
	case m.Kind() == brand.Word || m.Kind() == brand.Site && isOrdinary(m.Key):
		switch {
		case !likely || letters < 6:
		case m.Kind() == brand.Word && m.delimited && !m.typo.multiple && !m.isNumbered() &&
			(!h.Private || h.OnSharedHosting()) &&
			(m.typo.kind == swapped || m.typo.kind == doubled || m.typo.kind == extra && sameFirst):
			f.set(codeTypo, reviewPoints) // no word has such a slip
		case h.OnSharedHosting(), baited:
			f.points = 34
		case letters >= 8 && sameFirst && m.isWholeLabel():
			f.points = 28
		}
	case m.edits == 1 && m.isOtherName():
	case letters < 8 && m.isSplitByHyphen(), !likely && len(m.label) <= 10 && strings.Contains(written, "-"):
		// two words that resemble the name by chance
	case m.edits == 1 && letters < coinedLetters:
		if sameFirst && (m.delimited && likely || baited) {
			f.points = 28
		}
	case m.edits == 1 && m.typo.multiple && !likely && letters < 8: // two letters differ as written
	case m.edits == 1 && m.typo.multiple && letters < 8, m.edits == 1 && m.isNumbered():
		f.points = 15
	case m.edits == 1 && !likely && m.typo.multiple && letters < 12:
		f.points = 15
	case m.edits == 1 && m.Kind() == brand.Site:
		switch {
		case letters >= 7 && (likely || letters >= 9):
			f.set(codeTypo, reviewPoints)
		case likely, sameFirst:
			f.points = 28
		}
	case m.edits == 1:
		switch {
		case !m.delimited && !baited && (letters < 8 || !likely && !sameFirst):
		case letters == coinedLetters && !likely && !baited:
			f.points = 28
		default:
			f.set(codeTypo, reviewPoints)
		}
	case m.Kind() == brand.Site && strings.Contains(written, "-") && strings.IndexByte(m.Name, '-') < 0:
		// two words that resemble the name by chance
	case !sameFirst || !sameLast && !baited:
	case strings.Count(written, "-") > 1 && m.isSplitByHyphen(): // as dhl-in-motion, like dailymotion
		f.points = 11
	case m.edits == 2 && letters >= 11 && m.Kind() == brand.Coined:
		f.set(codeTypos, reviewPoints)
	case m.edits == 2 && letters >= 11:
		f.points = 11
	default:
		f.points = 22
	}
}

// scoreOtherSuffix scores a label that is exactly the brand, under a suffix where the brand is not known to own it.
func (f *finding) scoreOtherSuffix(h *host) {
	m := &f.match
	f.code = codeSuffix
	switch {
	case !h.Private && m.Kind() != brand.Short && suffix.TypoPoints(h.Suffix) > 0:
		if f.scoreSuffixTypo(h); m.Kind() == brand.Word {
			f.set(codeSuffix, 15)
		}
	case brand.IsMoney(m.number) && len(h.TLD) == 2 && !h.Private && !wordlist.Has(soldSuffixes, h.TLD):
		f.points = 11 // large banks have branches in many small countries
	case (!h.Private || wordlist.Has(soldPrivately, h.Suffix)) && m.isDistinctive():
		f.set(codeElsewhere, reviewPoints)
	case m.Kind() == brand.Short, h.Private && !h.OnSharedHosting():
	case m.Kind() == brand.Word:
		f.points = 18 // not enough for a review, even of an address
	default:
		f.points = 28
	}
}

// soldSuffixes are suffixes of countries that are sold to anyone, because they spell something or are cheap.
const soldSuffixes = "ac ag ai am as bz cc cd fm gg im io la ly me ms nu pw sc sh so st su tf tk tm to tv vc vg wf ws "

// soldPrivately are private suffixes under which registrars sell names as under those of registries (centralnic.com).
const soldPrivately = "" +
	"ae.org africa.com ar.com br.com cn.com co.com co.nl com.de com.se de.com eu.com gb.com gb.net gr.com hu.com " +
	"hu.net in.net jp.net jpn.com kr.com mex.com no.com qc.com ru.com sa.com se.com se.net uk.com uk.net us.com " +
	"us.org uy.com za.bz za.com "

// isSuffixSlip reports whether suffix is com, org or net without one of its letters.
func isSuffixSlip(s string) bool { return suffix.TypoPoints(s) > 0 }

// scoreSuffixTypo scores a label that is exactly a brand or site under .cm, .om, .ne or .co.
func (f *finding) scoreSuffixTypo(h *host) {
	switch points := suffix.TypoPoints(h.Suffix); {
	case points > 60:
		f.set(codeSuffixTypo, reviewPoints)
	case points > 0:
		f.set(codeSuffix, 15)
	}
}

// scoreSubdomainMatch scores a brand in a label left of the registrable domain. after holds the labels between the two.
// Companies name their servers after the software and the services on them, so a brand's name there counts in an
// address of the brand, next to bait words or disguised, and by itself or with one slip only if it is distinctive.
func scoreSubdomainMatch(h *host, m *match, after string) finding {
	f := finding{match: *m}
	following := h.Name
	if after != "" {
		following = after
	}
	strong := m.hasStrongBait() || baitClasses(h.Name)&(strongBait&^bait.Support) != 0 &&
		!h.customer
	named := m.isWholeLabel() && m.isDistinctive() && !m.isFederated(h) && !h.customer &&
		!wordlist.Has(namedInHosts, m.Key)
	switch {
	case m.Kind() == brand.Site && m.form != exact, m.form == misspelled && !(named && m.typo.likely):
		// names of machines resemble others by chance
	case m.form != exact:
		f = scoreMatch(h, m)
	case m.isWholeLabel() && continuesAddress(m.Brand, following, after == ""):
		f.set(codeAddressInside, blockPoints)
	case m.Kind() <= brand.Word && len(m.Key) >= coinedLetters && m.fillsAddress(0, len(m.label)):
		f.set(codeMissingDot, blockPoints)
	case (m.Kind() == brand.Coined && m.delimited || m.Kind() != brand.Site && m.isWholeLabel()) && strong, named:
		f.set(codeSubdomain, reviewPoints)
	}
	return f
}

// baitClasses returns the classes of all bait words in label.
func baitClasses(label string) bait.Class {
	var space [16]bait.Match
	var all bait.Class
	for _, f := range bait.Find(label, space[:0]) {
		all |= f.Class
	}
	return all
}
