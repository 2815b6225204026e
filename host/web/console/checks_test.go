package console

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// explained explains every check alike, to those who know the value.
type explained struct{ *store.Store }

func (x explained) Explain(ctx context.Context, c check.Caller, ref string, e entity.Entity) (*decision.Explanation,
	error) {
	found, err := x.RecordedCheck(ctx, c, ref, &e)
	if err != nil {
		return nil, err
	}
	return &decision.Explanation{Check: found.Check, Text: []string{"Because <i>of</i> this."},
		DecidedBy: &decision.Scoring{Revision: 12, Score: 91, Verdict: "block", Start: -40, Total: 33.4,
			Reasons: []decision.Reason{{Text: "Imitates <b>PayPal</b>", Layer: "brands", Points: 80},
				{Text: "Registered since 2009", Layer: "age", Points: -6.6, Today: true}},
			Unknown: []string{"Scored without DNS: no answer in time"}},
		Today: &decision.Scoring{Revision: 13, Score: 20, Verdict: "allow", Start: -20, Total: -20}}, nil
}

// testCheckPage finds, explains, reports, overrides and contests a check, without the value in any URL.
func testCheckPage(t *testing.T, s *site) {
	v, key := s.customer(t, "free")
	const jane = "jane.roe@example.net"
	ref := s.record(t, key, entity.Email, jane, check.Block)
	harmless := s.record(t, key, entity.Domain, "example.org", check.Allow)
	v.get("/dashboard")
	v.follow(ref).is(200, "of 100 block email,")
	v.is(200, "its content matches its hash Checkpoint no published checkpoint covers this record yet")
	v.is(200, "Webhook no event: there was no webhook when it was checked, or its event was deleted")
	v.press("Explain", "value", "john.roe@example.net").is(400, "The email is not the value of this check.")
	v.press("Explain", "value", "@").is(400, "The email ")
	v.press("Explain", "value", " Jane.Roe@example.net ")
	v.is(200, "Because <i>of</i> this. Under the lineup that decided, revision 12")
	v.is(200, "Baseline, before any finding −40.0 Imitates <b>PayPal</b> brands +80.0 Registered since 2009 age, with "+
		"today's facts −6.6 Total: a score of 91, block +33.4 What was not known Scored without DNS: no answer in "+
		"time Under today's lineup, revision 13")
	expect.That(t, !strings.Contains(v.at.body, "<b>PayPal") && !strings.Contains(v.at.url.String(), "jane"),
		"the page runs markup, or the value is in its URL")
	lengths := map[string]string{}
	for n := range v.at.root.Descendants() {
		if n.DataAtom == atom.Progress && attribute(n, "aria-hidden") != "" {
			lengths[attribute(n, "class")] = attribute(n, "value") + " of " + attribute(n, "max")
		}
	}
	expect.That(t, lengths["against"] == "80 of 80" && lengths["favour"] == "6.6 of 80" && len(lengths) == 2, "bars %v",
		lengths)
	day := s.clock.Now().UTC().AddDate(0, 0, 30).Format(time.DateOnly)
	v.press("Save", "action", "allow", "reason", "refunded", "until", day)
	v.is(200, "allow j...@example.net Email address", "refunded")

	v.get("/dashboard/checks/" + ref)
	v.press("Report", "label", "fraud", "note", strings.Repeat("x", 501)).is(400, "The note is longer than 500 bytes.")
	v.press("Report", "label", "legitimate", "note", "an <b>old</b> customer")
	v.is(200, "The feedback is saved.", "You reported this value as legitimate on", "Note: an <b>old</b> customer")
	v.press("Ask for a review", "reason", " ").is(400, "The reason is required.")
	v.press("Ask for a review", "reason", "x", "value", "john.roe@example.net").is(400, "The email is not the value of")
	v.press("Ask for a review", "reason", "x", "contact", strings.Repeat("x", 201)).is(400, "The contact is longer")
	v.press("Ask for a review", "reason", "She says: <b>no</b>", "value", jane, "contact", "<b>Jane")
	v.is(200, "The review has been requested.", "asked Requested on", "She says: <b>no</b>",
		"Sent for the reviewer: "+jane, "Contact: <b>Jane")
	v.lacks("Ask for a review")
	const reviewer = "Ana of the reviewers"
	how := decision.Settlement{Reviewer: reviewer, State: decision.Upheld, Finding: "The account is a mule's."}
	expect.NoError(t, s.store.TakeReview(t.Context(), ref, reviewer))
	expect.NoError(t, s.store.SettleReview(t.Context(), ref, how))
	v.get("/dashboard/checks/"+ref).is(200, "Upheld on", "The reviewer's finding The account is a mule's.")
	v.lacks(reviewer)
	v.get("/dashboard/checks/"+harmless).is(200, "Only review and block verdicts can be contested.")
	v.is(200, "Webhook no event: only a review or a block has one")

	other, _ := s.customer(t, "pro")
	token := other.at.token()
	for _, request := range []func() page{
		func() page { return other.get("/dashboard/checks/" + ref) },
		func() page { return other.post("/dashboard/checks/"+ref+"/explain", "csrf", token, "value", jane) },
		func() page { return other.post("/dashboard/checks/"+ref+"/feedback", "csrf", token, "label", "fraud") },
		func() page { return other.post("/dashboard/checks/"+ref+"/review", "csrf", token, "reason", "x") },
	} {
		p := request()
		expect.That(t, p.status == 404 && !strings.Contains(p.body, ref), "%s of another account: %d\n%s", p.url,
			p.status, words(p.root))
	}
}

