package console

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"assay/host/customer/webhook"
	"assay/registry/expect"
)

// hostile are texts that try to become markup, script, template or terminal code.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'" autofocus onfocus=alert(1) x='`,
	`</textarea></title></style></script><svg onload=alert(1)>`,
	`javascript:alert(1)//`, `{{.Session.CSRF}}`, `" data-refresh="/dashboard/plan" id="events`, "\u202Egnp.exe",
	"a\u0000b", "\u009b31m", "\x1b[31m", "\xff\xfe",
	`<!--`, `]]>`, strings.Repeat("é", 512), strings.Repeat("<b>", 340),
}

// checkInert checks that a page contains only elements and attributes that plain also contains.
func checkInert(t *testing.T, p page, plain page) {
	t.Helper()
	kinds := func(root *html.Node) map[string]bool {
		seen := map[string]bool{}
		for n := range root.Descendants() {
			for _, a := range n.Attr {
				seen[n.Data+" "+a.Key] = true
			}
			if n.DataAtom == atom.Script {
				seen["script in "+n.Parent.Data] = true
				expect.That(t, n.FirstChild == nil, "the page contains an inline script")
			}
		}
		return seen
	}
	usual := kinds(plain.root)
	for kind := range kinds(p.root) {
		expect.That(t, usual[kind], "the text added %q to the page", kind)
	}
	expect.That(t, !strings.Contains(p.body, "\x1b") && (!strings.Contains(p.body, "\x9b") ||
		strings.Contains(p.body, "\u009b")), "the page contains control characters")
}

func testHostileText(t *testing.T, s *site) {
	v, _ := s.customer(t, "starter")
	token := v.at.token()
	ordinary := v.ordinary()
	for request, fields := range map[string][]string{ // TEXT is the text
		"POST /dashboard/keys":                {"name", "TEXT", "scope", "check"},
		"POST /dashboard/webhooks":            {"url", "TEXT"},
		"POST /dashboard/webhooks?":           {"url", "https://example.com/TEXT"},
		"POST /dashboard/try":                 {"value", "TEXT", "type", "domain"},
		"POST /dashboard/try?":                {"value", "example.com", "type", "TEXT"},
		"POST /try":                           {"domain", "TEXT"},
		"POST /dashboard/plan":                {"plan", "TEXT"},
		"POST /dashboard/webhooks/resend":     {"since", "TEXT"},
		"POST /signin":                        {"code", "TEXT"},
		"POST /signin/link":                   {"token", "TEXT"},
		"POST /dashboard/checks":              {"value", "TEXT"},
		"POST /dashboard/checks/TEXT/explain": {"value", "TEXT"},
		"POST /dashboard/keys/TEXT/revoke":    nil, "POST " + accountPath + "/sessions/TEXT/end": nil,
		"POST /dashboard/keys?":    {"name", "x", "scope", "TEXT", "networks", "TEXT", "until", "TEXT", "test", "TEXT"},
		"GET " + LinkPath + "TEXT": nil, "GET " + TestCheckoutPath + "TEXT": nil, "GET /dashboard/keys?note=TEXT": nil,
		"GET /dashboard/checks?after=TEXT": nil, "GET /dashboard/checks/TEXT": nil,
		"GET /dashboard/checks?verdict=TEXT&type=TEXT&key=TEXT&from=TEXT": nil,
		"GET /dashboard/webhooks/TEXT":                                    nil,
		"GET /dashboard/webhooks?state=TEXT&below=TEXT":                   nil,
	} {
		method, path, _ := strings.Cut(request, " ")
		for _, text := range hostile {
			w := *v
			short := text[:min(len(text), 400)] // so that four are within the limit on heads
			form := url.Values{"csrf": {token}}
			for i := 0; i+1 < len(fields); i += 2 {
				form.Set(fields[i], strings.ReplaceAll(fields[i+1], "TEXT", text))
			}
			p := w.send(method, strings.ReplaceAll(path, "TEXT", escape(short)), "application/x-www-form-urlencoded",
				form.Encode())
			expect.That(t, p.status < 500, "%s %q: status %d", request, text, p.status)
			checkInert(t, p, ordinary)
		}
	}
	v.get("/dashboard/keys")
	for _, invisible := range []string{"\u202E", "\u0000", "\u009b", "\x1b"} {
		v.lacks(invisible)
	}
}

