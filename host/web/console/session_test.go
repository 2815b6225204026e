package console

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/entity"
	"assay/registry/expect"
)

// posts are the paths of the dashboard's forms.
var posts = []string{
	"/dashboard/try", "/dashboard/keys", "/dashboard/keys/ID/rotate", "/dashboard/keys/ID/revoke",
	"/dashboard/webhooks", "/dashboard/webhooks/remove", "/dashboard/webhooks/secret",
	"/dashboard/webhooks/secret/switch", "/dashboard/webhooks/test", "/dashboard/webhooks/enable",
	"/dashboard/webhooks/resend", "/dashboard/webhooks/chk_1/resend", "/dashboard/privacy", "/dashboard/privacy/export",
	"/dashboard/privacy/erase", "/dashboard/plan", "/dashboard/plan/cancel", "/dashboard/account/code",
	"/dashboard/account/sessions/end", "/dashboard/account/sessions/ID/end", "/signout",
}

// testForgedForms sends every form as another site, an old page or another customer would. All are rejected.
func testForgedForms(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	mine := v.at.token()
	other, _ := s.customer(t, "free")
	v.get("/signin") // replaces the session
	v.post("/signin", "code", v.code)
	v.get("/dashboard/keys")
	token := v.at.token()
	expect.Must(t, token != mine && token != "", "signing in again gave the token %q", token)
	id := strings.Split(strings.SplitN(v.at.body, "/dashboard/keys/", 2)[1], "/")[0]
	before := words(v.at.root)
	for _, path := range posts {
		path = strings.Replace(path, "ID", id, 1)
		for name, forged := range map[string]struct{ query, kind, body, header, value string }{
			"no token":                 {body: "name=x&url=https%3A%2F%2Fa.example"},
			"a stale token":            {body: "csrf=" + mine},
			"another customer's token": {body: "csrf=" + other.at.token()},
			"a token in the URL":       {query: "?csrf=" + token},
			"a token in plain text":    {kind: "text/plain", body: "csrf=" + token},
			"from another site":        {body: "csrf=" + token, header: "Sec-Fetch-Site", value: "cross-site"},
			"from a sibling subdomain": {body: "csrf=" + token, header: "Sec-Fetch-Site", value: "same-site"},
			"from another origin":      {body: "csrf=" + token, header: "Origin", value: "https://evil.example"},
			"from an origin like ours": {body: "csrf=" + token, header: "Origin", value: s.url + ".evil.example"},
			"from a sandbox":           {body: "csrf=" + token, header: "Origin", value: "null"},
		} {
			w := v.alone()
			w.header.Set(cmp.Or(forged.header, "X-None"), forged.value)
			kind := cmp.Or(forged.kind, "application/x-www-form-urlencoded")
			expect.Equal(t, path+", "+name, w.send("POST", path+forged.query, kind, forged.body).status, 403)
		}
		p := s.visit(t).post(path, "csrf", token)
		expect.That(t, p.status == 403 || path == "/signout", "%s, signed out: status %d", path, p.status)
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
			p := v.alone().send(method, path, "", "")
			// Some paths also serve a page, which changes nothing.
			hasPage := (method == "GET" || method == "HEAD") && (path == "/dashboard/keys" ||
				path == "/dashboard/webhooks" || path == "/dashboard/privacy" || path == "/dashboard/plan" ||
				strings.HasPrefix(path, "/dashboard/webhooks/") && strings.Count(path, "/") == 3)
			expect.That(t, hasPage || p.status == 405 && p.header.Get("Allow") != "", "%s %s: status %d, Allow %q",
				method, path, p.status, p.header.Get("Allow"))
		}
	}
	v.get("/dashboard/keys")
	expect.That(t, words(v.at.root) == before, "the forms changed the keys to\n%s\nfrom\n%s", words(v.at.root), before)
	for _, public := range []string{"/try", "/subscribe", "/signin", "/signin/link", "/checkout/reissue"} {
		w := s.visit(t).alone()
		w.header.Set("Sec-Fetch-Site", "cross-site")
		p := w.post(public, "code", v.code, "plan", "free")
		expect.That(t, p.status == 403 && len(p.cookies()) == 0, "%s from another site: status %d, cookies %v", public,
			p.status, p.cookies())
	}
	// Where the connection is neither encrypted nor local, browsers name the origin alone.
	for origin, status := range map[string]int{s.url: 303, "null": 403} {
		w := s.visit(t).alone()
		w.header.Set("Origin", origin)
		expect.Equal(t, "status of a form of "+origin, w.post("/signin", "code", v.code).status, status)
	}
}

