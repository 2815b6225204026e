package main

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"assay/host/check"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks that the layer alone never reaches review.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	suite.CheckVerdict(t, check.Allow, 40)
}

func TestSignalTexts(t *testing.T) {
	t.Parallel()
	for want, facts := range map[string]sdk.Facts{
		"Checked at least 50 times within an hour, known to customers for 2 days": {
			"history.first_seen_days": "2", "history.seen_1h": "50", "history.seen_24h": "100"},
		"Checked at least 100 times within a day, known to customers for 0 days": {
			"history.first_seen_days": "0", "history.seen_24h": "100"},
		"Checked 12 times by your account within an hour": {
			"history.own_first_seen_days": "0", "history.own_seen_1h": "12", "history.own_seen_24h": "12"},
		"Known to your account for 41 days, seldom checked": {
			"history.own_first_seen_days": "41", "history.own_seen_1h": "0", "history.own_seen_24h": "0"},
	} {
		if got := sdk.Run(Score, facts).Signals; len(got) != 1 || got[0].Text != want {
			t.Errorf("signals %v, want %q", got, want)
		}
	}
}

// TestReplay simulates a day of checks. Its assumptions: an honest entity is checked rarely, one in a hundred is
// popular at once; one in five used for fraud is tried with every customer at once, and the others behave like honest
// ones. The points must be worth less than the likelihood ratio.
func TestReplay(t *testing.T) {
	t.Parallel()
	const entities, weight = 20_000, 0.5
	random := rand.New(rand.NewPCG(1, 2))
	poisson := func(mean float64) (n int) {
		for p := random.ExpFloat64(); p < mean; p += random.ExpFloat64() {
			n++
		}
		return n
	}
	scores := func(share, perHour float64) (at map[int]float64) {
		at = map[int]float64{}
		for range entities {
			rate := 0.1 * random.ExpFloat64()
			if random.Float64() < share {
				rate = perHour * random.ExpFloat64()
			}
			hour := poisson(rate)
			day := hour + poisson(23*rate)
			at[sdk.Run(Score, sdk.Facts{"history.first_seen_days": "1", "history.seen_1h": strconv.Itoa(hour),
				"history.seen_24h": strconv.Itoa(day)}).Score] += 1.0 / entities
		}
		return at
	}
	honest, fraud := scores(0.01, 10), scores(0.2, 100)
	for _, points := range []int{10, 20, 30} {
		ratio := math.Log(fraud[points] / max(honest[points], 1.0/entities))
		t.Logf("%d points: %.4f of honest and %.4f of fraudulent entities, log-likelihood ratio %.2f", points,
			honest[points], fraud[points], ratio)
		if worth := weight * float64(points) / 100; worth > ratio {
			t.Errorf("%d points are worth %.2f, the log-likelihood ratio is %.2f", points, worth, ratio)
		}
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts contain.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("0", "1000", "1000", "0", "64", "64")
	f.Add("-1", "999999999999999999", "\xff", "1000000000", "0", "\u202e")
	f.Fuzz(func(t *testing.T, days, hour, day, ownDays, ownHour, ownDay string) {
		suite.Check(t, Score, sdk.Facts{
			"history.first_seen_days": days, "history.seen_1h": hour, "history.seen_24h": day,
			"history.own_first_seen_days": ownDays, "history.own_seen_1h": ownHour, "history.own_seen_24h": ownDay,
		})
	})
}
