package sandbox

import (
	"maps"
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

// points is a signal of a test's guest.
type points struct {
	code   string
	points int
}

// A layer's score is the sum of its points, held to the manifest's range. A manifest also promises the least points of
// a signal, so that a lineup can be held to the band that the signal warrants. An answer that breaks the promise is
// refused.
func TestPointsAndManifest(t *testing.T) {
	t.Parallel()
	bounded := func(class string, bounds ...int) map[string]any {
		return map[string]any{"class": class, "score_range": bounds}
	}
	promising := map[string]any{"class": "finding", "signals": []map[string]any{{"code": codeOne, "text": "One",
		"points": 60, "warrants": "block", "final": true, "threat": "scam"}, {"code": codeTwo, "text": "Two"}}}
	reviewing := map[string]any{"class": "finding", "signals": []map[string]any{{"code": codeOne, "text": "One",
		"points": 60, "warrants": "review", "threat": "scam"}, {"code": codeTwo, "text": "Two"}}}
	const tooFew, takePoints = "fewer points than its manifest promises", "other signals take points"
	type testCase struct {
		declared map[string]any
		signals  []points
		want     int
		refused  string // a part of the refusal's rule; "" if the answer is accepted
	}
	expect.Each(t, map[string]testCase{
		"no range, cleared":      {nil, []points{{codeOne, -60}, {codeTwo, 20}}, 0, ""},
		"no range, alarming":     {nil, []points{{codeOne, 80}, {codeTwo, 80}}, 100, ""},
		"a clearing sum":         {bounded("clearing", -100, 0), []points{{codeOne, -60}, {codeTwo, -20}}, -80, ""},
		"below a clearing range": {bounded("clearing", -70, 0), []points{{codeOne, -60}, {codeTwo, -20}}, -70, ""},
		"above a clearing range": {bounded("clearing", -70, 0), []points{{codeOne, 10}}, 0, ""},
		"within both sides":      {bounded("style", -30, 45), []points{{codeOne, -60}, {codeTwo, 35}}, -25, ""},
		"below both sides":       {bounded("style", -30, 45), []points{{codeOne, -60}, {codeTwo, 5}}, -30, ""},
		"above both sides":       {bounded("style", -30, 45), []points{{codeOne, 60}}, 45, ""},
		"no signals":             {bounded("style", -30, 45), nil, 0, ""},

		"as promised":              {promising, []points{{codeOne, 60}}, 60, ""},
		"more than promised":       {promising, []points{{codeOne, 75}, {codeTwo, 5}}, 80, ""},
		"fewer than promised":      {promising, []points{{codeOne, 59}}, 0, tooFew},
		"not emitted":              {promising, []points{{codeTwo, 5}}, 5, ""},
		"nothing emitted":          {promising, nil, 0, ""},
		"others take a surplus":    {promising, []points{{codeOne, 75}, {codeTwo, -15}}, 60, ""},
		"others take points":       {promising, []points{{codeOne, 75}, {codeTwo, -16}}, 0, takePoints},
		"a review, as promised":    {reviewing, []points{{codeOne, 60}, {codeTwo, 5}}, 65, ""},
		"more than a review":       {reviewing, []points{{codeOne, 61}}, 0, "more points than its manifest says"},
		"one emission falls short": {promising, []points{{codeOne, 60}, {codeOne, 20}}, 0, tooFew},
	}, func(t *testing.T, c testCase) {
		m := manifest()
		maps.Copy(m, c.declared)
		got, err := scoreOf(openIn(t, sandboxOf(t, 1), pack(t, emitting(c.signals).encode(), m)), testEntity)
		if c.refused != "" {
			failure := failureOf(t, err)
			expect.That(t, failure.Reason == check.Refused && strings.Contains(failure.Rule, c.refused),
				"%v, want refused: %s", failure, c.refused)
			return
		}
		expect.That(t, err == nil && got.Score == c.want && len(got.Signals) == len(c.signals),
			"%+v, %v, want the score %d", got, err, c.want)
		for _, s := range got.Signals {
			promised := s.Code == codeOne && m["class"] == "finding"
			expect.That(t, (s.Threat == "scam") == promised, "%s is evidence for %q", s.Code, s.Threat)
		}
	})
}

// emitting returns a guest that emits the given signals.
func emitting(signals []points) *guest {
	g := newGuest()
	var code [][]byte
	for _, s := range signals {
		code = append(code, g.signal(s.points, s.code, "Because"))
	}
	return g.scoring(append(code, returnScored)...)
}