// TestChecksPage filters the list and turns its pages, by a value with forms only.
func TestChecksPage(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, key := s.customer(t, "free")
	var refs []string
	for i := range checksPerPage + 2 {
		verdict := map[bool]check.Verdict{true: check.Block, false: check.Allow}[i < 2]
		refs = append(refs, s.record(t, key, entity.Email, "jane@example.net", verdict))
		s.clock.Add(time.Millisecond)
	}
	other := s.record(t, key, entity.Domain, "example.org", check.Review)
	has := func(what string, want ...string) {
		t.Helper()
		for _, ref := range append(refs, other) {
			shown, wanted := strings.Contains(v.at.body, ref), slices.Contains(want, ref)
			expect.That(t, shown == wanted, "%s: check %s is shown: %v, want %v", what, ref, shown, wanted)
		}
	}
	newest := append(append([]string{}, refs[3:]...), other)
	v.get("/dashboard/checks")
	has("the first page", newest...)
	v.follow("Older")
	has("the second page", refs[:3]...)
	v.follow("All checks, newest first")
	v.press("Find", "verdict", "block")
	has("blocked checks", refs[:2]...)
	v.press("Find", "verdict", "", "value", "Jane@example.net")
	has("the first page of a value", refs[2:]...)
	v.press("Older")
	has("the second page of a value", refs[:2]...)
	expect.That(t, v.at.url.RawQuery == "", "the value is in the URL %s", v.at.url)
	v.press("Find", "value", "", "type", "domain")
	has("domains", other)
	today := s.clock.Now().UTC().Format(time.DateOnly)
	v.press("Find", "value", "", "type", "domain", "from", today, "until", today)
	has("domains of today", other)
	v.press("Find", "type", "", "value", "", "from", "2020-01-01", "until", "2020-01-02").is(200, "No check matches.")
	v.press("Find", "value", "a b@@c", "type", "email").is(400, "The email ")
	v.press("Find", "value", "", "type", "", "from", "soon").is(400, "The first day must be a day such as 2026-01-31.")
}

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
	now := s.clock.Now().UTC()
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
	s.clock.Add(72 * time.Hour)
	s.signIn(t, v.code).is(200, "last 30 days", "Day (UTC)", ": 1 allow, 0 review, 0 block")
}

func TestTallies(t *testing.T) {
	t.Parallel()
	counts := []decision.Count{{Key: "a", Verdict: "allow", Checks: 1}, {Key: "b", Verdict: "block", Checks: 3},
		{Key: "c", Verdict: "review", Checks: 1}, {Key: "a", Verdict: "review", Checks: 1}}
	got := tallies(counts, func(c decision.Count) string { return c.Key })
	expect.NoDiff(t, "tallies", []tally{{"b", 0, 0, 3, 3}, {"a", 1, 1, 0, 2}, {"c", 0, 1, 0, 1}}, got)
}

