package layertest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/registry/expect"
)

// Rows calls each for every row of a file in the folder that ASSAY_DATA names. Without ASSAY_DATA the test is skipped,
// because the repository holds no rows.
func Rows[Row any](t *testing.T, name string, each func(Row)) {
	t.Helper()
	folder := os.Getenv("ASSAY_DATA")
	if folder == "" {
		t.Skip("this test needs labelled rows: set ASSAY_DATA to a folder with train_domains.jsonl and the others")
	}
	file, err := os.Open(filepath.Join(folder, name))
	expect.NoError(t, err)
	defer file.Close()
	var rows io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if rows, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	for lines := bufio.NewScanner(rows); lines.Scan(); {
		var row Row
		expect.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		each(row)
	}
}

// ReportedAges returns the days from registration to report of the reported domains in dns_meta_malicious.jsonl.
func ReportedAges(t *testing.T) (days []int) {
	t.Helper()
	Rows(t, "dns_meta_malicious.jsonl", func(row struct{ Reported, Created string }) {
		created, err := time.Parse(time.DateOnly, row.Created)
		reported, err2 := time.Parse(time.DateOnly, row.Reported)
		if err == nil && err2 == nil {
			days = append(days, int(reported.Sub(created).Hours()/24))
		}
	})
	expect.Must(t, len(days) >= 1000, "only %d rows have both dates", len(days))
	return days
}
