package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// scored is a held-out row's score, in any unit.
type scored struct {
	score float64
	row   *row
}

// quality is how well scores tell bad rows from good ones.
type quality struct {
	auc    float64
	recall float64 // of bad rows, beyond the score that 1% of good rows reach or pass
	above  float64 // that score: rows above it are found
}

// falseAlarms is the share of good rows at which recall is measured.
const falseAlarms = 0.01

// judge measures scores. Ties count half for the area, and are found all or none.
func judge(all []scored) quality {
	s := slices.Clone(all)
	slices.SortStableFunc(s, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var bad, good float64
	for i := range s {
		if s[i].row.bad {
			bad++
		} else {
			good++
		}
	}
	q := quality{above: math.Inf(1)}
	var found, alarms float64
	for i := 0; i < len(s); {
		var f, a float64
		j := i
		for ; j < len(s) && s[j].score == s[i].score; j++ {
			if s[j].row.bad {
				f++
			} else {
				a++
			}
		}
		q.auc += a * (found + f/2)
		found, alarms = found+f, alarms+a
		if alarms <= falseAlarms*good {
			q.recall, q.above = found/bad, math.Nextafter(s[i].score, math.Inf(-1))
		}
		i = j
	}
	q.auc /= bad * good
	return q
}

// calibrate fits log-odds = offset + scale*sum to held-out rows, by Newton's method.
func calibrate(all []scored) (scale, offset float64) {
	scale = 1
	for range 50 {
		var g0, g1, h00, h01, h11 float64
		for _, s := range all {
			p := 1 / (1 + math.Exp(-offset-scale*s.score))
			want := 0.0
			if s.row.bad {
				want = 1
			}
			d, h := p-want, max(p*(1-p), 1e-9)
			g0, g1 = g0+d, g1+d*s.score
			h00, h01, h11 = h00+h, h01+h*s.score, h11+h*s.score*s.score
		}
		det := h00*h11 - h01*h01 + 1e-9
		offset -= (h11*g0 - h01*g1) / det
		scale -= (h00*g1 - h01*g0) / det
	}
	return scale, offset
}

// table prints, by a property of rows, how many there are and how many lie above a score.
func table(w io.Writer, title string, all []scored, above float64, property func(*row) string) {
	n, over := map[string]int{}, map[string]int{}
	for _, s := range all {
		k := property(s.row)
		n[k]++
		if s.score > above {
			over[k]++
		}
	}
	fmt.Fprintf(w, "\n%-52s %6s  %s\n", title, "rows", "above")
	for _, k := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(w, "  %-50s %6d  %.3f\n", k, n[k], float64(over[k])/float64(n[k]))
	}
}