// escape percent-encodes every byte of a text.
func escape(text string) string { return strings.ReplaceAll(fmt.Sprintf(" % x", text), " ", "%") }

// ordinary returns a document with the content of all pages for ordinary inputs.
func (v *visitor) ordinary() page {
	w := *v
	all := &html.Node{Type: html.DocumentNode}
	for _, path := range []string{"/", "/docs", "/nothing", "/dashboard", "/dashboard/keys", "/dashboard/checks",
		"/dashboard/webhooks", "/dashboard/plan", accountPath, LinkPath + "ordinary"} {
		all.AppendChild(w.get(path).root)
	}
	all.AppendChild(w.submit("/dashboard/keys", "Create key", "name", "ordinary").root)
	all.AppendChild(w.press("Create key", "name", "", "scope", "x", "networks", "x", "until", "x").root)
	all.AppendChild(w.submit("/dashboard", "Check", "value", "example.com", "type", "domain").root)
	all.AppendChild(w.submit("/dashboard/webhooks", "Save", "url", "https://example.com/").root)
	all.AppendChild(w.press("Save", "url", "no URL").root)
	for _, domain := range []string{"example.com", "-"} {
		all.AppendChild(w.post("/try", "domain", domain).root)
	}
	other := w
	other.client = &http.Client{Transport: w.client.Transport} // signed out
	all.AppendChild(other.post("/signin", "code", "ordinary").root)
	return page{root: all}
}

// TestHostileResponses shows hostile texts in the responses of webhook receivers.
func TestHostileResponses(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.app.Get("/attempts/:n", func(ctx *fiber.Ctx) error {
		n, _ := ctx.ParamsInt("n")
		text := "nothing"
		if n < len(hostile) {
			text = strings.ToValidUTF8(hostile[n], "\uFFFD") // as it is stored
		}
		return s.render(ctx, "event", &session{}, view{"Title": "Webhook event", "Ref": "chk_1",
			"Attempts": []webhook.Attempt{
				{Number: 1, StartedAt: time.Now(), TookMS: new(5), Status: 500, ResponseBody: text,
					ResponseHeader: text, Request: webhook.Request{Header: text, Body: text}},
				{Number: 2, Error: text},
			}, "Payload": indented(text)})
	})
	s.Handler() // registers the route
	v := s.visit(t)
	plain := v.get("/attempts/99")
	for n := range hostile {
		p := v.get(fmt.Sprint("/attempts/", n))
		expect.Equal(t, "status", p.status, 200)
		checkInert(t, p, plain)
	}
}

