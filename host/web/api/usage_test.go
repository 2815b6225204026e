package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/registry/expect"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	d := &decisions{}
	now := time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)
	s := start(t, Config{Decisions: d, Now: func() time.Time { return now }})
	for path, month := range map[string]string{"/api/usage": "2026-11", "/api/usage?month=2026-02": "2026-02"} {
		r := s.ask(t, goodKey, "GET "+path, "")
		r.wellBehaved(t)
		want := `{"month":"` + month + `","quota":1500,"used":8,"forecast":44,"counts":[]}`
		expect.That(t, r.body == want, "%s: %d %s, want %s", path, r.status, r.body, want)
	}
}

func TestExportChecks(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Decisions: &decisions{}, EventSlots: admission.NewShares(1)})
	for range 3 { // each gives its slot back
		r := s.ask(t, goodKey, "GET /api/checks/export?format=json&verdict=block&from=2026-01-01T00:00:00Z", "")
		var document struct {
			Checks []decision.Check
			Total  int
		}
		err := json.Unmarshal([]byte(r.body), &document)
		expect.Must(t, err == nil && document.Total == 2 && len(document.Checks) == 2 &&
			document.Checks[1] == recordedCheck, "%d, %v: %s", r.status, err, r.body)
		if r.header.Get("X-Total-Count") != "1" || // one of the eight that are counted is a block
			r.header.Get("Content-Disposition") != `attachment; filename="checks.json"` {
			t.Errorf("headers %v", r.header)
		}
	}
	r := s.ask(t, goodKey, "GET /api/checks/export?format=csv", "")
	if lines := strings.Split(r.body, "\r\n"); len(lines) != 4 || r.header.Get("X-Total-Count") != "8" ||
		lines[1] != knownRef+",2026-01-15T10:30:00.123Z,email,78,block,key_1,12,false" {
		t.Errorf("%d %q, %v", r.status, r.body, r.header)
	}
	r = s.ask(t, goodKey, "HEAD /api/checks/export?format=csv", "")
	expect.That(t, r.status == 200 && r.body == "", "HEAD: %d %q", r.status, r.body)
	s.ask(t, failKey, "GET /api/checks/export?format=csv", "").is(t, "a first page that cannot be read", 500)
}

// brokenPages are decisions whose second page cannot be read.
type brokenPages struct{ *decisions }

func (b brokenPages) SearchChecks(ctx context.Context, c check.Caller, q decision.Query) (*decision.Page, error) {
	if q.After != (decision.Cursor{}) {
		return nil, errors.New(secret)
	}
	return b.decisions.SearchChecks(ctx, c, q)
}

// TestBrokenExport checks that a client sees that an export broke off, and that its slot is free again.
func TestBrokenExport(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Decisions: brokenPages{&decisions{}}, EventSlots: admission.NewShares(1)})
	for range 2 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+s.addr+"/api/checks/export?format=csv", http.NoBody)
		expect.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+goodKey)
		response, err := http.DefaultClient.Do(request)
		expect.Must(t, err == nil && response.StatusCode == http.StatusOK, "%v, %v", response, err)
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		expect.That(t, err != nil && !strings.Contains(string(text), secret), "a broken export ends as a whole one: %q",
			text)
	}
}
