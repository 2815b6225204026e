package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"assay/plugins/internal/train"
)

// The layer's scale of points.
const (
	neutral = 50 // points of a name that is as often bad as good among the target's rows
	perUnit = 11 // points per unit of log-odds
)

// evaluate prints the quality of held-out rows' scores. It returns the scale and offset that convert a sum of weights
// to points.
func evaluate(out io.Writer, rows []row, options train.Options, progress train.Progress) (scale, offset float64) {
	domains := domainsOf(rows)
	train.WriteHeader(out)
	bySite := train.HoldOutSites(domains)
	heldOut := slices.Concat(bySite.Run(domains, options.Jobs, fitter(rows, false), progress)...)
	scale, offset = calibrate(heldOut)
	scale, offset = coarse(perUnit*scale), coarse(neutral+perUnit*offset)
	train.WriteQuality(out, "  before rounding", len(heldOut), train.Measure(heldOut))
	writePoints(out, bySite.Name, heldOut, scale, offset)
	if !options.Absent {
		return scale, offset
	}
	fmt.Fprintln(out)
	for _, h := range train.HoldOutFamilies(domains) {
		train.WriteSplits(out, h.Name, h.Run(domains, options.Jobs, fitter(rows, false), progress))
	}
	// The splits' scores are compared with each other, and a split that lost much of one label would shift them.
	eachFamily := train.HoldOutEachFamily(domains).Run(domains, options.Jobs, fitter(rows, true), progress)
	writeNewFamilies(out, heldOut, slices.Concat(eachFamily...))
	return scale, offset
}

// fitter returns a function that trains on rows, with weights rounded as the layer stores them. If balanced, good and
// bad rows weigh the same in training.
func fitter(rows []row, balanced bool) func(indices []int32) func(int32) float64 {
	return func(indices []int32) func(int32) float64 {
		factors := labelFactors{1, 1}
		if balanced {
			factors = balance(rows, indices)
		}
		weights := learn(rows, indices, factors, func(int) {})
		levels, at := quantise(weights, usage(rows, indices))
		for k := range weights {
			weights[k] = levels[at[k]]
		}
		return func(i int32) float64 { return float64(sum(weights, rows[i].features)) }
	}
}

// calibrate fits log-odds = offset + scale*score by Newton's method.
func calibrate(domains []train.Scored) (scale, offset float64) {
	scale = 1
	for range 50 {
		var g0, g1, h00, h01, h11 float64
		for _, s := range domains {
			p := 1 / (1 + math.Exp(-offset-scale*s.Score))
			want := 0.0
			if s.Malicious {
				want = 1
			}
			d, h := p-want, max(p*(1-p), 1e-9)
			g0, g1 = g0+d, g1+d*s.Score
			h00, h01, h11 = h00+h, h01+h*s.Score, h11+h*s.Score*s.Score
		}
		det := h00*h11 - h01*h01 + 1e-9
		offset -= (h11*g0 - h01*g1) / det
		scale -= (h00*g1 - h01*g0) / det
	}
	return scale, offset
}

// coarse rounds x to 1/1024, because math.Exp may differ between machines.
func coarse(x float64) float64 { return math.Round(x*1024) / 1024 }

// writePoints prints the quality of held-out rows in the layer's points, and their distribution by source, host and
// label.
func writePoints(out io.Writer, name string, heldOut []train.Scored, scale, offset float64) {
	points := slices.Clone(heldOut)
	for i := range points {
		points[i].Score = float64(int(min(max(points[i].Score*scale+offset, 0), 100) + 0.5))
	}
	q := train.WriteSubsets(out, name, points)
	train.WriteTable(out, fmt.Sprintf("share with at least %.0f points, by source", q.Threshold), points, q.Threshold,
		train.BySource)
	train.WriteTable(out, "by host", points, q.Threshold, func(d *train.Domain) string {
		if d.Hosted {
			return d.Label() + " hosted"
		}
		return d.Label() + " own"
	})
	for _, malicious := range []bool{false, true} {
		label := (&train.Domain{Malicious: malicious}).Label()
		var tens [11]int
		n := 0
		for _, s := range points {
			if s.Malicious == malicious {
				tens[int(s.Score)/10]++
				n++
			}
		}
		fmt.Fprintf(out, "%s by tens of points:", label)
		for _, t := range tens {
			fmt.Fprintf(out, " %.3f", float64(t)/float64(n))
		}
		fmt.Fprintln(out)
	}
}

// writeNewFamilies prints the quality when the families of bad rows, of good rows, and of both are new to the model.
// heldOut contains the scores with rows held out by site, absent those by models without the row's family. The table of
// sources uses the threshold of heldOut, because a deployed threshold is set on known sources.
func writeNewFamilies(out io.Writer, heldOut, absent []train.Scored) {
	without := make(map[*train.Domain]train.Scored, len(absent))
	for _, s := range absent {
		without[s.Domain] = s
	}
	var bad, good []train.Scored
	for _, s := range heldOut {
		if s.Malicious {
			bad, good = append(bad, without[s.Domain]), append(good, s)
		} else {
			bad, good = append(bad, s), append(good, without[s.Domain])
		}
	}
	train.WriteSubsets(out, "one bad family absent", bad)
	train.WriteSubsets(out, "one good family absent", good)
	train.WriteSubsets(out, "the row's own absent", absent)
	threshold := train.Measure(heldOut).Threshold
	train.WriteTable(out, "share at or above the threshold for sites held out", absent, threshold, train.BySource)
}
