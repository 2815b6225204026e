package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/postgres/postgrestest"
	"assay/host/store/storetest"
)

// TestAdmin looks at what a host shows operators, and that customers do not see it.
func TestAdmin(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database)
	if a := post(http.DefaultClient, host.url, newDemoKey(t, dir, database), `{"domain":"example.com"}`); a.Status != 200 {
		t.Fatalf("a check: %+v", a)
	}
	for _, path := range []string{"/readyz", "/healthz"} {
		if text := get(t, host.url+path, ""); strings.Contains(text, "degraded") {
			t.Errorf("customers see %s", text)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/heap", "/operator"} {
		response, err := http.Get(host.url + path)
		storetest.NoError(t, err)
		storetest.NoError(t, response.Body.Close())
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("customers get %s with status %d", path, response.StatusCode)
		}
	}
	wantDocumentedMetrics(t, get(t, host.admin+"/metrics", ""))
	for _, profile := range []string{"heap", "goroutine", "profile?seconds=1"} {
		file := filepath.Join(t.TempDir(), "pprof")
		storetest.NoError(t, writeProfile(t.Context(), host.admin+"/debug/pprof/"+profile, file))
		out, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "flat%") {
			t.Errorf("go tool pprof on %s: %v\n%s", profile, err, out)
		}
	}

	// A second host with the same explicit address does not start. With the default, it takes another port.
	second := command(t.Context(), dataDir(t), database, "--admin-listen", strings.TrimPrefix(host.admin, "http://"))
	_, err := tryHost(t, second)
	storetest.WantErrorText(t, "an address that is taken", err, "ASSAY_ADMIN_LISTEN", "address already in use")
	off := startHost(t, dataDir(t), database, "--admin-listen=off")
	if off.admin != "" {
		t.Errorf("a host without an address for operators printed %s", off.admin)
	}
}

// wantDocumentedMetrics compares a host's metrics with docs/metrics.md. Metrics with labels may be missing.
func wantDocumentedMetrics(t *testing.T, scraped string) {
	t.Helper()
	page := readText(t, "../docs/metrics.md")
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
		if !found || !strings.HasSuffix(row, "| "+help+" |") {
			t.Errorf("docs/metrics.md lacks a row for the %s %s: %s", kind, name, help)
		}
	}
	for line := range strings.Lines(page) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | ")
		if _, labels, _ := strings.Cut(rest, " | "); ok && strings.HasPrefix(labels, " | ") && types[name] == "" {
			t.Errorf("a host does not have the metric %s of docs/metrics.md", name)
		}
	}
}