// token returns the token in the cookie of a visitor's session, or "".
func (v *visitor) token() string { return v.cookie("assay_session") }

// cookie returns a visitor's cookie, or "".
func (v *visitor) cookie(name string) string {
	for _, c := range v.client.Jar.Cookies(v.at.url) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// isSignedOut checks that a token signs nobody in.
func (s *site) isSignedOut(t *testing.T, token, why string) {
	t.Helper()
	v := s.visit(t)
	v.client.Jar.SetCookies(v.at.url, []*http.Cookie{{Name: "assay_session", Value: token, Path: "/"}})
	p := v.alone().get("/dashboard/webhooks")
	if p.status != 303 || p.header.Get("Location") != "/signin" { // the script that refreshes a page relies on it
		t.Errorf("%s, the token %.20q gets status %d", why, token, p.status)
	}
}

func (v *visitor) enter(code string) page {
	v.Helper()
	v.get("/signin")
	return v.press("Sign in", "code", code)
}

func (v *visitor) use(link string) page { v.Helper(); v.get(link); return v.press("Sign in") }

// signIn returns a visitor who signed in with a customer's code.
func (s *site) signIn(t *testing.T, code string) *visitor {
	t.Helper()
	v := s.visit(t)
	v.enter(code).is(200, "This month")
	return v
}

func TestSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	owner, key := s.customer(t, "pro")
	copied := owner.token()
	expect.That(t, !strings.Contains(copied, key) && !strings.Contains(copied, owner.at.token()) && len(copied) == 43,
		"the cookie holds %q", copied)
	for _, value := range []string{"x", copied[:len(copied)-1], copied + "A", copied[1:] + copied[:1], key, owner.code,
		strings.Repeat("A", 43), strings.Repeat("A", 3000), "!!", owner.cookie("assay_checkout")} {
		s.isSignedOut(t, value, "a guess")
	}

	// Signing in again replaces the session of the browser, so that nobody can prepare one for somebody else.
	owner.post("/signin", "code", owner.code)
	s.isSignedOut(t, copied, "after signing in again")

	// A session that is ended on the account page is dead at once, on every host.
	phone, tablet := s.signIn(t, owner.code), s.signIn(t, owner.code)
	owner.get(accountPath)
	expect.Equal(t, "offers to end two sessions, and all others", strings.Count(owner.at.body, `/end"`), 3)
	s.clock.Add(2 * time.Minute)
	phone.get("/dashboard")
	owner.submit(accountPath, "End") // the one that was used last
	owner.is(200, "The session is ended.")
	s.isSignedOut(t, phone.token(), "after it was ended")
	phone.post("/dashboard/keys", "csrf", "x", "name", "x").is(403)
	tablet.get("/dashboard").is(200, "This month")
	owner.submit(accountPath, "End all others").is(200, "All other sessions are ended.")
	s.isSignedOut(t, tablet.token(), "after all others were ended")
	owner.is(200, "(this browser)")

	// Nobody ends another account's sessions.
	stranger, _ := s.customer(t, "free")
	sessions, err := s.store.Sessions(t.Context(), account(t, s, owner.token()))
	expect.Must(t, err == nil && len(sessions) == 1, "Sessions = %v, %v", sessions, err)
	stranger.post(accountPath+"/sessions/"+sessions[0].ID+"/end", "csrf", stranger.at.token())
	owner.get("/dashboard").is(200, "This month")

	// A copy of the cookie is worth nothing after signing out.
	copied = owner.token()
	owner.press("Sign out")
	s.isSignedOut(t, copied, "after signing out")

	again := s.signIn(t, owner.code)
	s.clock.Add(signin.SessionLife)
	s.isSignedOut(t, again.token(), "after 12 hours")
	expect.NoError(t, s.store.Prune(t.Context()))
}

