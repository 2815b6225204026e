package console

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

// posts are the paths of the dashboard's forms.
var posts = []string{
	"/dashboard/try", "/dashboard/keys", "/dashboard/keys/ID/rotate", "/dashboard/keys/ID/revoke",
	"/dashboard/webhooks",
	"/dashboard/webhooks/remove", "/dashboard/webhooks/secret", "/dashboard/webhooks/test",
	"/dashboard/webhooks/enable", "/dashboard/webhooks/resend",
	"/dashboard/webhooks/chk_1/resend", "/dashboard/privacy", "/dashboard/privacy/export", "/dashboard/privacy/erase",
	"/dashboard/plan", "/dashboard/plan/cancel", "/dashboard/plan/resume", "/signout",
}

// TestForgedForms sends every form of the dashboard as another site, an old page or another customer would. All are
// rejected.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, key := s.customer(t, "pro")
	mine := v.at.token()
	other, _ := s.customer(t, "free")
	v.get("/signin") // replaces the session
	v.post("/signin", "key", key)
	v.get("/dashboard/keys")
	token := v.at.token()
	if token == mine || token == "" {
		t.Fatalf("signing in again gave the token %q", token)
	}
	id := strings.Split(strings.SplitN(v.at.body, "/dashboard/keys/", 2)[1], "/")[0]
	before := words(v.at.root)
	for _, path := range posts {
		path = strings.Replace(path, "ID", id, 1)
		for name, forge := range map[string]func(*visitor) page{
			"no token": func(v *visitor) page {
				return v.post(path, "name", "x", "url", "https://a.example")
			},
			"a stale token":            func(v *visitor) page { return v.post(path, "csrf", mine) },
			"another customer's token": func(v *visitor) page { return v.post(path, "csrf", other.at.token()) },
			"a token in the URL":       func(v *visitor) page { return v.post(path + "?csrf=" + token) },
			"a token in plain text": func(v *visitor) page {
				return v.send("POST", path, "text/plain", "csrf="+token)
			},
			"from another site": func(v *visitor) page {
				v.header.Set("Sec-Fetch-Site", "cross-site")
				return v.post(path, "csrf", token)
			},
			"from a sibling subdomain": func(v *visitor) page {
				v.header.Set("Sec-Fetch-Site", "same-site")
				return v.post(path, "csrf", token)
			},
			"from another origin": func(v *visitor) page {
				v.header.Set("Origin", "https://evil.example")
				return v.post(path, "csrf", token)
			},
			"from an origin like ours": func(v *visitor) page {
				v.header.Set("Origin", s.url+".evil.example")
				return v.post(path, "csrf", token)
			},
			"from a sandbox, through TLS": func(v *visitor) page {
				v.header.Set("Origin", "null")
				v.header.Set("X-Forwarded-Proto", "https")
				return v.post(path, "csrf", token)
			},
		} {
			if p := forge(v.alone()); p.status != 403 {
				t.Errorf("%s, %s: status %d", path, name, p.status)
			}
		}
		if p := s.visit(t).post(path, "csrf", token); p.status != 403 && path != "/signout" {
			t.Errorf("%s, signed out: status %d", path, p.status)
		}
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
			p := v.alone().send(method, path, "", "")
			// Some paths also serve a page, which changes nothing.
			hasPage := (method == "GET" || method == "HEAD") &&
				(path == "/dashboard/keys" || path == "/dashboard/webhooks" || path == "/dashboard/privacy" ||
					path == "/dashboard/plan" ||
					strings.HasPrefix(path, "/dashboard/webhooks/") && strings.Count(path, "/") == 3)
			if !hasPage && (p.status != 405 || p.header.Get("Allow") == "") {
				t.Errorf("%s %s: status %d, Allow %q", method, path, p.status, p.header.Get("Allow"))
			}
		}
	}
	if v.get("/dashboard/keys"); words(v.at.root) != before {
		t.Errorf("the forms changed the keys to\n%s\nfrom\n%s", words(v.at.root), before)
	}
	for _, public := range []string{"/try", "/subscribe", "/signin", "/checkout/reissue"} {
		w := s.visit(t).alone()
		w.header.Set("Sec-Fetch-Site", "cross-site")
		if p := w.post(public, "key", key, "plan", "free"); p.status != 403 || len(p.cookies()) != 0 {
			t.Errorf("%s from another site: status %d, cookies %v", public, p.status, p.cookies())
		}
	}
	// Where the connection is neither encrypted nor local, browsers name neither the site nor, with our referrer
	// policy, the origin.
	w := s.visit(t).alone()
	w.header.Set("Origin", "null")
	if p := w.post("/signin", "key", key); p.status != 303 {
		t.Errorf("a form of our own over plain HTTP: status %d", p.status)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	owner, key := s.customer(t, "pro")
	home, err := owner.at.url.Parse("/")
	if err != nil {
		t.Fatal(err)
	}
	sessionOf := func(v *visitor) string {
		for _, c := range v.client.Jar.Cookies(home) {
			if c.Name == "assay_session" {
				return c.Value
			}
		}
		return ""
	}
	stolen := sessionOf(owner)
	with := func(value string) *visitor {
		v := s.visit(t)
		v.client.Jar.SetCookies(home, []*http.Cookie{{Name: "assay_session", Value: value, Path: "/"}})
		return v
	}
	if strings.Contains(stolen, key) {
		t.Error("the cookie holds the key")
	}

	t.Run("a preset cookie is replaced", func(t *testing.T) {
		v := with(stolen)
		v.get("/signin")
		v.post("/signin", "key", key)
		if now := sessionOf(v); now == stolen || now == "" {
			t.Error("signing in keeps the previous session")
		}
	})
	t.Run("tampered", func(t *testing.T) {
		raw, err := base64.RawURLEncoding.DecodeString(stolen)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			bad := append([]byte(nil), raw...)
			bad[i] ^= 1
			if v := with(base64.RawURLEncoding.EncodeToString(bad)); !strings.HasSuffix(v.get("/dashboard").url.Path,
				"/signin") {
				t.Fatalf("a cookie with byte %d changed signs in", i)
			}
		}
		for _, value := range []string{"x", stolen[:len(stolen)-1], stolen + "A", strings.Repeat("A", 3000), "!!"} {
			if v := with(value); !strings.HasSuffix(v.get("/dashboard").url.Path, "/signin") {
				t.Errorf("the cookie %.20q signs in", value)
			}
		}
	})
	t.Run("a cookie of another kind", func(t *testing.T) {
		for _, c := range owner.client.Jar.Cookies(home) {
			if c.Name == "assay_checkout" {
				if v := with(c.Value); !strings.HasSuffix(v.get("/dashboard").url.Path, "/signin") {
					t.Error("the checkout cookie signs in")
				}
			}
		}
	})
	t.Run("a revoked key ends the session", func(t *testing.T) {
		v := s.visit(t)
		owner.get("/dashboard/keys")
		owner.press("Create key", "name", "spare")
		v.post("/signin", "key", owner.at.text("issued"))
		v.is(200, "This month")
		owner.press("Revoke") // the newest key is listed first
		owner.is(200, "The key is revoked.")
		v.get("/dashboard")
		v.is(200, "Use any API key of your account.")
		v.post("/signin", "key", owner.at.text("issued"))
		v.is(401, "This API key does not work")
		owner.press("Revoke")
		owner.is(409, "only key")
	})
	t.Run("the session expires", func(t *testing.T) {
		s.pass(sessionLife)
		owner.get("/dashboard")
		owner.is(200, "Use any API key of your account.")
		// The script that refreshes a page relies on this redirect.
		p := with(stolen).alone().get("/dashboard/webhooks")
		if p.status != 303 || p.header.Get("Location") != "/signin" {
			t.Errorf("status %d, %v", p.status, p.header)
		}
	})
}