func TestDownloadChecks(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, key := s.customer(t, "starter")
	ref := s.record(t, key, entity.Domain, "example.org", check.Allow)
	blocked := s.record(t, key, entity.Email, "jane@example.net", check.Block)
	s.clock.Add(time.Second)
	v.get("/dashboard/checks")
	v.follow("CSV")
	lines, err := csv.NewReader(strings.NewReader(v.at.body)).ReadAll()
	expect.That(t, err == nil && len(lines) == 3 && strings.Contains(v.at.body, ref) &&
		v.at.header.Get("X-Total-Count") == "2" && v.at.header.Get("Content-Disposition") ==
		`attachment; filename="checks.csv"`, "%v, %v: %s", v.at.header, err, v.at.body)
	v.get("/dashboard/checks?verdict=block")
	v.follow("JSON")
	var document struct{ Checks []decision.Check }
	err = json.Unmarshal([]byte(v.at.body), &document)
	expect.That(t, err == nil && len(document.Checks) == 1 && document.Checks[0].Ref == blocked, "%v: %s", err,
		v.at.body)
	v.get("/dashboard/checks/export?format=json&from=soon").is(400, "must be a day such as 2026-01-31")
	v.get("/dashboard/checks/export?format=xml").is(400, "must be csv or json")
	s.visit(t).get("/dashboard/checks/export?format=csv").is(200, "Sign in")
}

// A key with limits is created, shown with them, and replaced by one with the same limits.
func testKeyWithLimits(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	v.get("/dashboard/keys")
	token := v.at.token()
	v.is(200, "never")
	expect.That(t, strings.Count(v.at.body, "checked>") == len(apikey.Scopes()),
		"the form of a new key does not have every scope ticked:\n%s", v.at.body)
	v.post("/dashboard/keys", "csrf", token, "name", "reader", "scope", "events", "test", "yes",
		"networks", " 192.0.2.0/24,2001:db8::1\n", "until", s.clock.Now().UTC().Format(time.DateOnly))
	v.is(200, "This is the new key.", "test key; only events; only from 192.0.2.0/24 2001:db8::1/128")
	first := v.at.text("issued")
	v.is(200, "works until")
	limits := expect.Value(s.store.Authenticate(t.Context(), first))(t).Limits
	expect.That(t, limits.Test && len(limits.Scopes) == 1 && len(limits.Networks) == 2, "the key has the limits %+v",
		limits)
	v.press("Rotate", "overlap", "0s") // the newest is the first
	second := v.at.text("issued")
	s.store.ForgetCallers() // as the host does when it hears of the change
	expect.ErrorText(t, "the old key", expect.ErrorOf(s.store.Authenticate(t.Context(), first)), "API key")
	got := expect.Value(s.store.Authenticate(t.Context(), second))(t).Limits
	expect.That(t, got.Test && len(got.Networks) == 2, "the new key has the limits %+v", got)
	v.press("Create key", "name", "plain")
	got = expect.Value(s.store.Authenticate(t.Context(), v.at.text("issued")))(t).Limits
	expect.That(t, got.Scopes == nil && got.Networks == nil && !got.Test,
		"a key from an unchanged form has the limits %+v", got)
}

// Each error is next to its field, and the form keeps what was entered.
func testKeyFormErrors(t *testing.T, s *site) {
	v, _ := s.customer(t, "free")
	v.get("/dashboard/keys")
	token := v.at.token()
	for id, c := range map[string]struct {
		fields []string
		want   string
	}{
		"name-error":  {[]string{"name", " ", "scope", "check"}, "The name must have 1 to 60 visible characters"},
		"scope-error": {[]string{"name", "a"}, "Choose what the key may be used for."},
		"networks-error": {[]string{"name", "a", "scope", "check", "networks", "192.0.2.0/24 office"},
			`"office" is neither an address nor a network`},
		"until-error": {[]string{"name", "a", "scope", "check", "until", "2020-01-31"}, "must not be in the past"},
	} {
		p := v.post("/dashboard/keys", append([]string{"csrf", token}, c.fields...)...)
		expect.That(t, p.status == 400 && strings.Contains(p.text(id), c.want), "%s: status %d, %q, want %q", id,
			p.status, p.text(id), c.want)
		described := false
		for n := range p.root.Descendants() {
			described = described || strings.HasPrefix(attribute(n, "aria-describedby"), id)
			if name := attribute(n, "name"); name == "networks" && len(c.fields) > 4 && c.fields[4] == name {
				expect.Equal(t, "the entered networks", attribute(n, "value"), c.fields[5])
			}
		}
		expect.That(t, described && strings.Count(p.body, `role="alert"`) == 1,
			"%s: not the only error, or no field refers to it", id)
	}
	v.is(400, "Keys")
	expect.Equal(t, "keys", len(expect.Value(s.store.Keys(t.Context(), account(t, s, v.token())))(t)), 1)
}
