package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"assay/host/entity"
	"assay/sdk"
)

// TestLabelled holds the layer to the labelled lines of the folder that ASSAY_DATA names. Blocks and reviews are those of the
// layer alone at its default weight: at most 0.3% of honest lines
// may be blocked and 2% reviewed.
func TestLabelled(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("ASSAY_DATA")
	if folder == "" {
		t.Skip("ASSAY_DATA names no folder with labelled lines")
	}
	file, err := os.Open(filepath.Join(folder, "train_ibans.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var honest, bad struct{ all, seen, reviewed, blocked float64 }
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct {
			Value string
			Label int
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		parsed, err := entity.Parse(entity.IBAN, row.Value, "")
		if err != nil {
			continue // refused before any layer runs
		}
		counts := &honest
		if row.Label == 1 {
			counts = &bad
		}
		counts.all++
		score := sdk.Run(Score, sdk.Facts(parsed.Facts)).Score
		if score > 20 {
			counts.seen++
		}
		if score >= 58 {
			counts.reviewed++
		}
		if score >= 78 {
			counts.blocked++
		}
	}
	if honest.all < 700 || bad.all < 700 {
		t.Fatalf("only %v honest and %v bad lines", honest.all, bad.all)
	}
	if honest.blocked > 0.003*honest.all || honest.reviewed > 0.02*honest.all || honest.seen > 0.01*honest.all {
		t.Errorf("of %v honest lines %v are blocked, %v reviewed or blocked, and %v over 20 points",
			honest.all, honest.blocked, honest.reviewed, honest.seen)
	}
	if bad.seen < 0.99*bad.all {
		t.Errorf("%v of %v bad lines have over 20 points", bad.seen, bad.all)
	}
}
