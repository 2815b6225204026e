package main

import (
	_ "embed"
	"strings"

	"assay/plugins/email/spelling"
	"assay/plugins/internal/quote"
	"assay/sdk"
)

// weights are log-odds of how disposable mail domains are spelt, written by plugins/internal/train/email.
//
//go:embed weights.txt
var weights spelling.Weights

// scoreSpelling scores a mail domain that is on no list by how much its spelling resembles that of disposable ones.
func scoreSpelling(f *findings, host, suffix string) {
	d, ok := spelling.Of(host, suffix)
	if !ok {
		return
	}
	var space [spelling.MaxFeatures]spelling.Feature
	features := d.Features(space[:0])
	points := spellingPoints(weights.Sum(features))
	f.unlisted = true
	switch {
	case points <= 0:
	case points < pointsResembles:
		f.add(points, "email:domain:unclear",
			quote.Of(host)+" is neither a known mailbox provider nor a known throw-away service", "")
	default:
		f.add(points, "email:domain:resembles",
			quote.Of(host)+" is spelt like throw-away mail domains"+spellingEvidence(d, features), sdk.Disposable)
	}
}

const (
	// The fewest points for which the text names the spelling as the reason. Few honest domains reach it; the trainer
	// measures how many.
	pointsResembles = 24
	// The points of a domain whose spelling is neutral: it is on no list.
	pointsUnlisted = 22
	// The slope is shallow, because the sum is overconfident on domains that the trainer held out.
	pointsPerUnit = 4
	// Spelling alone reaches neither review nor block (TestVerdicts).
	maxSpellingPoints = 60
)

// spellingPoints maps a sum of weights, in steps of spelling.Quantum, to points.
func spellingPoints(sum int) int {
	return min(int(pointsPerUnit*float32(sum)*spelling.Quantum)+pointsUnlisted, maxSpellingPoints)
}

// spellingEvidence names the run of characters of d with the highest weight, and the suffix if it contributed a fifth
// or more. The text continues a sentence; it is "" if nothing stands out.
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
	text := ""
	if run := heaviest(d.Label, byteWeights[:]); len(run) >= 3 {
		text = ", above all in “" + quote.Of(run) + "”"
	}
	if suffix*5 >= total && total > 0 {
		if text != "" {
			text += " and"
		} else {
			text = ", above all"
		}
		text += " in its ending ." + quote.Of(d.Suffix)
	}
	return text
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

// publicSuffix returns the public suffix that the host found for the check's domain if the mail domain ends in it, or
// "".
func publicSuffix(c *sdk.Check, host string) string {
	if suffix := c.Get("domain.suffix"); suffix != "" && strings.HasSuffix(host, "."+suffix) {
		return suffix
	}
	return ""
}
