package console

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/registry/expect"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1500: "1,500", 10_000: "10,000", 123_456: "123,456",
		1_234_567: "1,234,567"} {
		expect.Equal(t, fmt.Sprint("count of ", n), count(n), want)
	}
	for text, want := range map[string]string{
		"2026-01-05T03:04:05.678Z": "5 Jan 2026, 03:04:05 UTC", "2026-01-05T03:04:05+02:00": "5 Jan 2026, 01:04:05 UTC",
		"some day": "some day", "": "",
	} {
		expect.Equal(t, "timestamp of "+text, timestamp(text), want)
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

// testDocsOfLayers checks that the pages of layers are shown, and listed by those of the catalogue only.
func testDocsOfLayers(t *testing.T, s *site) {
	v := s.visit(t)
	const entry = `<li class="part"><a href="/docs/catalogue/feeds"`
	for path, listed := range map[string]bool{
		"/docs": false, "/docs/contract": false, "/docs/catalogue": true, "/docs/catalogue/feeds": true,
		"/docs/changelog": false,
	} {
		v.get(path).is(200, "All pages")
		expect.Equal(t, path+" lists the pages of layers", strings.Contains(v.at.body, entry), listed)
	}
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
				expect.Equal(t, fmt.Sprintf("%s %q: elements with the id %s", test.action, value, id),
					strings.Count(p.body, `id="`+id+`"`), 1)
			}
		}
	}
	body := v.get("/dashboard/webhooks").body
	expect.That(t, strings.Contains(body, `id="events" data-refresh="/dashboard/webhooks?`), "events are not refreshed")
}

// A new account is guided by what is stored, and an account of a week only until its first check.
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
		return expect.Value(s.firstSteps(t.Context(), session, counted, days))(t)
	}
	one := decision.Span{Allow: 1}
	if got := steps(1, one); len(got) != 2 || got[0].Name != "Receive webhooks" || got[1].Name != "Go live" {
		t.Errorf("after the first check: %+v", got)
	}
	expect.Equal(t, "steps before the first event", len(steps(2, one, one)), 1)
	session.Plan.Webhooks = false // optional
	got := steps(2, one, one)
	expect.That(t, got == nil, "after all steps: %+v", got)
	s.clock.Add(firstDays + time.Hour)
	expect.Equal(t, "after a week without a check", len(steps(0)), 3)
	got = steps(1, one)
	expect.That(t, got == nil, "a week after the start: %+v", got)
}

func TestChart(t *testing.T) {
	t.Parallel()
	var days []decision.Span
	for i := range 30 {
		days = append(days, decision.Span{Unit: decision.Daily, Start: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)})
	}
	expect.That(t, !strings.Contains(string(chart(days)), "<rect"), "a chart without checks has bars")
	days[4].Allow, days[4].Block = 1200, 34
	svg := string(chart(days))
	expect.Equal(t, "bars of the two charts for the day with checks",
		strings.Count(svg, "<title>2026-01-05: 1,200 allow, 0 review, 34 block</title>"), 4)
	for _, label := range []string{">0<", ">500<", ">1,500<", ">6 Jan<", ">27 Jan<"} {
		expect.That(t, strings.Count(svg, label) == 2, "the charts for a large screen and a phone lack the label %s",
			label)
	}
	for i := range days {
		days[i] = decision.Span{Unit: decision.Hourly, Start: days[0].Start.Add(time.Duration(i) * time.Hour)}
	}
	svg = string(chart(days))
	expect.That(t, strings.Count(svg, ">14:00<") == 2 && strings.Count(svg, ">20:00<") == 1, "hours: %s", svg)
	for highest, want := range map[int]int{1: 1, 5: 1, 6: 2, 10: 2, 11: 5, 26: 10, 250: 50, 1234: 500} {
		expect.Equal(t, fmt.Sprint("tickStep of ", highest), tickStep(highest), want)
	}
}

