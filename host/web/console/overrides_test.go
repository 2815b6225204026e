package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// testOverridesPage sets, replaces and removes verdicts without JavaScript.
func testOverridesPage(t *testing.T, s *site) {
	v, key := s.customer(t, "free")
	day := s.clock.Now().UTC().AddDate(0, 0, 30).Format(time.DateOnly)
	v.follow("Overrides").is(200, "No overrides yet: the layers decide every check.")
	v.press("Save", "action", "block", "kind", "email", "value", "Jane.Roe@example.net", "reason", "<b>chargebacks</b>",
		"until", day).is(200, "The override is saved. It takes effect within a second.")
	v.is(200, "block j...@example.net Email address", "<b>chargebacks</b>")
	v.lacks("jane.roe", "Jane.Roe")
	v.press("Save", "action", "allow", "kind", "email", "value", "jane.roe+x@example.net", "reason", "refunded",
		"until", day).is(200, "The override is saved in place of the earlier one for the same value.")
	v.is(200, "allow j...@example.net Email address", "refunded")

	other, _ := s.customer(t, "pro")
	other.get("/dashboard/overrides").is(200, "No overrides yet")
	list, err := s.store.Overrides(t.Context(), account(t, s, v.token()))
	expect.Must(t, err == nil && len(list) == 1, "listed %v, %v", list, err)

	// The id that signals cite finds it, and it changes without its value.
	v.get("/dashboard/overrides?find="+strings.ToLower(list[0].ID)).is(200, list[0].ID, "by dashboard")
	v.get("/dashboard/overrides?find=nothing")
	v.lacks(list[0].ID)
	v.get("/dashboard/overrides")
	v.follow("Change").is(200, "Change an override", list[0].ID)
	v.press("Save", "reason", "refunded twice", "author", "Mia").is(400, "Change an override", "The action must be")
	v.press("Save", "action", "block", "reason", "refunded twice", "author", "Mia")
	v.is(200, "in place of the earlier one", "j...@example.net Email address", "refunded twice", "by Mia")
	other.post("/dashboard/overrides", "csrf", other.get("/dashboard/overrides").token(), "edit", list[0].ID, "action",
		"allow", "reason", "x", "until", day).is(404, "The override was already removed.")
	other.post("/dashboard/overrides/"+list[0].ID+"/remove", "csrf", other.get("/dashboard/overrides").token()).
		is(404, "The override was already removed.")

	s.record(t, key, entity.Email, "jane.roe@example.net", check.Allow)
	v.submit("/dashboard/privacy", "Find", "who", "jane.roe@example.net").is(200, "Overrides: block until")
	v.get("/dashboard/overrides")
	v.press("Remove").is(200, "The override is removed. The layers decide again within a second.", "No overrides yet")
}

func testOverridesPageErrors(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	now := s.clock.Now().UTC()
	day, late := now.AddDate(0, 0, 30).Format(time.DateOnly), now.AddDate(0, 0, 366).Format(time.DateOnly)
	for _, test := range []struct{ kind, value, reason, until, field, want string }{
		{"domain", "example", "x", day, "value", "The domain has no dot"},
		{"registrable_domain", "www.example.com", "x", day, "value", "The registrable domain must be 'example.com'"},
		{"number_range", "030 12", "x", day, "value", "The number range must begin with '+'"},
		{"iban", "DE", "x", day, "value", "The IBAN is shorter than"},
		{"bank", "DE12", "x", day, "value", "The bank must be DE and the 8 characters"},
		{"domain", "example.com", " ", day, "reason", "The reason is required"},
		{"domain", "example.com", "x", late, "until", "The last day must be within a year"},
		{"domain", "example.com", "x", "soon", "until", "The last day must be a day such as"},
		{"nonsense", "example.com", "x", day, "kind", "The kind is unknown"},
	} {
		v.get("/dashboard/overrides")
		v.press("Save", "action", "block", "kind", test.kind, "value", test.value, "reason", test.reason,
			"until", test.until)
		field, text := v.at.problem()
		expect.That(t, v.at.status == 400 && field == test.field && strings.HasPrefix(text, test.want),
			"%+v: status %d, field %s: %s", test, v.at.status, field, text)
		v.is(400, "No overrides yet")
	}
}

