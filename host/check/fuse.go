package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Verdict is the recommendation that follows from a score.
type Verdict string

// The verdicts, mildest first (contract section 2.2).
const (
	Allow  Verdict = "allow"
	Review Verdict = "review"
	Block  Verdict = "block"
)

// Verdict returns the verdict for a score.
func (b Bands) Verdict(score int) Verdict {
	switch {
	case score >= b.Block:
		return Block
	case score >= b.Review:
		return Review
	}
	return Allow
}

// Outcome is the result of one layer in one check.
type Outcome struct {
	Layer        string        `json:"layer"`
	Version      string        `json:"version"`
	Weight       float64       `json:"weight"`               // for the entity's type
	Range        Range         `json:"score_range,omitzero"` // of the layer's score
	Score        int           `json:"score"`                // within Range; 0 if the layer abstained or failed
	Contribution float64       `json:"contribution"`         // to the fused log-odds: weight * score / 100
	Abstained    bool          `json:"abstained,omitempty"`
	Failure      FailureReason `json:"lost,omitempty"`
	Required     bool          `json:"required,omitempty"`
	Micros       int64         `json:"micros"` // duration of the call in microseconds
	Fuel         int64         `json:"fuel"`   // see Result
	Threat       string        `json:"threat,omitempty"`
	Signals      []Signal      `json:"signals,omitempty"`
	// ReadsReputation is set if the layer repeats the judgement of others, so that its score is not independent
	// evidence.
	ReadsReputation bool `json:"-"`
}

// Fused is the combined result of all layers.
type Fused struct {
	Score   int // 0 to 100
	Lowest  int // the score if every failed layer had given its lowest score
	Highest int // the score if every failed layer had given its highest score
	Verdict Verdict
	Threat  string // the category with the most evidence; "" for an allow verdict
	// Signals is sorted by weight, accusing ones first; for an allow verdict, by absolute weight. It leaves out signals
	// without weight, and for an allow verdict also light ones.
	Signals []Signal
}

// WeightMeans says what the weight of a layer means.
const WeightMeans = "A weight of 1.3: a score of 100 adds 1.3 log-odds, odds times 3.7."

// minAllowedWeight is the least weight, in log-odds, of the signals reported for an allowed entity. A lighter signal
// changes a score of 10 by about two points, but would read like an accusation.
const minAllowedWeight = 0.25

// Fuse combines the layers' results by logistic regression: p = sigmoid(bias + sum(weight*score/100)) and
// score = round(100*p). It is a pure function. As weights are not negative, the score never falls when a layer's score
// rises.
//
// A failed layer counts as a score of 0, and a signal reports the range of possible scores, unless its weight is 0. To
// let a person decide, Fuse lowers a block to the end of the review band if the failed layers could have cleared the
// entity, and raises an allow to that band's start if one of them is required and they could have accused it.
func Fuse(bias float64, bands Bands, outcomes []Outcome) Fused {
	sum, low, high := bias, 0.0, 0.0
	required := false
	for _, o := range outcomes {
		sum += o.Contribution
		if o.Failure != "" {
			low += o.Weight * float64(o.Range[0]) / 100
			high += o.Weight * float64(o.Range[1]) / 100
			required = required || o.Required
		}
	}
	f := Fused{Score: percent(sum), Lowest: percent(sum + low), Highest: percent(sum + high)}
	f.Verdict = bands.Verdict(f.Score)
	switch {
	case f.Verdict == Block && bands.Verdict(f.Lowest) != Block:
		f.Score, f.Verdict = bands.Block-1, Review
	case f.Verdict == Allow && required && bands.Verdict(f.Highest) != Allow:
		f.Score, f.Verdict = bands.Review, Review
	}
	f.Signals = f.signals(outcomes)
	if f.Verdict != Allow {
		f.Threat = dominantThreat(outcomes)
	}
	return f
}