// testErrorPages checks that error pages explain the error and link back, and show whether the customer is signed in,
// and the id that the server gave to the request.
func testErrorPages(t *testing.T, s *site) {
	v, _ := s.customer(t, "starter")
	v.get("/nothing").is(404, "Sign out", "There is no such page.", "Go to the dashboard")
	v.post("/dashboard/plan/cancel").is(403, "That did not work", "This form is out of date.")
	v.get(donePath).is(410, "Your key was already shown", "Sign out")
	expect.That(t, strings.Contains(v.at.body, "<title>Your key was already shown"),
		"the title differs from the heading")
	s.visit(t).get("/nothing").is(404, "Go to the start page", "Sign in")
	var ctx fasthttp.RequestCtx
	var request fasthttp.Request
	request.SetRequestURI("/none")
	ctx.Init(&request, nil, nil)
	ctx.Response.Header.Set("X-Request-Id", "req_1")
	s.Handler()(&ctx)
	expect.That(t, strings.Contains(string(ctx.Response.Body()), "Request <code>req_1</code>"), "it names no request")
}

func TestSecurityText(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *Config) {
		cfg.URL = "https://assay.example"
		cfg.SecurityContact = []string{"mailto:security@assay.example", "https://assay.example/report"}
		cfg.Now = func() time.Time { return time.Date(2026, 3, 1, 13, 14, 15, 0, time.UTC) }
	})
	v := s.visit(t)
	v.get("/.well-known/security.txt")
	const want = "Contact: mailto:security@assay.example\nContact: https://assay.example/report\n" +
		"Expires: 2026-08-28T00:00:00Z\nCanonical: https://assay.example/.well-known/security.txt\n"
	kind := v.at.header.Get("Content-Type")
	expect.That(t, v.at.status == 200 && v.at.body == want && kind == "text/plain; charset=utf-8", "status %d, %s:\n%s",
		v.at.status, kind, v.at.body)
}

func testFavicon(t *testing.T, s *site) {
	v := s.visit(t)
	v.get("/.well-known/security.txt").is(404, "There is no such page.")
	v.get("/favicon.ico")
	icon, err := static.ReadFile("static/icon.svg")
	expect.That(t, err == nil && v.at.status == 200 && bytes.Equal([]byte(v.at.body), icon) &&
		v.at.header.Get("Content-Type") == "image/svg+xml", "status %d, %s, %v", v.at.status,
		v.at.header.Get("Content-Type"), err)
}

// testCompression checks that pages are compressed unless they can hold a secret.
func testCompression(t *testing.T, s *site) {
	style := expect.Value(asset("console.css"))(t)
	customer, _ := s.customer(t, "starter")
	stranger := s.visit(t)
	for _, test := range []struct {
		name, method, path string
		v                  *visitor
		accept, want       string
	}{
		{"landing page", "GET", "/", stranger, "br, gzip", "br"},
		{"gzip", "GET", "/docs", stranger, "gzip", "gzip"},
		{"a page of the documentation", "GET", "/docs/errors", stranger, "br", "br"},
		{"style sheet", "GET", style, customer, "br", "br"},
		{"not asked for", "GET", "/", stranger, "identity", ""},
		{"sign-in", "GET", "/signin", stranger, "br", ""},
		{"landing page of a session", "GET", "/", customer, "br", ""},
		{"dashboard", "GET", "/dashboard", customer, "br", ""},
		{"form", "POST", "/try", stranger, "br", ""},
		{"no such page", "GET", "/none", stranger, "br", ""},
	} {
		v := test.v.alone()
		v.header.Set("Accept-Encoding", test.accept)
		p := v.send(test.method, test.path, "", "")
		expect.Equal(t, fmt.Sprintf("%s: status %d, Content-Encoding", test.name, p.status),
			p.header.Get("Content-Encoding"), test.want)
		vary := strings.Contains(p.header.Get("Vary"), "Accept-Encoding")
		expect.That(t, test.want == "" || vary, "%s: Vary is %q", test.name, p.header.Get("Vary"))
	}
}

