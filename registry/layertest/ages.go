package layertest

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ReportedAges returns the days from registration to report of the reported domains in dns_meta_malicious.jsonl, in the
// folder that ASSAY_DATA names. Without ASSAY_DATA the test is skipped.
func ReportedAges(t *testing.T) (days []int) {
	t.Helper()
	folder := os.Getenv("ASSAY_DATA")
	if folder == "" {
		t.Skip("ASSAY_DATA names no folder with labelled rows")
	}
	file, err := os.Open(filepath.Join(folder, "dns_meta_malicious.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct{ Reported, Created string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		created, err := time.Parse(time.DateOnly, row.Created)
		reported, err2 := time.Parse(time.DateOnly, row.Reported)
		if err == nil && err2 == nil {
			days = append(days, int(reported.Sub(created).Hours()/24))
		}
	}
	if len(days) < 1000 {
		t.Fatalf("only %d rows have both dates", len(days))
	}
	return days
}
