package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Verdict is what a score amounts to.
type Verdict string

// The verdicts, mildest first (spec section 2.2).
const (
	Allow  Verdict = "allow"
	Review Verdict = "review"
	Block  Verdict = "block"
)

// Verdict returns the band that score falls into.
func (b Bands) Verdict(score int) Verdict {
	switch {
	case score >= b.Block:
		return Block
	case score >= b.Review:
		return Review
	}
	return Allow
}

// Outcome is what became of one layer in one check.
type Outcome struct {
	Layer        string        `json:"layer"`
	Version      string        `json:"version"`
	Weight       float64       `json:"weight"`
	Score        int           `json:"score"`        // 0 to 100; 0 when it abstained or was lost
	Contribution float64       `json:"contribution"` // to the fused log-odds: weight * score / 100
	Abstained    bool          `json:"abstained,omitempty"`
	Failure      FailureReason `json:"lost,omitempty"`
	Required     bool          `json:"required,omitempty"`
	Micros       int64         `json:"micros"` // microseconds it took
	Fuel         int64         `json:"fuel"`   // what it burned, about one unit an instruction
	Threat       string        `json:"threat,omitempty"`
	Signals      []Signal      `json:"signals,omitempty"`
	// the layer reads what others said of an entity, so its say is no new evidence about it
	ReadsReputation bool `json:"-"`
}

// Fused is the composite answer.
type Fused struct {
	Score   int // 0 to 100
	Lowest  int // the score if every lost layer had found nothing
	Highest int // the score if every lost layer had found the worst
	Verdict Verdict
	Threat  string // the category of the layer that contributed most; "" when the verdict is allow
	// by weight of evidence, heaviest first; those worth no points are left out, and with an allow verdict what weighs little
	Signals []Signal
}

// minAllowedWeight is the log-odds below which a signal says nothing about what is allowed: alone it moves a score of 10 by two.
// A reader would take each reason for a reproach.
const minAllowedWeight = 0.25

// Fuse combines what the layers said: p = sigmoid(bias + sum(weight*score/100)), score = round(100p). It is pure, and
// monotone in every layer's score, since weights are not negative.
//
// A lost layer counts as if it had found nothing, but not in silence: a signal says so, and when the layer is required
// and the verdict hangs on it, the score is raised to where review begins, so that score and verdict agree and a person
// decides.
func Fuse(bias float64, bands Bands, outcomes []Outcome) Fused {
	low, high := bias, bias
	required := false
	for _, o := range outcomes {
		low += o.Contribution
		high += o.Contribution
		if o.Failure != "" {
			high += o.Weight
			required = required || o.Required
		}
	}
	f := Fused{Score: percent(low), Lowest: percent(low), Highest: percent(high)}
	f.Verdict = bands.Verdict(f.Score)
	if required && f.Verdict == Allow && bands.Verdict(f.Highest) != Allow {
		f.Score, f.Verdict = bands.Review, Review
	}
	least := 0.0
	if f.Verdict == Allow {
		least = minAllowedWeight
	}
	f.Signals = weigh(outcomes, least)
	for _, o := range outcomes {
		if o.Failure != "" {
			f.Signals = append(f.Signals, Signal{
				Code: "host:degraded:" + o.Layer,
				Text: fmt.Sprintf("The %s layer could not be asked; with it the score could be as high as %d", o.Layer,
					f.Highest),
			})
		}
	}
	if f.Verdict != Allow {
		f.Threat = dominant(outcomes)
	}
	return f
}

// percent is 100 times the logistic function of x, rounded to a whole number.
func percent(x float64) int { return int(math.Round(100 / (1 + math.Exp(-x)))) }

// weigh lists the signals that moved the fused log-odds by least or more, by how much they did.
func weigh(outcomes []Outcome, least float64) []Signal {
	type weighed struct {
		Signal
		weight float64
	}
	var all []weighed
	for _, o := range outcomes {
		for _, s := range o.Signals {
			if weight := o.Weight * float64(s.Points) / 100; s.Points != 0 && math.Abs(weight) >= least {
				all = append(all, weighed{s, weight})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b weighed) int { return cmp.Compare(b.weight, a.weight) })
	signals := make([]Signal, len(all))
	for i, w := range all {
		signals[i] = w.Signal
	}
	return signals
}

func dominant(outcomes []Outcome) (threat string) {
	most := 0.0
	for _, o := range outcomes {
		if o.Threat != "" && o.Contribution > most {
			threat, most = o.Threat, o.Contribution
		}
	}
	return threat
}
