package main

import (
	_ "embed"
	"strings"

	"assay/plugins/email/spelling"
	"assay/plugins/internal/quote"
	"assay/sdk"
)

// weights say how throw-away mail domains are spelt. The command train writes them.
//
//go:embed weights.txt
var weights spelling.Weights

// judgeSpelling says how much a mail domain that no list knows is spelt like throw-away ones.
func judgeSpelling(v *verdict, host, suffix string) {
	d, ok := spelling.Of(host, suffix)
	if !ok {
		return
	}
	var space [spelling.MaxFeatures]spelling.Feature
	features := d.Features(space[:0])
	points := pointsOf(weights.Sum(features))
	v.unlisted = true
	switch {
	case points <= 0:
	case points < pointsTelling:
		v.add(points, "email:domain:unclear",
			quote.Of(host)+" is neither a known mailbox provider nor a known throw-away service", "")
	default:
		v.add(points, "email:domain:resembles",
			quote.Of(host)+" is spelt like throw-away mail domains"+telling(d, features), sdk.Disposable)
	}
}

// pointsTelling is from where on the spelling is named as a reason. With domains kept back from training, 1.2% of the
// honest addresses at domains that no list or rule knows have it, and 12% of those at throw-away ones.
const pointsTelling = 24

// pointsOf maps a sum of weights to points. It is shallow: the sum is surer of domains kept back from training than it
// is right, and a unit of its log-odds is worth a third beside what the other layers say. Where the sum says nothing
// stand a domain's 22 points for being on no list. Kept-back domains have 0 to 38: spelling alone neither blocks nor
// asks for a review.
func pointsOf(sum int) int {
	return min(int(perUnit*float32(sum)*spelling.Quantum)+unknown, maxSpellingPoints)
}

const (
	perUnit           = 4
	unknown           = 22
	maxSpellingPoints = 60
)

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
		text = ", above all in “" + quote.Of(run) + "”"
	}
	if ending*5 >= all && all > 0 {
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
	maxLabel = 63 // RFC 1035 section 2.3.4
	spread   = 60 // divides by every length of a run
)

// heaviest returns the run of label whose bytes moved the score most together, without hyphens at its ends. One that
// leaves but two bytes of the label at an end takes them in: a person reads words.
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