func account(t *testing.T, s *site, token string) string {
	t.Helper()
	found, _, err := s.store.Session(t.Context(), token, "")
	expect.NoError(t, err)
	return found.Account
}

// testSignInWithKey checks that an API key never opens the dashboard, even of an account without a sign-in code.
func testSignInWithKey(t *testing.T, s *site) {
	plan, _ := check.PlanNamed("pro")
	id := expect.Value(s.store.CreateAccount(t.Context(), plan))(t)
	issued := expect.Value(s.store.CreateKey(t.Context(), id, "old"))(t)
	for _, key := range []string{issued.Secret, "assay_nonsense"} {
		v := s.visit(t)
		v.enter(" "+key).is(401, "This is an API key, which does not sign in.")
		expect.Equal(t, "a key that was refused begins a session", v.token(), "")
	}

	// A suspended account needs the operator, not another key.
	const advice = "The account is suspended; write to the operator of this service"
	ref := s.record(t, issued.Secret, entity.Domain, "example.org", check.Block)
	expect.NoError(t, s.store.SetStanding(t.Context(), id, true, "a test"))
	v := s.signIn(t, expect.Value(s.store.FirstCode(t.Context(), id))(t))
	v.is(200, advice)
	v.submit("/dashboard/privacy", "Find", "who", "example.com").is(403, advice)
	v.submit("/dashboard/checks/"+ref, "Report", "label", "fraud").is(403, advice)
	// Once the last working key is gone, the owner still signs in, and what needs a key says so.
	expect.NoError(t, s.store.RevokeKey(t.Context(), issued.ID))
	v.submit("/dashboard/privacy", "Find", "who", "example.com").is(403, "This account has no working key.")
	v.submit("/dashboard", "Check", "value", "example.com").is(403, "This account has no working key.")
}

// A session that is older than 10 minutes changes nothing that protects the account without the sign-in code.
func TestFreshProof(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	owner, _ := s.customer(t, "pro")
	other, _ := s.customer(t, "pro")
	owner.submit("/dashboard/webhooks", "Save", "url", "https://receiver.example/")
	token := owner.at.token()
	s.clock.Add(signin.ProofLife)
	for _, path := range []string{"/dashboard/account/code", "/dashboard/webhooks/secret", "/dashboard/webhooks/remove",
		"/dashboard/webhooks/secret/switch", "/dashboard/privacy/erase"} {
		owner.post(path, "csrf", token, "who", "a.example", "sure", "yes").is(403, "Confirm that it is you",
			"Nothing has changed yet.")
		owner.post(path, "csrf", token, "code", other.code).is(401, "There is no such sign-in code.")
		owner.post(path, "csrf", token, "code", owner.code[1:]).is(400, "A character is wrong")
	}
	s.clock.Add(signInsWindow)
	owner.submit("/dashboard/webhooks", "Rotate secret", "switch", "now").is(403, "Confirm that it is you")
	owner.press("Continue", "code", owner.code).is(200, "This is the secret that signs events.")
	owner.lacks("It begins to sign on")
	owner.press("Rotate secret").is(200, "It begins to sign on", "Switch now") // the proof lasts
	owner.press("Switch now").is(200, "The new secret signs from now on")
	owner.lacks("Switch now<")

	phone := s.signIn(t, owner.code)
	owner.submit(accountPath, "Replace the code").is(200, "This is your new sign-in code.")
	s.isSignedOut(t, phone.token(), "after the code was replaced")
	s.visit(t).enter(owner.code).is(401, "There is no such sign-in code.")
	s.signIn(t, owner.at.text("code"))
}

