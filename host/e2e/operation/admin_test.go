package operation

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"assay/host/access/apikey"
	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// TestAdmin looks at what a host shows operators, and that customers do not see it.
func TestAdmin(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, "--witness=http://127.0.0.1:1 "+hosttest.WitnessKey)
	key := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
	a := hosttest.Post(http.DefaultClient, host.URL, key, `{"domain":"example.com"}`)
	expect.Must(t, a.Status == http.StatusOK, "a check: %+v", a)
	expect.Until(t, "the report of a witness that is down", func() bool {
		return strings.Contains(hosttest.Get(t, host.Admin+"/readyz", ""),
			`{"status":"ready","degraded":["witness w.example `+`has not cosigned checkpoints of audit chain 0`)
	})
	expect.That(t, strings.Contains(hosttest.Get(t, host.Admin+"/metrics", ""),
		`assay_witness_waiting_seconds{witness="w.example"} `), "a witness has no metric")
	for _, path := range []string{"/readyz", "/healthz"} {
		text := hosttest.Get(t, host.URL+path, "")
		expect.That(t, !strings.Contains(text, "degraded"), "customers see %s", text)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/heap", "/operator"} {
		response, _ := fetch(t, http.DefaultClient, host.URL+path)
		expect.That(t, response.StatusCode == http.StatusNotFound, "customers get %s with status %d", path,
			response.StatusCode)
	}
	metrics := hosttest.Get(t, host.Admin+"/metrics", "")
	wantDocumentedMetrics(t, metrics)
	wantMonitoredMetrics(t, metrics)
	for _, name := range []string{"heap", "goroutine", "profile?seconds=1"} {
		var recorded bytes.Buffer
		expect.NoError(t, cli.Download(t.Context(), host.Admin+"/debug/pprof/"+name, &recorded))
		p := expect.Value(profile.Parse(&recorded))(t) // as go tool pprof does
		expect.That(t, len(p.SampleType) != 0, "profile %s has no samples", name)
	}

	// A second host with the same explicit address does not start.
	second := hosttest.Command(t.Context(), hosttest.DataDir(t), database, "--admin-listen",
		strings.TrimPrefix(host.Admin, "http://"))
	_, err := hosttest.TryHost(t, second)
	expect.ErrorText(t, "an address that is taken", err, "address already in use")
}

// wantDocumentedMetrics compares a host's metrics with docs/metrics.md. Metrics with labels may be missing.
func wantDocumentedMetrics(t *testing.T, scraped string) {
	t.Helper()
	page := hosttest.ReadText(t, "../../../docs/metrics.md")
	types := map[string]string{}
	for line := range strings.Lines(scraped) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" && strings.HasPrefix(f[2], "assay_") {
			types[f[2]] = f[3]
		}
	}
	for name, kind := range types {
		_, help, _ := strings.Cut(scraped, "# HELP "+name+" ")
		help, _, _ = strings.Cut(help, "\n")
		_, row, found := strings.Cut(page, "\n| `"+name+"` | "+kind+" | ")
		row, _, _ = strings.Cut(row, "\n")
		expect.That(t, found && strings.HasSuffix(row, "| "+help+" |"), "docs/metrics.md lacks a row for the %s %s: %s",
			kind, name, help)
	}
	for line := range strings.Lines(page) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | ")
		_, labels, _ := strings.Cut(rest, " | ")
		optional := !strings.HasPrefix(labels, " | ") || strings.Contains(labels, "Absent without ")
		expect.That(t, !ok || optional || types[name] != "", "a host does not have the metric %s of docs/metrics.md",
			name)
	}
}
