package main

import (
	"maps"
	"testing"

	"assay/host/check"
	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks which verdicts the points cause when every other layer scores 0.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	layertest.Abstains(t, Score, map[string]sdk.Facts{"country": {"entity.type": "iban", "entity.country": "DE"}})
	suite.CheckVerdict(t, check.Block, blocks)
	suite.CheckVerdict(t, check.Review, reviews)
	suite.CheckVerdict(t, check.Allow, adds, hints)
}

// The labels call the 16 published examples honest, because their check digits are right. The layer asks for a review.
func TestLabelled(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").Labelled(t, Score,
		layertest.Limits{Rows: 700, Points: adds, Found: 0.99, Except: "registry_example"})
}

func TestExamplesSearchable(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "examples is out of order at", wordlist.Fault(examples), "")
}

// TestAbsentFactsAreNotRisky drops each fact of a sound account in turn. An absent fact must never add points.
func TestAbsentFactsAreNotRisky(t *testing.T) {
	t.Parallel()
	sound := sdk.Facts{
		"iban.country": "DE", "iban.listed": "yes", "iban.structure": "ok", "iban.check": "ok",
		"iban.check_digits": "89", "iban.bban": "500105170648489890", "iban.bank": "50010517",
		"iban.account": "0648489890", "iban.sepa": "yes", "entity.country": "DE",
	}
	for absent := range sound {
		t.Run(absent, func(t *testing.T) {
			t.Parallel()
			facts := maps.Clone(sound)
			delete(facts, absent)
			if got := sdk.Run(Score, facts); got.Score != 0 || got.Threat != "" {
				t.Errorf("score %d, threat %q without %s: %v", got.Score, got.Threat, absent, got.Signals)
			}
		})
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]bool{
		"1234567890": true, "0123456789": true, "00012345678": true, "9876543210": true, "87654321": true,
		"7890123456": true, "1234567": false, "1234567891": false, "1234567892": false, "1111111111": false,
		"0000000000": false, "": false, "12345678A": false, "ABCDEFGHI": false, "0532013000": false,
		"2468024680": false,
	} {
		expect.Equal(t, "isSequence of "+account, isSequence(account), want)
	}
}

func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("DE", "yes", "ok", "ok", "ok", "370400440532013000", "37040044", "0532013000", "yes", "FR")
	f.Add("US", "no", "", "wrong", "", "", "", "", "", "EU")
	f.Add("\xff", "yes", "format", "wrong", "wrong", "\u202e", "0", "0000000000", "no", "\x00")
	f.Fuzz(func(t *testing.T, country, listed, structure, check, national, bban, bank, account, sepa, asked string) {
		suite.Check(t, Score, sdk.Facts{
			"iban.country": country, "iban.listed": listed, "iban.structure": structure, "iban.check": check,
			"iban.check_digits": asked, "iban.national": national, "iban.bban": bban, "iban.bank": bank,
			"iban.account": account, "iban.sepa": sepa, "entity.country": asked,
		})
	})
}
