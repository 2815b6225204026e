package rehearsal

import (
	"math/rand/v2"
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestDistribution(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, test := range map[string]struct {
		values []float64
		want   Distribution
	}{
		"one":         {[]float64{7}, Distribution{7, 7, 7, 7}},
		"three":       {[]float64{3, 1, 2}, Distribution{2, 3, 3, 3}},
		"one hundred": {hundred, Distribution{50, 90, 99, 100}},
	} {
		expect.Equal(t, name, distributionOf(test.values), test.want)
	}
}

// TestVectorsCoverAnswers checks that the vectors of a conformance test lead to every answer of the first layer.
func TestVectorsCoverAnswers(t *testing.T) {
	t.Parallel()
	random, answers := rand.New(rand.NewPCG(1, 2)), map[string]int{}
	for range VectorCount {
		facts := vector(random)
		expect.Must(t, len(facts["domain.registrable"]) <= 253, "%q is longer than a name", facts)
		answers[described(facts)]++
	}
	has := func(want string) bool {
		for answer := range answers {
			if strings.Contains(answer, want) {
				return true
			}
		}
		return false
	}
	for _, want := range []string{"…”", "abstained true", "abstained false, score 0, ",
		"abstained false, score 20, ", "abstained false, score 30, ", `abstained false, score 50, threat "scam"`} {
		expect.That(t, has(want), "no vector leads to %q", want)
	}
	expect.That(t, len(answers) >= VectorCount/2, "only %d different answers", len(answers))
}
