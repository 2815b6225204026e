package layertest

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"assay/host/entity"
	"assay/sdk"
)

// Bounds is what a layer by itself must keep to on labelled lines.
type Bounds struct {
	Lines int // at least so many of each label, else the file is not what it should be
	// the layer's score from which the built-in lineup asks for a review when no other layer says anything
	Review int
	Block  int     // and from which it blocks
	Seen   int     // a score above this is a finding: at most 1% of the honest lines
	Found  float64 // share of the bad lines that must be found
}

// Labelled holds layer to a file of the folder that ASSAY_DATA names, of lines {"value", "label"}: at most 0.3% of the
// honest lines may be blocked and 2% reviewed or blocked. Without that folder the test is skipped: labelled lines are
// nobody's to publish.
func Labelled(t *testing.T, layer sdk.Layer, of entity.Type, name string, want Bounds) {
	t.Helper()
	folder := os.Getenv("ASSAY_DATA")
	if folder == "" {
		t.Skip("ASSAY_DATA names no folder with labelled lines")
	}
	file, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var honest, bad struct{ all, found, reviewed, blocked float64 }
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct {
			Value string
			Label int
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		parsed, err := entity.Parse(of, row.Value, "")
		if err != nil {
			continue // refused before any layer runs
		}
		counts := &honest
		if row.Label == 1 {
			counts = &bad
		}
		counts.all++
		score := sdk.Run(layer, sdk.Facts(parsed.Facts)).Score
		if score > want.Seen {
			counts.found++
		}
		if score >= want.Review {
			counts.reviewed++
		}
		if score >= want.Block {
			counts.blocked++
		}
	}
	if min(honest.all, bad.all) < float64(want.Lines) {
		t.Fatalf("only %v honest and %v bad lines", honest.all, bad.all)
	}
	if honest.blocked > 0.003*honest.all || honest.reviewed > 0.02*honest.all || honest.found > 0.01*honest.all {
		t.Errorf("of %v honest lines %v are blocked, %v reviewed or blocked, and %v over %d points",
			honest.all, honest.blocked, honest.reviewed, honest.found, want.Seen)
	}
	if bad.found < want.Found*bad.all {
		t.Errorf("%v of %v bad lines have over %d points", bad.found, bad.all, want.Seen)
	}
}
