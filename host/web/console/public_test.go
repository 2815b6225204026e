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
	"assay/registry/expect"
)

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
	if v.at.status != 200 || v.at.body != want || v.at.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("status %d, %s:\n%s", v.at.status, v.at.header.Get("Content-Type"), v.at.body)
	}
	v = serve(t, nil).visit(t)
	v.get("/.well-known/security.txt").is(404, "There is no such page.")
}

func testFavicon(t *testing.T, s *site) {
	v := s.visit(t)
	v.get("/favicon.ico")
	icon, err := static.ReadFile("static/icon.svg")
	expect.That(t, err == nil && v.at.status == 200 && bytes.Equal([]byte(v.at.body), icon) &&
		v.at.header.Get("Content-Type") == "image/svg+xml", "status %d, %s, %v", v.at.status,
		v.at.header.Get("Content-Type"), err)
}

// TestCompression checks that pages are compressed unless they can hold a secret.
func TestCompression(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
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
		if got := p.header.Get("Content-Encoding"); got != test.want {
			t.Errorf("%s: status %d, Content-Encoding %q, want %q", test.name, p.status, got, test.want)
		}
		vary := strings.Contains(p.header.Get("Vary"), "Accept-Encoding")
		expect.That(t, test.want == "" || vary, "%s: Vary is %q", test.name, p.header.Get("Vary"))
	}
}

// testErrorPagesNameTheRequest checks that an error page shows the id that the server gave to the request.
func testErrorPagesNameTheRequest(t *testing.T, s *site) {
	var ctx fasthttp.RequestCtx
	var request fasthttp.Request
	request.SetRequestURI("/none")
	ctx.Init(&request, nil, nil)
	ctx.Response.Header.Set("X-Request-Id", "req_1")
	s.Handler()(&ctx)
	body := string(ctx.Response.Body())
	expect.That(t, strings.Contains(body, "Request <code>req_1</code>"), "the page does not name the request: %s", body)
}

// TestSharedLimit checks that a page about a limit by address says if the address is a proxy's.
func TestSharedLimit(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		s := serve(t, func(cfg *Config) {
			cfg.Shared = func(*fasthttp.RequestCtx) bool { return shared }
		})
		v := s.visit(t)
		v.header.Set("X-Test-Client", "192.0.2.1/32")
		for range maxSignIns + 1 {
			if v.post("/signin", "code", "x"); strings.Contains(v.at.body, "TRUSTED_PROXIES") && v.at.status != 429 {
				t.Errorf("a page with status %d is about proxies", v.at.status)
			}
		}
		expect.That(t, v.at.status == 429 && strings.Contains(v.at.body, "ASSAY_TRUSTED_PROXIES") == shared,
			"shared %v: status %d: %s", shared, v.at.status, v.at.body)
	}
}

// crowded refuses all checks without a key.
type crowded struct{ unlimited }

func (crowded) Take(context.Context, netip.Prefix) (time.Time, bool, error) {
	return time.Time{}, false, &admission.RateError{Rate: admission.Rate{Name: "public", PerMinute: 600}}
}

func TestTooManyVisitors(t *testing.T) {
	t.Parallel()
	v := serve(t, func(cfg *Config) { cfg.Public = crowded{} }).visit(t)
	v.post("/try", "domain", "example.com").is(429, "Too many visitors are trying checks at the moment.")
	v.post("/try", "domain", "no domain").is(400, "The domain contains a space.") // which uses up nothing
}

// TestFigures checks that the landing page's figures and example are those of the documents.
func TestFigures(t *testing.T) {
	t.Parallel()
	scoring := string(expect.Value(os.ReadFile("../../../docs/decisions/scoring.md"))(t))
	guide := string(expect.Value(os.ReadFile("../../../docs/guide/quickstart.md"))(t))
	v := serve(t, nil).visitLanding(t)
	rows := strings.Split(v.at.text("measured"), "%")
	for _, row := range []string{"domains 48.1 20.8 265 of 28,332", "emails 67.6 50.0 6 of 2,800",
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
