package layertest

import (
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
	"assay/registry/expect"
	"assay/sdk"
)

// Limits are the results that a layer alone must achieve on a file of labelled rows.
type Limits struct {
	Rows   int     // minimum number of rows of each label in the file
	Points int     // a score above this counts as a finding: at most 1% of the honest rows may have one
	Found  float64 // minimum share of the bad rows that must have a finding
	Except string  // a category of rows to leave out, because the layer and the label mean different things
}

// Labelled scores the rows {"value", "label"} of train_TYPEs.jsonl in the folder that ASSAY_DATA names, where TYPE is
// the layer's first entity type. With every other layer at 0, the default lineup may block at most 0.3% of the honest
// rows, and review or block at most 2%. Without ASSAY_DATA the test is skipped, because the repository holds no rows.
func (s Suite) Labelled(t *testing.T, layer sdk.Layer, limits Limits) {
	t.Helper()
	kind := s.Manifest.Entities[0]
	type counts struct{ rows, found, reviewed, blocked float64 }
	var honest, bad counts
	type row struct {
		Value    string
		Label    int
		Category string
	}
	Rows(t, "train_"+kind+"s.jsonl", func(row row) {
		parsed, err := entity.Parse(entity.Type(kind), row.Value, "")
		if err != nil || limits.Except != "" && row.Category == limits.Except {
			return // if the value is invalid, the host rejects it before any layer runs
		}
		of := &honest
		if row.Label == 1 {
			of = &bad
		}
		of.rows++
		score := s.score(sdk.Run(layer, sdk.Facts(parsed.Facts)))
		if score > limits.Points {
			of.found++
		}
		switch s.Verdict(t, score) {
		case check.Block:
			of.blocked++
		case check.Review:
			of.reviewed++
		}
	})
	expect.Must(t, min(honest.rows, bad.rows) >= float64(limits.Rows),
		"%v honest and %v bad rows, want at least %d of each", honest.rows, bad.rows, limits.Rows)
	expect.That(t, honest.blocked <= 0.003*honest.rows && honest.reviewed+honest.blocked <= 0.02*honest.rows &&
		honest.found <= 0.01*honest.rows,
		"of %v honest rows %v are blocked, %v are reviewed, and %v have more than %d points", honest.rows,
		honest.blocked, honest.reviewed, honest.found, limits.Points)
	expect.That(t, bad.found >= limits.Found*bad.rows, "%v of %v bad rows have more than %d points", bad.found,
		bad.rows, limits.Points)
}

// Verdict returns the verdict for an entity of the layer's first type that the layer scores with points and every other
// layer with 0, in the default lineup.
func (s Suite) Verdict(t testing.TB, points int) check.Verdict {
	t.Helper()
	lineup := expect.Value(registry.DefaultLineup())(t)
	kind, weight := s.Manifest.Entities[0], s.Manifest.DefaultWeight
	for _, item := range lineup.Layers {
		if item.Layer == s.Manifest.Name {
			weight = item.Weight.For(kind)
		}
	}
	outcome := check.Outcome{Contribution: weight * float64(points) / 100}
	return check.Fuse(lineup.Bias.For(kind), check.Bands(lineup.Bands), []check.Outcome{outcome}).Verdict
}

// CheckVerdict asserts that [Suite.Verdict] returns want for each number of points. Layers use it to test the verdicts
// that their points are meant to cause.
func (s Suite) CheckVerdict(t *testing.T, want check.Verdict, points ...int) {
	t.Helper()
	for _, n := range points {
		got := s.Verdict(t, n)
		expect.That(t, got == want, "%d points lead to %s, want %s", n, got, want)
	}
}
