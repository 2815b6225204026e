package eval

import "math"

// Calibration measures how well score/100 estimates the probability that a value is malicious.
type Calibration struct {
	Prevalence Number `json:"prevalence"` // the assumed share of malicious rows
	// mean squared difference between score/100 and the label; 0 is best (Brier, 1950)
	Brier Number `json:"brier"`
	// mean difference between score/100 and the share of malicious rows, over the bins (Naeini et al., 2015)
	ECE  Number        `json:"ece"`
	Bins []Reliability `json:"bins"`
}

// Reliability compares predictions with labels for a bin of scores.
type Reliability struct {
	From      int    `json:"from"` // lowest score
	To        int    `json:"to"`   // highest score
	N         int    `json:"n"`
	Predicted Number `json:"predicted"` // mean of score/100
	Observed  Number `json:"observed"`  // share of malicious rows
}

const calibrationBins = 10

// calibrate compares scores (0 to 100) with labels, of which share are malicious. A prevalence other than 0 reweights
// the rows to that share of malicious ones, because labelled files contain more of them than production.
func calibrate(scores []float64, malicious []bool, share, prevalence float64) Calibration {
	maliciousWeight, benignWeight := 1.0, 1.0
	if prevalence > 0 && share > 0 && share < 1 {
		maliciousWeight, benignWeight, share = prevalence/share, (1-prevalence)/(1-share), prevalence
	}
	var bins [calibrationBins]struct {
		n                           int
		weight, predicted, observed float64
	}
	brier, total := 0.0, 0.0
	for i, s := range scores {
		weight, label := benignWeight, 0.0
		if malicious[i] {
			weight, label = maliciousWeight, 1
		}
		p := s / 100
		brier += weight * (p - label) * (p - label)
		total += weight
		b := &bins[min(int(s)/(100/calibrationBins), calibrationBins-1)]
		b.n++
		b.weight += weight
		b.predicted += weight * p
		b.observed += weight * label
	}
	c := Calibration{Prevalence: Number(share), Brier: Number(brier / total)}
	ece := 0.0
	for i, b := range bins {
		r := Reliability{From: i * 100 / calibrationBins, To: (i+1)*100/calibrationBins - 1, N: b.n}
		if i == calibrationBins-1 {
			r.To = 100
		}
		r.Predicted, r.Observed = Number(b.predicted/b.weight), Number(b.observed/b.weight)
		ece += math.Abs(b.predicted - b.observed)
		c.Bins = append(c.Bins, r)
	}
	c.ECE = Number(ece / total)
	return c
}
