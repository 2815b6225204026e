package main

import (
	_ "embed"
	"strings"

	"assay/plugins/mailbox/spelling"
	"assay/sdk"
)

// weights are log-odds for disposable mail domains, by spelling. plugins/internal/train/email writes them.
//
//go:embed weights.txt
var weights spelling.Weights

// scoreSpelling scores a mail domain that is on no list by how much its spelling resembles that of disposable ones.
func (a *answer) scoreSpelling(host, suffix string) {
	d, ok := spelling.Of(host, suffix)
	if !ok {
		return
	}
	var space [spelling.MaxFeatures]spelling.Feature
	features := d.Features(space[:0])
	switch points := spellingPoints(weights.Sum(features)); {
	case points >= leastSpelling:
		a.raise(points, &resembles, host, spellingEvidence(d, features))
	case points <= -leastSpelling:
		a.raise(points, &ordinary, host)
	}
}

const (
	pointsPerUnit = 3 // few, because the sum is overconfident on domains that the trainer held out
	leastSpelling = 3
	maxSpelling   = 18
)

// spellingPoints maps a sum of weights, in steps of spelling.Quantum, to points.
func spellingPoints(sum int) int {
	return min(max(int(pointsPerUnit*float32(sum)*spelling.Quantum), -maxSpelling), maxSpelling)
}

// spellingEvidence returns the run of characters of d with the highest weight, and the suffix if it contributed a fifth
// or more. If nothing stands out, it is the whole label.
func spellingEvidence(d spelling.Domain, features []spelling.Feature) string {
	var byteWeights [maxLabel]int // each feature's weight, spread evenly over the bytes that it was read from
	suffix, total := 0, 0
	for _, f := range features {
		w := weights.At(f.Slot)
		total += max(w, 0)
		if f.Ending {
			suffix += w
		}
		for at := int(f.Start); at < int(f.End) && at < maxLabel; at++ {
			byteWeights[at] += w * weightScale / int(f.End-f.Start)
		}
	}
	run := heaviest(d.Label, byteWeights[:])
	ending := suffix*5 >= total && total > 0
	switch {
	case len(run) >= 3 && ending:
		return sdk.Join(run, "” and “.", d.Suffix)
	case len(run) >= 3:
		return run
	case ending:
		return sdk.Join(".", d.Suffix)
	}
	return d.Label
}

const (
	maxLabel    = 63 // RFC 1035 section 2.3.4
	weightScale = 60 // divisible by the length of every run, which is 1 to 5
)

// heaviest returns the run of label with the largest sum of weights, without hyphens at its ends. The run includes up
// to two leftover bytes at either end of the label, because people read whole words.
func heaviest(label string, byteWeights []int) string {
	start, end, best := 0, 0, 0
	for i, from, sum := 0, 0, 0; i < len(label) && i < len(byteWeights); i++ {
		if sum <= 0 {
			sum, from = 0, i
		}
		if sum += byteWeights[i]; sum > best {
			start, end, best = from, i+1, sum
		}
	}
	if best == 0 {
		return ""
	}
	if start <= 2 {
		start = 0
	}
	if len(label)-end <= 2 {
		end = len(label)
	}
	return strings.Trim(label[start:end], "-")
}
