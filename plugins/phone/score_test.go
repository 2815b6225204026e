package main

import (
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks which verdicts the points cause when every other layer scores 0.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	layertest.Abstains(t, Score, map[string]sdk.Facts{"country": {"entity.type": "phone", "entity.country": "FR"}})
	suite.CheckVerdict(t, check.Block, blocks)
	suite.CheckVerdict(t, check.Review, reviews)
	suite.CheckVerdict(t, check.Allow, adds, hints, assumes)
}

func TestLabelled(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").Labelled(t, Score, layertest.Limits{Rows: 1000, Points: 20, Found: 0.73})
}

// A signal counts less if the country is a guess, and least if the number is ordinary in another likely country.
func TestAssumedCountryScoresLess(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string]sdk.Facts{
		"premium":    {"phone.valid": "yes", "phone.type": "premium_rate"},
		"too long":   {"phone.valid": "no", "phone.possible": "too_long"},
		"unassigned": {"phone.valid": "no", "phone.possible": "possible"},
		"fictional": {"phone.valid": "yes", "phone.type": "mobile", "phone.calling_code": "44",
			"phone.national": "7700900123"},
		"telemarket":  {"phone.valid": "yes", "phone.calling_code": "33", "phone.national": "162012345"},
		"global code": {"phone.valid": "yes", "phone.calling_code": "979", "phone.national": "123456789"},
	}, func(t *testing.T, facts sdk.Facts) {
		facts["phone.e164"] = "+" + facts["phone.calling_code"] + facts["phone.national"]
		facts["phone.assumed"], facts["phone.otherwise_ordinary"] = "no", "no"
		sure := sdk.Run(Score, facts).Score
		facts["phone.assumed"] = "yes"
		guessed := sdk.Run(Score, facts).Score
		facts["phone.otherwise_ordinary"] = "yes"
		doubted := sdk.Run(Score, facts).Score
		expect.That(t, sure >= 60 && guessed <= sure*4/5 && doubted <= sure/4 && doubted != 0,
			"score %d when sure, want at least 60; %d when guessed, want at most four fifths of it; "+
				"%d when as likely ordinary, want 1 to a quarter of it", sure, guessed, doubted)
	})
}

// The text does not say that the request names no country if it does.
func TestGuessedCountrySaysWhy(t *testing.T) {
	t.Parallel()
	for named, want := range map[string]string{
		"": "no country", "EU": "no country", "US": "Fits no plan of US, so read as a number of GG",
	} {
		got := sdk.Run(Score, sdk.Facts{"phone.valid": "yes", "phone.e164": "+447911123456", "phone.country": "GG",
			"phone.assumed": "yes", "entity.country": named}).Signals
		expect.That(t, len(got) == 1 && strings.Contains(got[0].Text, want), "%q: %v, want %q", named, got, want)
	}
}

func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("+33612345678", "33", "612345678", "mobile", "yes", "possible", "no", "FR", "DE")
	f.Add("+12125550123", "1", "2125550123", "fixed_line_or_mobile", "yes", "possible", "yes", "US", "EU")
	f.Add("", "", "", "unknown", "no", "", "yes", "", "EU")
	f.Add("+\xff", "882", "\u202e", "personal", "maybe", "too_short", "no", "\x00", "F\nR")
	f.Fuzz(func(t *testing.T, e164, code, national, kind, valid, possible, assumed, held, asked string) {
		suite.Check(t, Score, sdk.Facts{
			"phone.e164": e164, "phone.calling_code": code, "phone.national": national, "phone.type": kind,
			"phone.valid": valid, "phone.possible": possible, "phone.assumed": assumed,
			"phone.otherwise_ordinary": assumed, "phone.country": held, "entity.country": asked,
		})
	})
}
