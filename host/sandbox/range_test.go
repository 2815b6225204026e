package sandbox

import (
	"strings"
	"testing"

	"assay/host/check"
)

// points is a signal of a test's guest.
type points struct {
	code   string
	points int
}

// A layer's score is the sum of its points, held to the manifest's range.
func TestScoreRange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class   string
		bounds  []int // nil: none declared
		signals []points
		want    int
	}{
		"no range holds a clearing sum to 0": {"", nil, []points{{codeOne, -60}, {codeTwo, 20}}, 0},
		"no range holds an alarming sum":     {"", nil, []points{{codeOne, 80}, {codeTwo, 80}}, 100},
		"a clearing sum": {"clearing", []int{-100, 0}, []points{{codeOne, -60}, {codeTwo, -20}},
			-80},
		"below a clearing range": {"clearing", []int{-70, 0}, []points{{codeOne, -60}, {codeTwo, -20}}, -70},
		"above a clearing range": {"clearing", []int{-70, 0}, []points{{codeOne, 10}}, 0},
		"within both sides":      {"style", []int{-30, 45}, []points{{codeOne, -60}, {codeTwo, 35}}, -25},
		"below both sides":       {"style", []int{-30, 45}, []points{{codeOne, -60}, {codeTwo, 5}}, -30},
		"above both sides":       {"style", []int{-30, 45}, []points{{codeOne, 60}}, 45},
		"no signals":             {"style", []int{-30, 45}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := manifest()
			m["class"] = c.class
			if c.bounds != nil {
				m["score_range"] = c.bounds
			}
			got, err := scoreOf(openIn(t, sandboxOf(t, 1), pack(t, emitting(c.signals).encode(), m)), testEntity)
			if err != nil || got.Score != c.want || len(got.Signals) != len(c.signals) {
				t.Errorf("%+v, %v, want the score %d", got, err, c.want)
			}
		})
	}
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

// A manifest promises the least points of a signal, so that a lineup can be held to the band that the signal warrants.
// An answer that breaks the promise is refused.
func TestPromisedPoints(t *testing.T) {
	t.Parallel()
	promising := map[string]any{"code": codeOne, "text": "One", "points": 60, "warrants": "block", "final": true,
		"threat": "scam"}
	for name, c := range map[string]struct {
		signals []points
		want    int
		refused string // a part of the refusal's rule; "" if the answer is accepted
	}{
		"as promised":           {[]points{{codeOne, 60}}, 60, ""},
		"more than promised":    {[]points{{codeOne, 75}, {codeTwo, 5}}, 80, ""},
		"fewer than promised":   {[]points{{codeOne, 59}}, 0, "fewer points than its manifest promises"},
		"not emitted":           {[]points{{codeTwo, 5}}, 5, ""},
		"nothing emitted":       {nil, 0, ""},
		"others take a surplus": {[]points{{codeOne, 75}, {codeTwo, -15}}, 60, ""},
		"others take points":    {[]points{{codeOne, 75}, {codeTwo, -16}}, 0, "other signals take points"},
		"one emission falls short": {[]points{{codeOne, 60}, {codeOne, 20}}, 0,
			"fewer points than its manifest promises"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := manifest()
			m["class"] = "finding"
			m["signals"] = []map[string]any{promising, {"code": codeTwo, "text": "Two"}}
			got, err := scoreOf(openIn(t, sandboxOf(t, 1), pack(t, emitting(c.signals).encode(), m)), testEntity)
			if c.refused != "" {
				if failure := failureOf(t, err); failure.Reason != check.Refused ||
					!strings.Contains(failure.Rule, c.refused) {
					t.Errorf("%v, want refused: %s", failure, c.refused)
				}
				return
			}
			if err != nil || got.Score != c.want {
				t.Errorf("%+v, %v, want the score %d", got, err, c.want)
			}
			for _, s := range got.Signals {
				if want := map[string]string{codeOne: "scam"}[s.Code]; s.Threat != want {
					t.Errorf("%s is evidence for %q, want %q", s.Code, s.Threat, want)
				}
			}
		})
	}
}