// testListPages walks through a list that is longer than a page.
func testListPages(t *testing.T, s *site) {
	v, key := s.customer(t, "pro")
	caller := expect.Value(s.store.Authenticate(t.Context(), key))(t)
	for n := range rowsPerPage + 1 {
		target, err := override.ParseTarget(override.Domain, fmt.Sprintf("n%02d.example", n), "")
		if err == nil {
			_, err = s.store.AddOverride(t.Context(), caller, override.Wanted{Action: check.Block, Target: target,
				Reason: fmt.Sprintf("reason %02d", n), ExpiresAt: s.clock.Now().Add(time.Hour)})
		}
		expect.NoError(t, err)
	}
	v.follow("Overrides").is(200, "Page 1 of 2 Next")
	expect.That(t, !strings.Contains(v.at.body, "reason 00") && strings.Count(v.at.body, "/remove") == rowsPerPage,
		"the first page shows more than the newest overrides")
	v.follow("Next").is(200, "Previous Page 2 of 2")
	expect.That(t, strings.Contains(v.at.body, "reason 00") && strings.Count(v.at.body, "/remove") == 1,
		"the second page does not show the oldest override alone")
	for _, page := range []string{"0", "-1", "x"} {
		v.get("/dashboard/overrides?page="+page).is(200, "Page 1 of 2")
	}
	v.get("/dashboard/overrides?page=3").is(200, "Page 2 of 2")
}

// record records a check of a value for a key, as the host does, and returns its reference.
func (s *site) record(t *testing.T, key string, kind entity.Type, value string, verdict check.Verdict) string {
	t.Helper()
	return s.recordAll(t, key, kind, value, verdict, 1)
}

// recordAll records n checks of a value in one transaction, and returns the last reference.
func (s *site) recordAll(t *testing.T, key string, kind entity.Type, value string, verdict check.Verdict,
	n int) string {
	t.Helper()
	caller := expect.Value(s.store.Authenticate(t.Context(), key))(t)
	e, records := storetest.Parse(t, kind, value), make([]check.Record, n)
	for i := range records {
		records[i] = storetest.At(storetest.Decided(caller, e, verdict), s.clock.Now().UTC().Truncate(time.Millisecond))
	}
	expect.NoError(t, s.ledger().Append(t.Context(), records...))
	return records[n-1].Decision.Ref
}

// testPrivacyPage finds, downloads and erases a person's data with a free key, without the value in any URL.
func testPrivacyPage(t *testing.T, s *site) {
	v, key := s.customer(t, "free")
	const jane = "jane.roe@example.net"
	ref := s.record(t, key, entity.Email, jane, check.Block)
	s.record(t, key, entity.Email, jane, check.Allow)
	other := s.record(t, key, entity.Email, "john.roe@example.net", check.Allow)
	v.follow("Privacy").is(200, "A person decides")
	v.press("Find", "who", " "+jane+" ")
	v.is(200, "Audit log: 2 checks of type email Reputation graph: 2 checks by your account "+
		"(1 blocked, 0 to review), 2 links")
	expect.That(t, strings.Contains(v.at.body, ref) && !strings.Contains(v.at.body, other),
		"the page shows the wrong checks:\n%s", words(v.at.root))
	_, subject, _ := strings.Cut(words(v.at.root), "Subject reference: ")
	subject, _, _ = strings.Cut(subject, " ")
	for _, who := range []string{ref, subject} {
		v.submit("/dashboard/privacy", "Find", "who", who).is(200, "Audit log: 2 checks of type email")
	}
	file := v.alone().press("Download as JSON")
	var held struct {
		Subject string
		Checks  []struct{ Ref, Verdict string }
	}
	err := json.Unmarshal([]byte(file.body), &held)
	expect.That(t, err == nil && held.Subject == subject && len(held.Checks) == 2 && held.Checks[0].Ref == ref,
		"downloaded %s: %v", file.body, err)
	kind, as := file.header.Get("Content-Type"), file.header.Get("Content-Disposition")
	expect.That(t, kind == "application/json" && as == `attachment; filename="subject.json"`,
		"the download is of type %q, %q", kind, as)

	v.press("Erase …").is(200, "Erase all of this permanently? "+subject+" Audit log: 2 checks")
	v.follow("Keep it")
	v.press("Find", "who", jane).is(200, "2 checks")
	v.press("Erase …")
	v.press("Erase permanently")
	v.is(200, "Permanently erased: 2 checks, 0 webhook events, 1 entry and 2 links in the reputation graph.")
	v.lacks(jane)
	v.press("Find", "who", ref)
	v.is(200, "Audit log: 0 checks Reputation graph: nothing", "2 checks erased, recorded as erasure_")
	v.lacks("Erase …")
	v.get("/dashboard/checks")
	expect.That(t, !strings.Contains(v.at.body, ref) && strings.Contains(v.at.body, other),
		"the list shows the wrong checks:\n%s", words(v.at.root))
}