// TestSharedLimit checks that a page about a limit by address says if the address is a proxy's.
func TestSharedLimit(t *testing.T) {
	t.Parallel()
	var shared bool
	s := serve(t, func(cfg *Config) { cfg.Shared = func(*fasthttp.RequestCtx) bool { return shared } })
	for _, shared = range []bool{true, false} {
		v := s.visit(t)
		v.header.Set("X-Test-Client", map[bool]string{true: "192.0.2.1/32", false: "192.0.2.2/32"}[shared])
		for range maxSignIns + 1 {
			v.post("/signin", "code", "x")
			expect.That(t, v.at.status == 429 || !strings.Contains(v.at.body, "TRUSTED_PROXIES"),
				"a page with status %d is about proxies", v.at.status)
		}
		expect.That(t, v.at.status == 429 && strings.Contains(v.at.body, "ASSAY_TRUSTED_PROXIES") == shared,
			"shared %v: status %d: %s", shared, v.at.status, v.at.body)
	}
}

type crowded struct{ unlimited }

func (crowded) Take(context.Context, netip.Prefix) (time.Time, bool, error) {
	return time.Time{}, false, &admission.RateError{Rate: admission.Rate{Name: "public", PerMinute: 600}}
}

// refunding counts the uses given back.
type refunding struct {
	unlimited
	back int
}

func (r *refunding) GiveBack(context.Context, netip.Prefix) error {
	r.back++
	return nil
}

func TestTooManyVisitors(t *testing.T) {
	t.Parallel()
	public := &refunding{}
	serve(t, func(cfg *Config) {
		public.unlimited = cfg.Public.(unlimited)
		cfg.Public, cfg.Checker = public, &hooked{func(check.Request) error { return admission.ErrBusy }}
	}).visit(t).post("/try", "domain", "example.com")
	expect.Equal(t, "uses given back", public.back, 1)
	v := serve(t, func(cfg *Config) { cfg.Public = crowded{} }).visit(t)
	v.post("/try", "domain", "example.com").is(429, "Too many visitors are trying checks at the moment.")
	v.post("/try", "domain", "no domain").is(400, "The domain contains a space.") // which uses up nothing
}

// testFigures checks that the landing page's figures and example are those of the documents.
func testFigures(t *testing.T, s *site) {
	scoring := string(expect.Value(os.ReadFile("../../../docs/decisions/scoring.md"))(t))
	guide := string(expect.Value(os.ReadFile("../../../docs/guide/quickstart.md"))(t))
	v := s.visitLanding(t)
	rows := strings.Split(v.at.text("measured"), "%")
	for _, row := range []string{"domains 51.6 20.7 524 of 56,800", "emails 64.8 48.4 15 of 2,800",
		"phones 75.5 75.4 0 of 1,393", "IBANs 99.3 79.7 0 of 722"} {
		f := strings.SplitN(row, " ", 4)
		expect.That(t, strings.Contains(v.at.text("measured"), fmt.Sprintf("%s%s%%%s%% %s", f[0], f[1], f[2], f[3])),
			"the page lacks %s: %q", row, rows)
		honest := regexp.MustCompile(`(?m)^\| ` + f[0] + ` \| ` + f[3] + ` \|`)
		fraud := regexp.MustCompile(`(?m)^\| ` + f[0] + `.*\| ` + f[1] + `% / ` + f[2] + `% \|$`)
		expect.That(t, honest.MatchString(scoring) && fraud.MatchString(scoring),
			"docs/decisions/scoring.md lacks %s", row)
	}
	flat := strings.Join(strings.Fields(guide), " ")
	expect.That(t, strings.Contains(flat, v.at.text("answer")), "the guide lacks the answer %s", v.at.text("answer"))
}
