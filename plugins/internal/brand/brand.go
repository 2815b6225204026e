// Package brand holds the brands and well-known sites that fraud imitates, with their owners' domains, and finds the
// owner of a domain. Finding imitations is up to the domain and email layers.
package brand

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
)

// Kind says how distinctive a brand's key is, which decides where in a label it may match.
type Kind byte

// The kinds of brands.
const (
	Coined Kind = iota // a made-up word of at least five letters, distinctive even inside longer words
	Word               // also an ordinary word or a surname, so it needs further evidence, such as bait words
	Short              // up to four letters, so it matches only between hyphens, digits or ends of the label
	Site               // a well-known site, which matches only as a whole
)

// Flags that the tables add to a kind, for brands whose support desks fraud imitates in the local parts of email
// addresses, as in paypal-support@. Only the email layer uses them.
const (
	Desk      Kind = 1 << (6 + iota) // the key matches next to any other words
	DeskAlone                        // the key matches only if all other words are service words, such as support
	flags     = Desk | DeskAlone
)

// Brand is a brand that fraud imitates. A brand with several spellings has several entries.
type Brand struct {
	Key     string // the spelling in labels: lower-case ASCII letters and digits
	Name    string // as the owner writes it
	kind    Kind   // with flags
	Domains string // patterns of the owner's domains, separated by white space; see RelationTo
}

// Kind returns the brand's kind without flags.
func (b *Brand) Kind() Kind { return b.kind &^ flags }

// Desk returns the flag Desk or DeskAlone, or 0 if the brand has neither.
func (b *Brand) Desk() Kind { return b.kind & flags }

// brandsFile holds the brands, a line each, from general knowledge of the names in phishing reports and of their
// owners' domains.
//
//go:embed brands.txt
var brandsFile string

// brands holds every brand, first the ones for which IsMoney is true. money is their number.
var brands, money = parseBrands(brandsFile)

// parseBrands reads brandsFile: sections, the first of which is money, and lines of four fields.
func parseBrands(text string) (all []Brand, money int) {
	all = make([]Brand, 0, strings.Count(text, "\n"))
	sections := 0
	for line := range strings.Lines(text) {
		key, rest, ok := strings.Cut(line, " | ")
		if !ok {
			if line[0] == '[' {
				sections++
			}
			continue
		}
		if sections == 1 {
			money++
		}
		name, rest, _ := strings.Cut(rest, " | ")
		kinds, domains, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " | ")
		b := Brand{Key: key, Name: name, Domains: domains}
		for kind := range strings.FieldsSeq(kinds) {
			b.kind |= kindNames[kind]
		}
		all = append(all, b)
	}
	return all, money
}

// kindNames are the kinds and flags as brandsFile spells them.
var kindNames = map[string]Kind{"coined": Coined, "word": Word, "short": Short, "desk": Desk, "desk-alone": DeskAlone}

// Count returns the number of brands, without sites.
func Count() int { return len(brands) }

// At returns the brand with index i, from 0 to Count()-1. Callers must not modify it.
func At(i int) *Brand { return &brands[i] }

// IsMoney reports whether the brand with index i, as in At, is a bank, a payment service, an insurer or tax software.
func IsMoney(i int) bool { return i < money }

// Relation is how a domain is related to a brand.
type Relation byte

// Relations between a domain and a brand.
const (
	Unrelated Relation = iota
	Plausible          // named like the brand's own domains, but anyone could have registered it
	Owned              // one of the brand's own domains
)

// RelationTo returns the relation between h and b. Each pattern in b.Domains is a registrable domain or a full host
// name. A final ".*" stands for com, net, org and the suffixes of the largest markets, where brands that trade there
// hold their name (isMarket), and ".**" for those of nearly all countries. Under any other suffix anybody can register
// the name. Any other "*" stands for letters that local branches choose, which makes the domain Plausible.
func (b *Brand) RelationTo(h *suffix.Host) Relation {
	best := Unrelated
	for pattern, rest := nextWord(b.Domains); pattern != ""; pattern, rest = nextWord(rest) {
		best = max(best, matchPattern(h, pattern))
	}
	return best
}