// TestCookiesThroughTLS runs with HTTPS, of the host itself or of a proxy.
func TestCookiesThroughTLS(t *testing.T) {
	t.Parallel()
	plain := serve(t, nil)
	configured := serve(t, func(c *Config) { c.URL = "https://assay.example" })
	https := serve(t, func(c *Config) { c.HTTPS = true })
	for name, test := range map[string]struct {
		site   *site
		proto  string
		secure bool
	}{
		"plain HTTP":                          {plain, "", false},
		"reported by the proxy":               {plain, "https", true},
		"reported by the first proxy":         {plain, "HTTPS, http", true},
		"a proxy without TLS":                 {plain, "http", false},
		"configured":                          {configured, "", true},
		"of the host itself":                  {https, "", true},
		"configured, and a proxy without TLS": {configured, "http", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := test.site.visit(t).alone()
			if test.proto != "" {
				v.header.Set("X-Forwarded-Proto", test.proto)
			}
			v.header.Set("Origin", "https://assay.example")
			if test.site != configured {
				v.header.Del("Origin")
			}
			p := v.post("/subscribe", "plan", "free")
			prefix := map[bool]string{true: "__Host-", false: ""}[test.secure]
			c := p.cookies()[prefix+"assay_checkout"]
			if p.status != 303 || c == nil {
				t.Fatalf("status %d, cookies %v", p.status, p.cookies())
			}
			if c.Secure != test.secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" ||
				c.Domain != "" {
				t.Errorf("cookie %s", c.Raw)
			}
			if (p.header.Get("Strict-Transport-Security") != "") != test.secure {
				t.Errorf("headers %v", p.header)
			}
			v.header.Set("Cookie", c.Name+"="+c.Value)
			p = v.get(donePath)
			if c := p.cookies()[prefix+"assay_session"]; p.status != 200 || c == nil || c.Secure != test.secure ||
				!c.HttpOnly {
				t.Errorf("status %d, cookies %v", p.status, p.cookies())
			}
		})
	}
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	hosts := []*site{s, serve(t, func(c *Config) { c.Store, c.Now = s.store, s.cfg.Now })}
	for path, test := range map[string]struct {
		limit  int
		window time.Duration
		fields []string
		status int // within the limit
	}{
		"/signin":    {maxSignIns, signInsWindow, []string{"key", "assay_nonsense"}, 401},
		"/subscribe": {maxCheckouts, checkoutsWindow, []string{"plan", "free"}, 303},
	} {
		requests := 0
		status := func(client string) int {
			requests++
			v := hosts[requests%len(hosts)].visit(t).alone()
			v.header.Set("X-Test-Client", client)
			return v.post(path, test.fields...).status
		}
		for i := range test.limit {
			if status := status("192.0.2.1/32"); status != test.status {
				t.Fatalf("%s, attempt %d: status %d", path, i, status)
			}
		}
		if status := status("192.0.2.1/32"); status != 429 {
			t.Errorf("%s beyond the limit: status %d", path, status)
		}
		if status := status("192.0.2.2/32"); status != test.status {
			t.Errorf("%s by another client: status %d", path, status)
		}
		s.pass(test.window)
		if status := status("192.0.2.1/32"); status != test.status {
			t.Errorf("%s after the window: status %d", path, status)
		}
	}
}