// signals returns the layers' signals for the verdict, then one for each layer that failed.
func (f Fused) signals(outcomes []Outcome) []Signal {
	signals := sortedSignals(outcomes, f.Verdict)
	for _, o := range outcomes {
		if o.Failure != "" && o.Weight != 0 {
			signals = append(signals, Signal{
				Code: "host:degraded:" + o.Layer,
				Text: hostText + fmt.Sprintf("The %s layer failed; with it, the score would be between %d and %d",
					o.Layer, f.Lowest, f.Highest),
			})
		}
	}
	return signals
}

// percent returns the probability for log-odds x in percent, rounded.
func percent(x float64) int { return int(math.Round(100 / (1 + math.Exp(-x)))) }

// sortedSignals returns the signals that changed the fused log-odds, from those that raised it most to those that
// lowered it most. For an allow verdict, it leaves out those below minAllowedWeight and sorts by absolute weight,
// because clearing signals are the reasons for an allow. For another verdict, it leaves out signals that would
// contradict one that raised it and yields to none.
func sortedSignals(outcomes []Outcome, verdict Verdict) []Signal {
	type weighted struct {
		Signal
		weight float64
	}
	var accusing []string // sorted; without signals that yield, because those of a circle would all disappear
	for _, o := range outcomes {
		for _, s := range o.Signals {
			if verdict != Allow && o.Weight*float64(s.Points) > 0 && len(s.YieldsTo) == 0 {
				accusing = append(accusing, s.Code)
			}
		}
	}
	slices.Sort(accusing)
	var all []weighted
	for _, o := range outcomes {
		yields := map[string]bool{} // by code, because a layer may emit the same one often
		for _, s := range o.Signals {
			weight := o.Weight * float64(s.Points) / 100
			if weight == 0 || verdict == Allow && math.Abs(weight) < minAllowedWeight {
				continue
			}
			if _, known := yields[s.Code]; !known && len(s.YieldsTo) > 0 {
				yields[s.Code] = s.yieldsToAny(accusing)
			}
			if !yields[s.Code] {
				all = append(all, weighted{s, weight})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b weighted) int {
		if verdict == Allow {
			return cmp.Compare(math.Abs(b.weight), math.Abs(a.weight))
		}
		return cmp.Compare(b.weight, a.weight)
	})
	signals := make([]Signal, len(all))
	for i, w := range all {
		signals[i] = w.Signal
	}
	return signals
}

// yieldsToAny reports whether answers leave the signal out if they have one with any of the codes, which are sorted.
func (s Signal) yieldsToAny(codes []string) bool {
	return slices.ContainsFunc(s.YieldsTo, func(to string) bool {
		i, found := slices.BinarySearch(codes, to)
		return found || i < len(codes) && strings.HasSuffix(to, ":") && strings.HasPrefix(codes[i], to)
	})
}

// unspecific is the category of deception whose kind is unclear (sdk/ABI.md section 6).
const unspecific = "scam"

// minThreatShare is the minimum share of all evidence against an entity for its dominant threat. Below it, a specific
// category would be a guess.
const minThreatShare = 0.25

// dominantThreat returns the category with the most evidence; the first by name if there are several. A layer's
// evidence is its contribution, divided among its signals by points. A signal's category is the one that the manifest
// declares for it, or otherwise the one that the layer named.
func dominantThreat(outcomes []Outcome) string {
	type evidence struct {
		category string
		sum      float64
	}
	var all []evidence // a few, so a map would cost more
	total := 0.0
	for _, o := range outcomes {
		accusing := 0
		for _, s := range o.Signals {
			accusing += max(s.Points, 0)
		}
		if o.Contribution <= 0 || accusing == 0 {
			continue
		}
		total += o.Contribution
		for _, s := range o.Signals {
			category := cmp.Or(s.Threat, o.Threat)
			if s.Points <= 0 || category == "" {
				continue
			}
			i := slices.IndexFunc(all, func(e evidence) bool { return e.category == category })
			if i < 0 {
				i, all = len(all), append(all, evidence{category: category})
			}
			all[i].sum += o.Contribution * float64(s.Points) / float64(accusing)
		}
	}
	var most evidence
	for _, e := range all {
		if e.sum > most.sum || e.sum == most.sum && e.category < most.category {
			most = e
		}
	}
	if len(all) > 0 && most.sum < minThreatShare*total {
		return unspecific
	}
	return most.category
}
