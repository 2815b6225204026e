package eval

import (
	"cmp"
	"maps"
	"slices"

	"assay/host/check"
	"assay/host/entity"
	"assay/sdk"
)

// Rate is a share as a count, with its 95% interval by Wilson.
type Rate struct {
	Count    int      `json:"count"`
	N        int      `json:"n"`
	Share    Number   `json:"share"`
	Interval Interval `json:"interval"`
}

func rate(count, n int) Rate { return Rate{count, n, share(count, n), Wilson(count, n)} }

// verdicts counts rows by verdict.
type verdicts struct {
	n      int
	review int // or block
	block  int
}

func (v *verdicts) add(verdict check.Verdict) {
	v.n++
	if verdict == check.Block {
		v.block++
	}
	if verdict != check.Allow {
		v.review++
	}
}

// entry returns the value of a key in a map, and adds an empty one if the key is missing.
func entry[K comparable, V any](m map[K]*V, key K) *V {
	if m[key] == nil {
		m[key] = new(V)
	}
	return m[key]
}

// FalsePositives are the benign rows of a group that are reviewed or blocked.
type FalsePositives struct {
	Group  string `json:"group"`
	Review Rate   `json:"review_or_block"`
	Block  Rate   `json:"block"`
}

// A suffix counts from this number of benign rows on: with fewer, one row is more than 2%.
const minSuffixRows = 50

// topRank is the last rank of the sites that should hardly ever be flagged.
const topRank = 1000

// falsePositives returns the benign rows flagged by group, the most flagged first. Rows of the group "" are left out,
// and so are groups of fewer than atLeast rows.
func falsePositives(bands check.Bands, rows []*Scored, atLeast int, group func(*Scored) string) []FalsePositives {
	byGroup := map[string]*verdicts{}
	for _, s := range rows {
		name := group(s)
		if s.Malicious || name == "" {
			continue
		}
		entry(byGroup, name).add(bands.Verdict(s.Score))
	}
	all := []FalsePositives{}
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		if c := byGroup[name]; c.n >= atLeast {
			all = append(all, FalsePositives{name, rate(c.review, c.n), rate(c.block, c.n)})
		}
	}
	slices.SortStableFunc(all, func(a, b FalsePositives) int { return cmp.Compare(b.Review.Share, a.Review.Share) })
	return all
}

// bySuffix groups rows by public suffix.
func bySuffix(s *Scored) string {
	if s.suffix == "" {
		return ""
	}
	return "." + s.suffix
}

// byTopRank groups the most popular sites together.
func byTopRank(s *Scored) string {
	if s.Rank < 1 || s.Rank > topRank {
		return ""
	}
	return "rank 1 to 1,000"
}

// Threats counts how often flagged malicious rows get the right threat.
type Threats struct {
	// mean of the categories' shares, each of which counts the same however many rows it has
	MacroRecall Number           `json:"macro_recall"`
	Categories  []CategoryThreat `json:"categories"`
}

// CategoryThreat counts the threats that the flagged rows of one category are given.
type CategoryThreat struct {
	Category string       `json:"category"`
	Want     []sdk.Threat `json:"want"`
	Right    Rate         `json:"right"` // of the flagged rows: an allowed one has no threat
	Scam     int          `json:"scam"`  // named "scam" although another threat is right: unspecific, but not wrong
	Wrong    int          `json:"wrong"` // named another category, or none
}

// wantedThreats holds the threats that are right for categories of labelled rows that are not named like a threat
// themselves. Categories that do not name a crime, such as suspicious registrations, are not in it.
var wantedThreats = map[string][]sdk.Threat{
	"crypto":                 {sdk.InvestmentScam},
	"fake_shop":              {sdk.Scam},
	"discord_scam":           {sdk.Scam, sdk.Phishing},
	"typosquat":              {sdk.Impersonation, sdk.Phishing},
	"typo_provider":          {sdk.FakeIdentity, sdk.Impersonation},
	"invalid_number":         {sdk.FakeIdentity},
	"fictional_number":       {sdk.FakeIdentity},
	"premium_rate":           {sdk.TollFraud},
	"iprn":                   {sdk.TollFraud},
	"telemarketing_range":    {sdk.Spam},
	"reported_spam":          {sdk.Spam},
	"national_check_invalid": {sdk.FakeIdentity},
	"unknown_bank_code":      {sdk.FakeIdentity},
	"check_digit_typo":       {sdk.FakeIdentity},
	"check_transposition":    {sdk.FakeIdentity},
	"wrong_length":           {sdk.FakeIdentity},
	"wrong_structure":        {sdk.FakeIdentity},
	"non_iban_country":       {sdk.FakeIdentity},
}

// threats returns the threats that flagged malicious rows of known categories are given, or nil if there are none.
func threats(bands check.Bands, rows []*Scored) *Threats {
	type counts struct{ n, right, scam int }
	byCategory := map[string]*counts{}
	want := func(category string) []sdk.Threat {
		if t := sdk.Threat(category); t.Published() {
			return []sdk.Threat{t}
		}
		return wantedThreats[category]
	}
	for _, s := range rows {
		wanted := want(s.Category)
		if !s.Malicious || len(wanted) == 0 || bands.Verdict(s.Score) == check.Allow {
			continue
		}
		c := entry(byCategory, s.Category)
		c.n++
		switch named := sdk.Threat(s.Threat); {
		case slices.Contains(wanted, named):
			c.right++
		case named == sdk.Scam:
			c.scam++
		}
	}
	if len(byCategory) == 0 {
		return nil
	}
	t := &Threats{}
	for _, name := range slices.Sorted(maps.Keys(byCategory)) {
		c := byCategory[name]
		t.Categories = append(t.Categories, CategoryThreat{Category: name, Want: want(name), Right: rate(c.right, c.n),
			Scam: c.scam, Wrong: c.n - c.right - c.scam})
		t.MacroRecall += share(c.right, c.n) / Number(len(byCategory))
	}
	return t
}

// heldOut counts the rows with a held-out score, by layer.
func heldOut(rows []*Scored) map[string]int {
	n := map[string]int{}
	for _, s := range rows {
		for layer := range s.HeldOut {
			n[layer]++
		}
	}
	return n
}

// lettersOf returns what an entity shares with entities that are made alike: the first six letters of the registrable
// name or, for phone numbers and IBANs, of the value. An email address has the letters of its mail domain.
func lettersOf(e entity.Entity) string {
	return Letters(cmp.Or(e.Facts["domain.name"], e.Facts["domain.ascii"], e.Value))
}

// Letters returns the first six letters of a name. Names that share them are often of one campaign.
func Letters(name string) string {
	const shared = 6
	if runes := []rune(name); len(runes) > shared {
		return string(runes[:shared])
	}
	return name
}