func testPrivacyPageErrors(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	_, theirs := s.customer(t, "pro")
	ref := s.record(t, theirs, entity.Domain, "example.org", check.Allow)
	for who, want := range map[string]struct {
		status int
		text   string
	}{
		ref:                 {404, "Your account has no data for this value or reference."},
		"example.org":       {404, "Your account has no data for this value or reference."},
		"chk_%":             {400, "The check reference must be the reference of a check"},
		"sub_*":             {400, "The subject reference must be sub_ and 64 lowercase hexadecimal digits"},
		"":                  {400, "is empty"},
		"a\x00b.example":    {400, "contains U+FFFD"},
		`"><b>x</b>`:        {400, "The domain contains"},
		"jane@@example.org": {400, "The email has more than one"},
	} {
		v.get("/dashboard/privacy")
		token := v.at.token()
		for _, path := range []string{"/dashboard/privacy", "/dashboard/privacy/export", "/dashboard/privacy/erase"} {
			for _, sure := range []string{"", "yes"} {
				p := v.post(path, "csrf", token, "who", who, "sure", sure)
				status, text := want.status, want.text
				if who == "example.org" && strings.HasSuffix(path, "erase") && sure == "yes" {
					status, text = 200, "There was nothing left to erase" // a value without data is not an error
				}
				expect.That(t, p.status == status && strings.Contains(words(p.root), text) && !strings.Contains(p.body,
					"<b>x"), "%s %q: %d, want %d and %q:\n%s", path, who, p.status, status, text, words(p.root))
			}
		}
	}
	v.get("/dashboard/privacy?who=example.org")
	expect.That(t, !strings.Contains(v.at.body, "example.org"), "the form takes the value from the URL")
}

// testLargeSubjectPage exports and erases a person with many checks: the page lists both requests with their progress.
func testLargeSubjectPage(t *testing.T, s *site) {
	v, key := s.customer(t, "pro")
	const jane = "jane.roe@example.net"
	s.record(t, key, entity.Email, jane, check.Allow)
	for range privacy.AtOnce / 50 {
		s.recordAll(t, key, entity.Email, jane, check.Allow, 50)
	}
	finish := func() {
		work := expect.Value(s.store.ClaimRequest(t.Context()))(t)
		for more := true; more; {
			more = expect.Value(work.Step(t.Context()))(t)
		}
	}
	v.follow("Privacy")
	v.press("Find", "who", jane)
	v.press("Download as JSON").is(200, "The export of 1001 checks has begun", "running 0 of 1001")
	finish()
	v.get("/dashboard/privacy").is(200, "done 1001 of 1001")
	var parts []privacy.Export
	expect.NoError(t, json.Unmarshal([]byte(v.alone().press("Download").body), &parts))
	expect.That(t, len(parts) == 2 && len(parts[0].Checks)+len(parts[1].Checks) == 1001, "downloaded %d parts",
		len(parts))
	v.press("Find", "who", jane)
	v.press("Erase …")
	v.press("Erase permanently").is(200, "The erasure of 1001 checks has begun")
	finish()
	v.get("/dashboard/privacy").is(200, "done 1001 of 1001", "deleted 1001 of 1001")
	v.lacks("Download</button>", jane)
}