// testShownOnce checks that a secret is shown by the page after its form, and neither shown nor made again by a reload.
func testShownOnce(t *testing.T, s *site) {
	owner, _ := s.customer(t, "pro")
	other, _ := s.customer(t, "pro")
	for _, form := range []struct {
		page, button, id string
		typed            []string
	}{
		{"/dashboard/webhooks", "Save", "secret", []string{"url", "https://receiver.example/"}},
		{"/dashboard/webhooks", "Rotate secret", "secret", nil},
		{"/dashboard/keys", "Create key", "issued", []string{"name", "x"}},
		{"/dashboard/account", "Replace the code", "code", nil},
	} {
		owner.get(form.page)
		shown := owner.press(form.button, form.typed...)
		secret := shown.text(form.id)
		expect.Must(t, shown.status == 200 && secret != "" && shown.header.Get("Cache-Control") == "no-store" &&
			!strings.Contains(shown.url.String(), secret), "%s: %d, %s", form.button, shown.status, words(shown.root))
		for _, v := range []*visitor{owner, other} {
			again := v.get(shown.url.RequestURI())
			expect.That(t, again.status == 200 && again.text(form.id) == "" && !strings.Contains(again.body, secret),
				"%s, loaded again: %d, %s", form.button, again.status, words(again.root))
		}
	}
	expect.Equal(t, "keys", len(expect.Value(s.store.Keys(t.Context(), account(t, s, owner.token())))(t)), 2)
}

// TestSignInLink checks that a link works once, for 15 minutes, and that looking at it does not use it up.
func TestSignInLink(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	owner, _ := s.customer(t, "pro")
	id := account(t, s, owner.token())
	link := func() string { return LinkPath + expect.Value(s.store.NewLink(t.Context(), id))(t) }
	first := link()
	for _, method := range []string{"GET", "HEAD", "GET"} { // as mail scanners do
		p := s.visit(t).send(method, first, "", "")
		set := p.cookies()
		expect.That(t, p.status == 200 && len(set) == 0, "%s: status %d, cookies %v", method, p.status, set)
	}
	v := s.visit(t)
	v.use(first).is(200, "Account", id)
	w := s.visit(t)
	w.use(first).is(410, "This link was used, or it has expired.")

	late := link()
	s.clock.Add(signin.LinkLife)
	w.use(late).is(410, "This link was used, or it has expired.")

	// The operator can end all ways in.
	unused := link()
	expect.NoError(t, s.store.CloseAccountSignIn(t.Context(), id))
	s.isSignedOut(t, v.token(), "after the operator signed the account out")
	w.use(unused).is(410, "This link was used, or it has expired.")
	w.enter(owner.code).is(401, "There is no such sign-in code.")
	expect.Error(t, "NewLink", expect.ErrorOf(s.store.NewLink(t.Context(), "acct_nobody")), billing.ErrNoAccount)
}

// TestCookiesThroughTLS runs with HTTPS, of the host itself or of a proxy.
func TestCookiesThroughTLS(t *testing.T) {
	t.Parallel()
	plain := serve(t, nil)
	configured := serve(t, func(c *Config) { c.URL = "https://assay.example" })
	https := serve(t, func(c *Config) { c.HTTPS = true })
	type testCase struct {
		site   *site
		proto  string
		secure bool
	}
	expect.Each(t, map[string]testCase{
		"plain HTTP":                          {plain, "", false},
		"reported by the proxy":               {plain, "https", true},
		"reported by the first proxy":         {plain, "HTTPS, http", true},
		"a proxy without TLS":                 {plain, "http", false},
		"configured":                          {configured, "", true},
		"of the host itself":                  {https, "", true},
		"configured, and a proxy without TLS": {configured, "http", true},
	}, func(t *testing.T, test testCase) {
		v := test.site.visit(t).alone()
		if test.proto != "" {
			v.header.Set("X-Forwarded-Proto", test.proto)
		}
		if test.site == configured {
			v.header.Set("Origin", "https://assay.example")
		}
		p := v.post("/subscribe", "plan", "free")
		prefix := map[bool]string{true: "__Host-", false: ""}[test.secure]
		c := p.cookies()[prefix+"assay_checkout"]
		expect.Must(t, p.status == 303 && c != nil, "status %d, cookies %v", p.status, p.cookies())
		expect.That(t, c.Secure == test.secure && c.HttpOnly && c.SameSite == http.SameSiteLaxMode &&
			c.Path == "/" && c.Domain == "" && c.MaxAge > 0, "cookie %s", c.Raw)
		expect.That(t, (p.header.Get("Strict-Transport-Security") != "") == test.secure, "headers %v", p.header)
		v.header.Set("Cookie", c.Name+"="+c.Value)
		p = v.get(donePath)
		c = p.cookies()[prefix+"assay_session"]
		expect.That(t, p.status == 200 && c != nil && c.Secure == test.secure && c.HttpOnly,
			"status %d, cookies %v", p.status, p.cookies())
	})
}