// OwnsUnder reports whether b owns its key under a suffix that begins with label, as in co for paypal.co.uk.
func (b *Brand) OwnsUnder(label string) bool {
	for pattern, others := nextWord(b.Domains); pattern != ""; pattern, others = nextWord(others) {
		if rest, ok := strings.CutPrefix(pattern, b.Key+"."); ok &&
			(rest == label || strings.HasPrefix(rest, label+".")) {
			return true
		}
	}
	return false
}

// cutMarkets returns pattern without a final ".*" or ".**", and that ending.
func cutMarkets(pattern string) (stem, ending string) {
	for _, ending := range [...]string{".**", ".*"} {
		if stem, ok := strings.CutSuffix(pattern, ending); ok {
			return stem, ending
		}
	}
	return pattern, ""
}

// matchPattern returns the relation that one pattern of Brand.Domains gives h.
func matchPattern(h *suffix.Host, pattern string) Relation {
	stem, list := cutMarkets(pattern)
	if list == "" {
		if pattern == h.ASCII || glob(pattern, h.Registrable) {
			return patternRelation(pattern)
		}
		return Unrelated
	}
	name := len(h.Registrable) - len(h.Suffix) - 1
	if h.Private || name <= 0 || !glob(stem, h.Registrable[:name]) {
		return Unrelated
	}
	if !isMarket(h.Suffix) && !(list == ".**" && wordlist.Has(smallMarkets, h.Suffix)) {
		return Unrelated
	}
	return patternRelation(stem)
}

// isMarket reports whether brands that trade everywhere hold their name under suffix: com, net and org, and the
// countries with the largest markets. Anybody can register names under most of these too, but the brands were first.
func isMarket(suffix string) bool {
	if strings.IndexByte(suffix, '.') >= 0 {
		return wordlist.Has(secondLevelMarkets, suffix)
	}
	return wordlist.Has(markets, suffix) || strings.HasPrefix(suffix, "xn--fiq") // China
}

// The markets leave out suffixes that are sold for what they spell, such as cc, me and to, and those where brands
// seldom hold their name, such as ge. smallMarkets are the other countries.
const (
	markets = "" +
		"ae ar at au be bg br ca ch cl cn com cz de dk es eu fi fr gr hk hr hu id ie il in it jp kr lt lu lv " +
		"mx my net nl no nz org pe ph pl pt ro ru sa se sg si sk th tr tw ua uk us vn za "
	secondLevelMarkets = "" +
		"co.id co.il co.in co.jp co.kr co.nz co.th co.uk co.za com.ar com.au com.br com.cn com.co com.eg " +
		"com.hk com.mx com.my com.pe com.ph com.pl com.sa com.sg com.tr com.tw com.ua com.vn ne.jp "
	smallMarkets = "" +
		"al ba bd bh bo by cat co.ao co.bw co.ck co.cr co.ke co.ls co.ma co.mz co.tz co.ug co.uz co.ve co.vi " +
		"co.zm co.zw com.af com.ag com.bd com.bh com.bn com.bo com.by com.bz com.cu com.cy com.do com.ec " +
		"com.ee com.es com.et com.fj com.gh com.gi com.gr com.gt com.hn com.hr com.jm com.jo com.kh com.kw " +
		"com.lb com.lv com.ly com.mm com.mt com.na com.ng com.ni com.np com.om com.pa com.pg com.pk com.pr " +
		"com.pt com.py com.qa com.ro com.sb com.sl com.sv com.tj com.tn com.uy com.vc com.ve cr dz ee gt hn " +
		"iq is jo ke kg kz lk ma md mt ng ni pa pk pr ps qa rs rw sn sv tn uy uz "
)

// patternRelation returns the relation of a domain that matches pattern.
func patternRelation(pattern string) Relation {
	if strings.Contains(pattern, "*") {
		return Plausible
	}
	return Owned
}

// glob reports whether s matches a pattern in which each "*" stands for any number of bytes other than dots.
func glob(pattern, s string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, before) {
		return false
	}
	for s = s[len(before):]; ; s = s[1:] {
		if glob(after, s) {
			return true
		}
		if s == "" || s[0] == '.' {
			return false
		}
	}
}

// nextWord returns the first word of text, or "", and the text after it.
func nextWord(text string) (word, rest string) {
	start := 0
	for start < len(text) && text[start] <= ' ' {
		start++
	}
	end := start
	for end < len(text) && text[end] > ' ' {
		end++
	}
	return text[start:end], text[end:]
}
