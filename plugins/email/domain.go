package main

import (
	_ "embed"
	"strings"

	"assay/plugins/email/spelling"
	"assay/plugins/excerpt"
	"assay/sdk"
)

// weights say how throw-away and reported mail domains are spelt. The command train writes them.
//
//go:embed weights.txt
var weights spelling.Weights

// judgeSpelling says how much a mail domain that no list knows is spelt like throw-away and reported ones.
func judgeSpelling(v *verdict, host, suffix string) {
	d, ok := spelling.Of(host, suffix)
	if !ok {
		return
	}
	var space [spelling.MaxFeatures]spelling.Feature
	features := d.Features(space[:0])
	points := pointsOf(weights.Sum(features))
	switch {
	case points == 0:
	case points < pointsTelling:
		v.add(points, "email:domain:unclear",
			excerpt.Of(host)+" is on no list of mailbox providers, and its spelling says little", "")
	default:
		v.add(points, "email:domain:resembles",
			excerpt.Of(host)+" is spelt like throw-away and reported mail domains"+telling(d, features), sdk.Disposable)
	}
	v.unlisted = points > 0
}

// pointsTelling is from where on the spelling is named as a reason. With domains kept back from training, 4% of honest addresses
// at domains that no list or rule knows have it, and 39% of the others.
const pointsTelling = 25

// pointsOf maps a sum of weights to points. With domains kept back from training, 6 in a thousand of those honest addresses
// get 45 points, 2 get 58, which asks for a review, and none of 1,974 gets 70: spelling alone hardly ever blocks.
func pointsOf(sum int) int {
	switch odds := float32(sum) * spelling.Quantum; {
	case odds < -3.5:
		return 0
	case odds < 0:
		return int(8 * (odds + 3.5))
	default:
		return min(int(28+18*odds), 88)
	}
}

// telling names the run of characters of d that spoke most, and the ending where it did, to follow a sentence.
func telling(d spelling.Domain, features []spelling.Feature) string {
	var moved [maxLabel]int // by each byte of the label: a feature's weight spread over the bytes it was read from
	ending, all := 0, 0
	for _, f := range features {
		w := weights.At(f.Slot)
		all += max(w, 0)
		if f.Ending {
			ending += w
		}
		for at := int(f.Start); at < int(f.End) && at < maxLabel; at++ {
			moved[at] += w * spread / int(f.End-f.Start)
		}
	}
	text := ""
	if run := heaviest(d.Label, moved[:]); len(run) >= 3 {
		text = ", above all in “" + excerpt.Of(run) + "”"
	}
	if ending*5 >= all && all > 0 {
		if text != "" {
			text += " and"
		} else {
			text = ", above all"
		}
		text += " in its ending ." + excerpt.Of(d.Suffix)
	}
	return text
}

const (
	maxLabel = 63 // RFC 1035 section 2.3.4
	spread   = 60 // divides by every length of a run
)

// heaviest returns the run of label whose bytes moved the score most together, without hyphens at its ends. One that leaves
// but two bytes of the label at an end takes them in: a person reads words.
func heaviest(label string, moved []int) string {
	start, end, best := 0, 0, 0
	for i, from, sum := 0, 0, 0; i < len(label) && i < len(moved); i++ {
		if sum <= 0 {
			sum, from = 0, i
		}
		if sum += moved[i]; sum > best {
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

// publicSuffix returns the public suffix of a mail domain as the host knows it, or "".
func publicSuffix(c *sdk.Check, host string) string {
	if suffix := c.Get("domain.suffix"); suffix != "" && strings.HasSuffix(host, "."+suffix) {
		return suffix
	}
	return ""
}