// A client with many look-ups of sessions in progress, or an account with many pages, leaves room for others. A page's
// checks take turns like those of the API, and each account's forms have a rate.
func TestDashboardIsShared(t *testing.T) {
	t.Parallel()
	lookUps, pages, checks := admission.NewShares(2), admission.NewShares(2), &hooked{}
	now := time.Now()
	limiter := admission.NewLimiter(func() time.Time { return now })
	s := serve(t, func(c *Config) {
		c.Checker, c.LookUps, c.Pages = checks, lookUps, pages
		c.TakeKey = func(c check.Caller) error { return limiter.Take(c.Key, admission.Rate{PerMinute: 1, Burst: 1}) }
	})
	flood, _ := s.customer(t, "free")
	neighbour, _ := s.customer(t, "free")
	other, _ := s.customer(t, "free")
	flood.header.Set("X-Test-Client", "192.0.2.1/32")
	neighbour.header.Set("X-Test-Client", "192.0.2.2/32")
	release := expect.Value(lookUps.Take("192.0.2.0/24"))(t)
	flood.get("/dashboard").is(503, "The server is busy.")
	expect.Equal(t, "Retry-After", flood.at.header.Get("Retry-After"), "1")
	other.get("/dashboard").is(200)
	release()

	checks.before = func(r check.Request) error {
		expect.Equal(t, "whose turn a check on the dashboard takes", r.Caller.Share(), "network 192.0.2.0/24")
		return nil
	}
	release = expect.Value(pages.Take("network 192.0.2.0/24"))(t)
	flood.get("/dashboard").is(503, "The server is busy.")
	neighbour.get("/dashboard").is(503)
	other.get("/dashboard").is(200)
	release()
	flood.submit("/dashboard", "Check", "value", "example.com").is(200)
	flood.press("Check", "value", "example.com").is(429, "faster than 1 a minute. Nothing was changed. Try again in ")
	neighbour.submit("/dashboard", "Check", "value", "example.com").is(200) // the slot is free again
	checks.before = func(r check.Request) error {
		expect.Equal(t, "whose turn a check without a key takes", r.Caller.Share(), r.Caller.Account+"|192.0.2.0/24")
		return nil
	}
	flood.submit("/", "Check", "domain", "example.com").is(200)
}

// Attempts with codes and links count together, on all hosts.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	hosts := []*site{s, serve(t, func(c *Config) { c.Store, c.Now = s.store, s.cfg.Now })}
	requests := 0
	attempt := func(what, client string, beyond bool) {
		t.Helper()
		requests++
		v := hosts[requests%2].visit(t).alone()
		v.header.Set("X-Test-Client", client)
		path, want := "/signin", 400
		if requests%4 >= 2 {
			path, want = "/signin/link", 410
		}
		if beyond {
			want = 429
		}
		expect.Equal(t, what, v.post(path, "code", "x", "token", "x").status, want)
	}
	for i := range maxSignIns {
		attempt(fmt.Sprint("attempt ", i), "192.0.2.1/32", false)
	}
	for range 4 {
		attempt("beyond the limit", "192.0.2.1/32", true)
	}
	attempt("another client", "192.0.2.2/32", false)
	s.clock.Add(signInsWindow)
	attempt("after the window", "192.0.2.1/32", false)
}
