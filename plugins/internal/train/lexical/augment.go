package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
)

// addBrands treats a word as a brand that phishers imitate if it occurs in enough bad pool names, of enough families.
const (
	minBrandRows     = 6
	minBrandFamilies = 3
	minBrandLength   = 5 // letters
	maxBrandLength   = 20
)

// brandWeight is the training weight of a brand's row, relative to the pool's average row.
const brandWeight = 5

// addBrands appends a good row BRAND.com for each imitated brand, unless the pool contains that domain. Reports name
// many imitations of a brand and rarely its own site, which would otherwise score like the sum of its imitations.
// Target rows are ignored, so that no test data leaks into training.
func addBrands(rows []row) []row {
	type use struct {
		rows     int
		families map[string]bool
	}
	uses, known := map[string]*use{}, map[string]bool{}
	for _, r := range rows {
		if r.Target {
			continue
		}
		known[r.Site] = true
		if !r.Malicious {
			continue
		}
		for _, word := range brandWords(r.address.Name) {
			u := uses[word]
			if u == nil {
				u = &use{families: map[string]bool{}}
				uses[word] = u
			}
			u.rows++
			u.families[r.Family] = true
		}
	}
	for _, word := range slices.Sorted(maps.Keys(uses)) {
		u := uses[word]
		if u.rows < minBrandRows || len(u.families) < minBrandFamilies || known[word+".com"] {
			continue
		}
		rows = append(rows, newRow(&train.Domain{Synthetic: true, Host: suffix.Host{Name: word, Suffix: "com",
			TLD: "com"}}))
	}
	return rows
}

// brandWords returns the words of a name, split at hyphens and digits, that are as long as brands.
func brandWords(name string) []string {
	words := strings.FieldsFunc(name, func(c rune) bool { return c == '-' || c >= '0' && c <= '9' })
	return slices.DeleteFunc(words, func(w string) bool { return len(w) < minBrandLength || len(w) > maxBrandLength })
}

// Lists of good sites rarely contain sites on shared hosts, and reports contain many. Without synthetic good rows,
// every site under vercel.app or weebly.com would be suspicious because of its host.
const (
	goodHostShare = 0.5 // minimum weight of the good rows on a shared host, relative to the bad ones
	maxHostRows   = 400 // synthetic rows per shared host
)

// addSharedHosts appends good rows on every shared host with bad pool rows, under the names of good pool rows. They are
// never tested, and their sites differ from those of all given rows.
func addSharedHosts(rows []row) []row {
	hosts := map[string]ngram.Address{} // the address of a bad row on each
	bad := map[string]int{}
	known := make(map[string]bool, len(rows))
	var named []row
	for _, r := range rows {
		known[r.Site] = true
		switch {
		case r.Target || r.Synthetic:
		case r.Malicious && r.address.Hosted:
			hosts[r.address.Suffix] = r.address
			bad[r.address.Suffix]++
		case !r.Malicious && !r.address.Hosted:
			named = append(named, r)
		}
	}
	if len(named) == 0 {
		return rows
	}
	slices.SortFunc(named, func(a, b row) int {
		return cmp.Or(cmp.Compare(train.Hash(a.Site), train.Hash(b.Site)), cmp.Compare(a.Site, b.Site))
	})
	next := 0
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		for range min(bad[host], maxHostRows) {
			from := named[next%len(named)]
			next++
			site := from.address.Name + "." + host
			if known[site] {
				continue
			}
			rows = append(rows, newRow(&train.Domain{Synthetic: true, Site: site, Source: from.Source, Hosted: true,
				Host: suffix.Host{Name: from.address.Name, Suffix: host, TLD: hosts[host].TLD, Private: true}}))
		}
	}
	return rows
}

// weighSharedHosts sets the weights of the synthetic rows on shared hosts, so that the good rows on each host weigh at
// least goodHostShare of the bad ones.
func weighSharedHosts(rows []row) {
	type sums struct{ bad, good, synthetic float64 }
	hosts := map[string]*sums{}
	for _, r := range rows {
		if !r.address.Hosted {
			continue
		}
		s := hosts[r.address.Suffix]
		if s == nil {
			s = &sums{}
			hosts[r.address.Suffix] = s
		}
		switch {
		case r.Synthetic:
			s.synthetic++
		case r.Malicious:
			s.bad += float64(r.Weight)
		default:
			s.good += float64(r.Weight)
		}
	}
	for _, r := range rows {
		if r.Synthetic && r.address.Hosted {
			s := hosts[r.address.Suffix]
			r.Weight = float32(max(goodHostShare*s.bad-s.good, 0) / s.synthetic)
		}
	}
}

// maxSuffixRatio bounds the weight of the bad rows under a suffix, relative to its good ones, because lists of honest
// sites hardly know the small ones that young suffixes are full of. suffixPrior is added to the good rows' weight.
const (
	maxSuffixRatio = 8
	suffixPrior    = 20
)

// boundSuffixes lowers the weights of bad rows under suffixes with too few good ones.
func boundSuffixes(rows []row) {
	good, bad := map[string]float64{}, map[string]float64{}
	for _, r := range rows {
		switch {
		case r.address.Hosted:
		case r.Malicious:
			bad[r.address.TLD] += float64(r.Weight)
		default:
			good[r.address.TLD] += float64(r.Weight)
		}
	}
	for _, r := range rows {
		if ratio := bad[r.address.TLD] / (good[r.address.TLD] + suffixPrior); r.Malicious && !r.address.Hosted &&
			ratio > maxSuffixRatio {
			r.Weight *= float32(maxSuffixRatio / ratio)
		}
	}
}
