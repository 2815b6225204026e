package console

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

func testUsagePage(t *testing.T, s *site) {
	storetest.WithinMonth(time.Minute) // a new month would begin with no checks
	v, key := s.customer(t, "starter")
	v.get("/dashboard")
	v.follow("By day, key and type")
	v.is(200, "0 of 150 checks", "A forecast appears two full days after", "No checks were recorded in this month.")
	for range 3 {
		s.record(t, key, entity.Domain, "example.org", check.Allow)
	}
	s.record(t, key, entity.Email, "jane@example.net", check.Block)
	v.get("/dashboard/usage").is(200, "4 of 150 checks", "allow: 3", "domain 30 03 email 00 11")
	for _, month := range []string{"2001-01", "9999-01", "x", ""} { // neither kept nor over: this month
		v.get("/dashboard/usage?month="+month).is(200, "4 of 150 checks")
	}
	now := s.clock.Load().UTC()
	v.get("/dashboard/usage?month=" + now.AddDate(0, 0, -now.Day()).Format(decision.MonthFormat)) // the month before
	v.is(200, "0 checks")
	v.lacks("forecast")
}

// TestHoursOfFewDays checks that the overview draws hours while there are checks on today and yesterday alone.
func TestHoursOfFewDays(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, key := s.customer(t, "starter")
	s.record(t, key, entity.Domain, "example.org", check.Allow)
	v.get("/dashboard").is(200, "hours", "Hour (UTC)", ":00: 1 allow, 0 review, 0 block")
	s.pass(72 * time.Hour)
	s.signIn(t, v.code).is(200, "last 30 days", "Day (UTC)", ": 1 allow, 0 review, 0 block")
}

func TestTallies(t *testing.T) {
	t.Parallel()
	counts := []decision.Count{{Key: "a", Verdict: "allow", Checks: 1}, {Key: "b", Verdict: "block", Checks: 3},
		{Key: "c", Verdict: "review", Checks: 1}, {Key: "a", Verdict: "review", Checks: 1}}
	got := tallies(counts, func(c decision.Count) string { return c.Key })
	want := []tally{{"b", 0, 0, 3, 3}, {"a", 1, 1, 0, 2}, {"c", 0, 1, 0, 1}}
	expect.NoDiff(t, "tallies", want, got)
}

func TestDownloadChecks(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, key := s.customer(t, "starter")
	ref := s.record(t, key, entity.Domain, "example.org", check.Allow)
	blocked := s.record(t, key, entity.Email, "jane@example.net", check.Block)
	s.pass(time.Second)
	v.get("/dashboard/checks")
	v.follow("CSV")
	lines, err := csv.NewReader(strings.NewReader(v.at.body)).ReadAll()
	if err != nil || len(lines) != 3 || !strings.Contains(v.at.body, ref) || v.at.header.Get("X-Total-Count") != "2" ||
		v.at.header.Get("Content-Disposition") != `attachment; filename="checks.csv"` {
		t.Errorf("%v, %v: %s", v.at.header, err, v.at.body)
	}
	v.get("/dashboard/checks?verdict=block")
	v.follow("JSON")
	var document struct{ Checks []decision.Check }
	err = json.Unmarshal([]byte(v.at.body), &document)
	expect.That(t, err == nil && len(document.Checks) == 1 && document.Checks[0].Ref == blocked, "%v: %s", err,
		v.at.body)
	v.get("/dashboard/checks/export?format=json&from=soon").is(400, "must be a day such as 2026-01-31")
	v.get("/dashboard/checks/export?format=xml").is(400, "must be csv or json")
	stranger := s.visit(t)
	stranger.get("/dashboard/checks/export?format=csv").is(200, "Sign in")
}
