package learn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
	"assay/registry/expect"
)

// A report loses weight with its age and its source's noise, and the rows of both labels have the weights they should.
func TestWeigh(t *testing.T) {
	t.Parallel()
	factors := map[string]float64{"noisy": 0.15, "close": 2}
	list := []train.Domain{{Malicious: true, Source: "new"}, {Malicious: true, Source: "old", Age: halfLife},
		{Malicious: true, Source: "never dated", Age: -1}, {Malicious: true, Source: "noisy"},
		{Source: "list"}, {Source: "close"}}
	rows, indices := make([]Row, len(list)), make([]int32, len(list))
	for i := range list {
		rows[i].Domain, indices[i] = &list[i], int32(i)
	}
	Weigh(rows, indices, factors)
	want := []float64{1, 0.5, undated, factors["noisy"]}
	bad, good := 0.0, float64(list[4].Weight+list[5].Weight)
	for i, w := range want {
		bad += float64(list[i].Weight)
		got := float64(list[i].Weight / list[0].Weight)
		expect.That(t, math.Abs(got-w) <= 1e-3, "a row of %s weighs %v of a new one, want %v", list[i].Source, got, w)
	}
	expect.That(t, math.Abs(bad/good-prevalence) <= 1e-3 && math.Abs(float64(list[5].Weight/list[4].Weight)-2) <= 1e-3,
		"the rows weigh %+v", list)
}

// A list of reports from one country does not teach its suffix. A list of honest names does.
func TestListsOfOneCountry(t *testing.T) {
	t.Parallel()
	var all []*train.Domain
	for _, r := range slices.Concat(names("zorblax", "reports", true, 100), names("zorblax", "honest", false, 100)) {
		d := expect.Value(train.NewDomain(entity.Domain, strings.Replace(r.Value, ".com", ".fr", 1)))(t)
		d.Malicious, d.Source = r.Malicious, r.Source
		all = append(all, d)
	}
	rows := ReadRows(all, expect.Value(ngram.ReleasedWords())(t))
	reported, honest := len(rows[7].slots), len(rows[107].slots)
	expect.That(t, reported < honest-9, "%d features are learned of a report, %d of the same name", reported, honest)
}

// The weights of a model are the means of those that several orders of the rows lead to.
func TestNew(t *testing.T) {
	t.Parallel()
	rows, indices := make([]Row, 60), make([]int32, 60)
	for i := range rows {
		rows[i] = Row{Domain: &train.Domain{Malicious: i%3 == 0, Weight: 1}, slots: []uint32{uint32(i % 7)}, scale: 1}
		indices[i] = int32(i)
	}
	mean := make([]float32, ngram.Slots)
	for order := range uint64(4) {
		one := make([]float32, ngram.Slots)
		learn(one, rows, indices, plan{epochs: 2, rate: 0.3, prior: 1e-6, decay: 1e-5, seed: seed + order})
		for k, w := range one {
			mean[k] += w / 4
		}
	}
	steps, size := quantise(mean)
	m := New(rows, indices)
	expect.That(t, m.size == size && slices.Equal(m.steps, steps), "the weights are %v", m.weights[:7])
}

// Steps are near the weights, but for the few largest, and 0 stays 0.
func TestQuantise(t *testing.T) {
	t.Parallel()
	weights := make([]float32, 100_000)
	for i := range weights {
		weights[i] = float32(i)/50_000 - 1
	}
	weights[0] = -14
	steps, size := quantise(weights)
	expect.Equal(t, "the outlier", steps[0], -127)
	for i, w := range weights[1:] {
		got := float64(steps[i+1]) * size
		expect.Must(t, math.Abs(got-float64(w)) <= size/2+1e-3, "the weight %v became %v in steps of %v", w, got, size)
	}
}
