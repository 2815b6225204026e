package main

import (
	"strings"
	"testing"

	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
	layertest.Abstains(t, Score, map[string]sdk.Facts{
		"no number":       {"entity.type": "phone", "entity.country": "FR"},
		"no valid number": {"phone.e164": "+10123456789", "phone.valid": "no", "phone.type": "unknown"},
	})
}

// TestGuessedCountryCountsHalf checks that evidence that depends on a guessed country counts half.
func TestGuessedCountryCountsHalf(t *testing.T) {
	t.Parallel()
	facts := sdk.Facts{"phone.e164": "+33999961234", "phone.valid": "yes", "phone.type": "voip"}
	sure := sdk.Run(Score, facts).Score
	facts["phone.assumed"] = "yes"
	if guessed := sdk.Run(Score, facts).Score; sure == 0 || guessed*2 != sure {
		t.Errorf("score %d, and %d if the country is a guess, want half", sure, guessed)
	}
}

func TestOperatorRange(t *testing.T) {
	t.Parallel()
	for digits, want := range map[string]bool{
		"33189123456": true, "33412059214": true, "33531971234": true, "33140205050": false, "33320123456": false,
		"33596501234": false, "33123456789": false, "3318912345": false, "44189123456": false, "": false,
	} {
		expect.Equal(t, "isOperatorRange of "+digits, isOperatorRange(digits), want)
	}
}

// TestReportedBlocks checks the form of the table.
func TestReportedBlocks(t *testing.T) {
	t.Parallel()
	words := strings.Fields(reportedBlocks)
	expect.That(t, len(words) >= 100, "the table has %d blocks, want at least 100", len(words))
	for _, word := range words {
		block, _, _ := strings.Cut(word, ":")
		points := blockPoints(block)
		expect.That(t, points > 0 && points <= 40 && strings.Trim(block, "0123456789") == "",
			"block %q has %d points, want digits with 1 to 40", word, points)
	}
	for _, digits := range []string{"", "9", "33", "3312345", strings.Repeat("9", 40), ": 33:"} {
		block, points := reportedBlock(digits)
		expect.That(t, points == 0, "reportedBlock(%q) = %q, %d", digits, block, points)
	}
	block, _ := reportedBlock("972732123456")
	expect.That(t, block == "972732", "the block of +972 73 2123456 is %q, want 972732", block)
}

func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("+33612345678", "mobile", "yes", "no", "FR", "DE")
	f.Add("+\xff", "uan", "maybe", "yes", "\x00", "F\nR")
	f.Fuzz(func(t *testing.T, e164, kind, valid, assumed, held, asked string) {
		suite.Check(t, Score, sdk.Facts{
			"phone.e164": e164, "phone.type": kind, "phone.valid": valid, "phone.assumed": assumed,
			"phone.country": held, "entity.country": asked,
		})
	})
}
