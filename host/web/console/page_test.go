package console

import (
	"strings"
	"testing"
	"time"

	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/registry/expect"
	"assay/sdk"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1500: "1,500", 10_000: "10,000", 123_456: "123,456",
		1_234_567: "1,234,567"} {
		got := count(n)
		expect.That(t, got == want, "count(%d) = %s, want %s", n, got, want)
	}
	for text, want := range map[string]string{
		"2026-01-05T03:04:05.678Z": "5 Jan 2026, 03:04:05 UTC", "2026-01-05T03:04:05+02:00": "5 Jan 2026, 01:04:05 UTC",
		"some day": "some day", "": "",
	} {
		got := timestamp(text)
		expect.That(t, got == want, "timestamp(%q) = %q, want %q", text, got, want)
	}
}

// Pages follow the table of plans: they name every plan with a feature, and advise the cheapest paid one.
func TestPagesFollowPlans(t *testing.T) {
	t.Parallel()
	plans := []check.Plan{{Name: "free"}, {Name: "basic", Webhooks: true, Cents: 5_00},
		{Name: "starter", Webhooks: true, Cents: 19_00}, {Name: "pro", Webhooks: true, Privacy: true, Cents: 99_00}}
	expect.Equal(t, "several", plansWith(plans, func(p check.Plan) bool { return p.Webhooks }),
		"Basic, Starter and Pro plans")
	expect.Equal(t, "two", plansWith(plans, func(p check.Plan) bool { return p.Cents > 5_00 }), "Starter and Pro plans")
	expect.Equal(t, "one", plansWith(plans, func(p check.Plan) bool { return p.Privacy }), "Pro plan")
	var page strings.Builder
	expect.NoError(t, expect.Value(parsePages())(t)["plan"].ExecuteTemplate(&page, "prices",
		view{"Offers": plans, "ForSale": true}))
	_, button, _ := strings.Cut(page.String(), "<button>")
	expect.Equal(t, "the advised plan", strings.Fields(button)[2], "Basic")
	expect.Equal(t, "other plans", strings.Count(page.String(), `<button class="second">`), 3)
}

// testDocsNameThreats checks that the documentation lists every threat.
func testDocsNameThreats(t *testing.T, s *site) {
	v := s.visit(t)
	v.get("/docs/scores").is(200, "What a score means")
	for _, threat := range sdk.Threats() {
		expect.That(t, strings.Contains(v.at.body, "<code>"+string(threat)+"</code>"),
			"the documentation does not name %s", threat)
	}
}

// testDocsOfLayers checks that the page of a layer is shown, and that only the catalogue's own pages list those of
// layers.
func testDocsOfLayers(t *testing.T, s *site) {
	v := s.visit(t)
	const entry = `<li class="part"><a href="/docs/catalogue/feeds"`
	for path, listed := range map[string]bool{
		"/docs": false, "/docs/contract": false, "/docs/catalogue": true, "/docs/catalogue/feeds": true,
		"/docs/changelog": false,
	} {
		v.get(path).is(200, "All pages")
		got := strings.Contains(v.at.body, entry)
		expect.That(t, got == listed, "%s lists the pages of layers: %t", path, got)
	}
	v.get("/docs/catalogue/feeds")
	expect.Equal(t, "a signal has an anchor", strings.Contains(v.at.body, `<h2 id="feeds:listed:exact">`), true)
	v.get("/docs/catalogue/none").is(404, "")
}

