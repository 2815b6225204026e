package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/train"
	"assay/plugins/lexical/pattern"
)

// The layer's scale of points: an uninformative name has 0, and its range is that of the manifest.
const (
	perUnit    = 30 // points per unit of log-odds
	lowest     = -80
	lowestMail = -20 // of a mail domain
	highest    = 100
	maxFlags   = 0.2 // share of the good names under one suffix that may reach the threshold of 1% of all good names
	minGood    = 15  // good names that a suffix needs for a discount
)

// model scores the rows of a fold.
type model struct {
	rows    []row
	rarity  pattern.Rarity
	margins []float64 // by models that did not see the row's letters
}

// points trains on the rows that h leaves and returns the points of the rows that it holds out, before discounts and
// limits.
func (m *model) points(h train.Holdout, jobs int, progress train.Progress) []float64 {
	return h.Run(domainsOf(m.rows), jobs, func(indices []int32) func(int32) float64 {
		score := m.fit(indices)
		odds := learnOdds(m.rows, indices, m.margins, &m.rarity)
		return func(i int32) float64 { return odds.points(&m.rows[i], score(i), &m.rarity) }
	}, progress)
}

// fit trains on rows, with weights rounded as the layer stores them.
func (m *model) fit(indices []int32) func(int32) float64 {
	weights := learn(m.rows, indices)
	levels, at := quantise(weights, usage(m.rows, indices))
	for k := range weights {
		weights[k] = levels[at[k]]
	}
	return func(i int32) float64 { return float64(sum(weights, m.rows[i].slots)) }
}

// final returns the points that the layer gives the row.
func (m *model) final(r *row, points float64, discounts map[string]int) float64 {
	if brand.OwnerName(&r.Host) != "" {
		return lowest
	}
	points = math.Floor(points+0.5) - float64(discounts[suffixOf(r)])
	if r.TestOnly { // the domain of an address
		points = max(points, lowestMail)
	}
	return min(max(points, lowest), highest)
}

// finished returns the points that the layer would give without discounts.
func (m *model) finished(points []float64) []float64 {
	final := make([]float64, len(points))
	for i := range m.rows {
		final[i] = m.final(&m.rows[i], points[i], nil)
	}
	return final
}

// suffixOf returns the suffix that discounts are counted by.
func suffixOf(r *row) string {
	if r.Hosted {
		return r.address.Suffix
	}
	return r.address.TLD
}

// discount returns the points to take from names under suffixes with many false alarms, so that at most maxFlags of the
// good names under each reach the score that 1% of the target's good names reach.
func (m *model) discount(points []float64) map[string]int {
	discounts := map[string]int{}
	for range 3 { // discounts lower the threshold
		var all []train.Scored
		good := map[string][]float64{}
		for i := range m.rows {
			r := &m.rows[i]
			if r.Synthetic || r.TestOnly {
				continue
			}
			final := m.final(r, points[i], discounts)
			if r.Target {
				all = append(all, train.Scored{Domain: r.Domain, Score: final})
			}
			if !r.Malicious {
				good[suffixOf(r)] = append(good[suffixOf(r)], final)
			}
		}
		threshold := train.Measure(all).Threshold
		for suffix, scores := range good {
			if len(scores) < minGood {
				continue
			}
			slices.Sort(scores)
			allowed := int(maxFlags * float64(len(scores)))
			if excess := scores[len(scores)-1-allowed] - threshold + 1; excess > 0 {
				discounts[suffix] += int(excess)
			}
		}
	}
	return discounts
}

// report prints the quality of held-out rows' points, and their distribution by source, suffix and label.
func (m *model) report(out io.Writer, name string, points []float64) {
	scored := train.Targets(domainsOf(m.rows), points)
	q := train.WriteSubsets(out, name, scored)
	train.WriteTable(out, fmt.Sprintf("share with at least %.0f points, by source", q.Threshold), scored, q.Threshold,
		train.BySource)
	for _, malicious := range []bool{false, true} {
		label := (&train.Domain{Malicious: malicious}).Label()
		var tens [19]int
		n := 0
		for _, s := range scored {
			if s.Malicious == malicious {
				tens[int(s.Score-lowest)/10]++
				n++
			}
		}
		fmt.Fprintf(out, "%s by tens of points from %d:", label, lowest)
		for _, t := range tens {
			fmt.Fprintf(out, " %.3f", float64(t)/float64(n))
		}
		fmt.Fprintln(out)
	}
	good, above := map[string]int{}, map[string]int{}
	for i := range m.rows {
		if r := &m.rows[i]; !r.Malicious && !r.Synthetic && !r.TestOnly && points[i] != 0 {
			good[suffixOf(r)]++
			if points[i] >= q.Threshold {
				above[suffixOf(r)]++
			}
		}
	}
	fmt.Fprintf(out, "good names above %.0f points, by suffix with 50 or more:", q.Threshold)
	for _, s := range slices.Sorted(maps.Keys(above)) {
		if good[s] >= 50 && above[s]*50 > good[s] {
			fmt.Fprintf(out, " .%s %d/%d", s, above[s], good[s])
		}
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out)
}
