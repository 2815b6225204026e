package main

import (
	"testing"

	"layer/my-layer/sdk"
)

// These tests run natively, within a second. `assay plugin test` runs cases.jsonl in the sandbox.
func TestScore(t *testing.T) {
	t.Parallel()
	if got := sdk.Run(Score, sdk.Facts{"domain.registrable": "a.de"}); got.Outcome != sdk.Scored || got.Score != 0 {
		t.Errorf("got %+v, want the score 0", got)
	}
	if got := sdk.Run(Score, sdk.Facts{}); got.Outcome != sdk.Abstained {
		t.Errorf("without facts, got %+v", got)
	}
}