// testUpdatedParts checks that the page that answers a form has each part that console.js takes from it.
func testUpdatedParts(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	token := v.at.token()
	for _, test := range []struct{ page, action, field, update string }{
		{"/", "/try", "domain", "result"},
		{"/dashboard", "/dashboard/try", "value", "result usage steps activity"},
	} {
		v.get(test.page)
		expect.That(t, strings.Contains(v.at.body, `action="`+test.action+`" data-update="`+test.update+`"`),
			"%s has no form that updates %q", test.page, test.update)
		for value, status := range map[string]int{"example.com": 200, "": 400} {
			p := v.post(test.action, "csrf", token, test.field, value, "type", "domain")
			expect.That(t, p.status == status, "%s %q: status %d, want %d", test.action, value, p.status, status)
			for _, id := range strings.Fields(test.update) {
				n := strings.Count(p.body, `id="`+id+`"`)
				expect.That(t, n == 1, "%s %q: the page has %d elements with the id %s", test.action, value, n, id)
			}
		}
	}
	if v.get("/dashboard/webhooks"); !strings.Contains(v.at.body, `id="events" data-refresh="/dashboard/webhooks?`) {
		t.Error("the list of events is not refreshed")
	}
}

// TestFirstSteps checks that a new account is guided by what is stored, and an account of a week only until its first
// check.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, _ := s.customer(t, "starter")
	v.is(200, "No checks yet.", "No URL is set yet.", "Send checks from your program.")
	v.lacks("<svg", "Get a key")
	v.follow("Receive webhooks")
	v.press("Save", "url", "https://hooks.example.com/a")
	v.get("/dashboard").is(200, "A URL is set, but nothing has been delivered yet")
	v.get(accountPath)
	session := &session{Session: signin.Session{Account: v.at.text("account")}, Plan: check.Plan{Webhooks: true}}
	steps := func(counted int, days ...decision.Span) []step {
		got := expect.Value(s.firstSteps(t.Context(), session, counted, days))(t)
		return got
	}
	one := decision.Span{Allow: 1}
	if got := steps(1, one); len(got) != 2 || got[0].Name != "Receive webhooks" || got[1].Name != "Go live" {
		t.Errorf("after the first check: %+v", got)
	}
	if got := steps(2, one, one); len(got) != 1 {
		t.Errorf("before the first event: %+v", got)
	}
	session.Plan.Webhooks = false // optional
	if got := steps(2, one, one); got != nil {
		t.Errorf("after all steps: %+v", got)
	}
	s.pass(firstDays + time.Hour)
	expect.Equal(t, "after a week without a check", len(steps(0)), 3)
	got := steps(1, one)
	expect.That(t, got == nil, "a week after the start: %+v", got)
}

func TestChart(t *testing.T) {
	t.Parallel()
	var days []decision.Span
	for i := range 30 {
		days = append(days, decision.Span{Unit: decision.Daily, Start: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)})
	}
	if svg := string(chart(days)); strings.Contains(svg, "<rect") {
		t.Errorf("a chart without checks has bars: %s", svg)
	}
	days[4].Allow, days[4].Block = 1200, 34
	svg := string(chart(days))
	n := strings.Count(svg, "<title>2026-01-05: 1,200 allow, 0 review, 34 block</title>")
	expect.That(t, n == 4, "the two charts have %d bars for the day with checks, want 4: %s", n, svg)
	for _, label := range []string{">0<", ">500<", ">1,500<", ">6 Jan<", ">27 Jan<"} {
		expect.That(t, strings.Count(svg, label) == 2, "the charts for a large screen and a phone lack the label %s",
			label)
	}
	for highest, want := range map[int]int{1: 1, 5: 1, 6: 2, 10: 2, 11: 5, 26: 10, 250: 50, 1234: 500} {
		got := tickStep(highest)
		expect.That(t, got == want, "tickStep(%d) = %d, want %d", highest, got, want)
	}
}

// testErrorPages checks that error pages explain the error and link back, and show whether the customer is signed in.
func testErrorPages(t *testing.T, s *site) {
	v, _ := s.customer(t, "starter")
	v.get("/nothing").is(404, "Sign out", "There is no such page.", "Go to the dashboard")
	v.post("/dashboard/plan/cancel").is(403, "That did not work", "This form is out of date.")
	v.get(donePath).is(410, "Your key was already shown", "Sign out")
	expect.That(t, strings.Contains(v.at.body, "<title>Your key was already shown"),
		"the title differs from the heading")
	w := s.visit(t)
	w.get("/nothing").is(404, "Go to the start page", "Sign in")
}