func testStaticFiles(t *testing.T, s *site) {
	v := s.visit(t).alone()
	layout := v.get("/").body
	for _, file := range []string{"console.css", "console.js", "icon.svg"} {
		sum := sha256.Sum256([]byte(v.get("/static/" + file).body))
		address := fmt.Sprintf("/static/%s?v=%x", file, sum[:6])
		expect.That(t, strings.Contains(layout, `"`+address+`"`), "the page does not contain %s", address)
		for url, kept := range map[string]bool{address: true, "/static/" + file: false,
			"/static/" + file + "?v=0123456789ab": false} { // of another version of the host
			p := v.get(url)
			cache := p.header.Get("Cache-Control")
			expect.That(t, p.status == 200 && p.header.Get("Content-Security-Policy") != "" &&
				strings.Contains(cache, "max-age=31536000") == kept && (kept || cache == "no-store"),
				"%s: status %d, %v", url, p.status, p.header)
		}
	}
	for _, path := range []string{
		"/static", "/static/", "/static/..", "/static/../console.go", "/static/..%2f..%2fetc/passwd",
		"/static/%2e%2e/%2e%2e/go.mod", "/static/..%5c..%5cgo.mod",
		"/static/console.css%00", "/static/console.css%00.html", "/static/.git/config", "/static//etc/passwd",
		"/static/console.css.fiber.gz",
		"/static/pages/layout.html", "/.git/config", "/pages/layout.html", "/..%2fstatic/console.css", "/static/\xff",
		TestCheckoutPath + "\xff", "/\xc0\xae\xc0\xae/",
		"/static/" + strings.Repeat("a/", 1500), "//evil.example/", "/dashboard//keys", "/Dashboard", "/dashboard/",
	} {
		if status, body := rawGet(t, s, path); status != 404 || !strings.Contains(body, "There is no such page.") {
			t.Errorf("%.60q: status %d, %.300s", path, status, body)
		}
	}
}

// rawGet requests a path exactly as it is written.
func rawGet(t *testing.T, s *site, path string) (status int, body string) {
	t.Helper()
	conn := expect.Value(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	response := expect.Value(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer response.Body.Close()
	return response.StatusCode, string(expect.Value(io.ReadAll(response.Body))(t))
}

func testOtherMethods(t *testing.T, s *site) {
	v := s.visit(t).alone()
	for _, path := range []string{"/", "/docs", "/signin", "/checkout/done", "/dashboard", "/try", "/subscribe"} {
		for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			p := v.send(method, path, "", "")
			allow := p.header.Get("Allow")
			expect.That(t, p.status == 405 && allow != "", "%s %s: status %d, Allow %q", method, path, p.status, allow)
		}
		expect.Equal(t, "BREW "+path, v.send("BREW", path, "", "").status, 501)
	}
	v.send("DELETE", "/nothing", "", "").is(404)
}

// TestDatabaseDown checks that without a database every page shows an error that does not reveal the cause.
func TestDatabaseDown(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, _ := s.customer(t, "starter")
	token := v.at.token()
	v.submit("/", "Subscribe to Pro") // redirects to the plan, because the account has a subscription
	expect.NoError(t, s.store.Close())
	for _, get := range []string{"/", "/docs", "/dashboard", "/dashboard/checks", "/dashboard/keys",
		"/dashboard/webhooks", "/dashboard/webhooks/chk_1", "/dashboard/plan", accountPath, "/signin", donePath,
		TestCheckoutPath + "co_1"} {
		checkFailed(v.alone(), v.alone().get(get), get)
	}
	for _, post := range append([]string{"/subscribe", "/checkout/reissue"}, posts...) {
		checkFailed(v.alone(), v.alone().post(post, "csrf", token, "plan", "free", "name", "x",
			"url", "https://example.com", "since", "2026-01-01", "value", "example.com"), post)
	}
	w := s.visit(t)
	checkFailed(w, w.post("/signin", "code", v.code), "/signin")
	checkFailed(w, w.post("/signin/link", "token", "x"), "/signin/link")
	for _, path := range []string{"/", "/docs", "/signin", LinkPath + "x"} { // pages without the database keep working
		w.get(path).is(200)
	}
}

func checkFailed(v *visitor, p page, path string) {
	v.Helper()
	// console.js shows the alert in place of the part that it cannot update.
	expect.That(v, p.status == 500 && strings.Contains(p.body, `<p role="alert">The fault is on our side.`),
		"%s: status %d: %s", path, p.status, words(p.root))
	for _, detail := range []string{"sql", "closed", "goroutine", ".go:", "postgres", "store"} {
		expect.That(v, !strings.Contains(strings.ToLower(words(p.root)), detail), "%s reveals %q: %s", path, detail,
			words(p.root))
	}
	got := p.header.Get("Set-Cookie")
	expect.That(v, got == "", "%s sets a cookie: %s", path, got)
}
