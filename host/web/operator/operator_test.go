package operator_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/web/operator"
	"assay/registry/expect"
)

const token = "a-token-of-the-test"

var now = time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC)

// newPage returns a page that shows a state. change may be nil.
func newPage(t *testing.T, s *operator.State, change func(*operator.Config)) http.Handler {
	t.Helper()
	if s == nil {
		s = &operator.State{At: now, Host: "here:8080", Version: "1.2.3"}
	}
	cfg := operator.Config{Token: token, Client: client, State: func(context.Context) *operator.State { return s },
		Look: os.DirFS("../console/static"), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Now: func() time.Time { return now }}
	if change != nil {
		change(&cfg)
	}
	return expect.Value(operator.New(cfg))(t)
}

type answer struct {
	*http.Response
	text string
}

// ask sends a request with headers in pairs. A body is a form.
func ask(t *testing.T, h http.Handler, method, target, body string, headers ...string) answer {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Result(), string(expect.Value(io.ReadAll(w.Result().Body))(t))}
}

func form(token string) string { return url.Values{"token": {token}}.Encode() }

// signIn returns the cookie of a session, as a browser sends it.
func signIn(t *testing.T, h http.Handler) string {
	t.Helper()
	r := ask(t, h, "POST", "/operator/signin", form(token))
	expect.Must(t, r.StatusCode == http.StatusSeeOther && len(r.Cookies()) == 1,
		"signing in got %d with the cookies %v:\n%s", r.StatusCode, r.Cookies(), r.text)
	return r.Cookies()[0].Name + "=" + r.Cookies()[0].Value
}

// is checks the status of an answer, and that it contains texts.
func (a answer) is(t *testing.T, what string, status int, contains ...string) answer {
	t.Helper()
	lacks := func(text string) bool { return !strings.Contains(a.text, text) }
	expect.That(t, a.StatusCode == status && !slices.ContainsFunc(contains, lacks),
		"%s: status %d, want %d and %q:\n%s", what, a.StatusCode, status, contains, a.text)
	return a
}

func TestClosedWithoutAToken(t *testing.T) {
	t.Parallel()
	h := newPage(t, nil, func(cfg *operator.Config) { cfg.Token = "" })
	ask(t, h, "GET", "/operator", "").
		is(t, "the page", 403, "<code>ASSAY_OPERATOR_TOKEN</code>", "at least 16 characters")
	ask(t, h, "POST", "/operator/signin", "token=").is(t, "signing in without a token", 403)
	ask(t, h, "GET", "/operator", "", "Authorization", "Bearer ", "Accept", "application/json").
		is(t, "JSON", 403, `"error"`, "ASSAY_OPERATOR_TOKEN")
	ask(t, h, "GET", "/operator/static/console.css", "").is(t, "the style sheet", 200, "color-scheme")
}

func TestBadTokensAreRefused(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		token[:operator.MinToken-1]: "at least 16 characters",
		token + " ":                 "must not begin or end with a blank",
	} {
		cfg := operator.Config{Token: token, Look: os.DirFS("../console/static")}
		expect.ErrorText(t, "token "+token, expect.ErrorOf(operator.New(cfg)), want)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	h := newPage(t, nil, nil)
	r := ask(t, h, "GET", "/operator", "").is(t, "without a session", 200, `name="token"`)
	expect.Equal(t, "the state is shown to everybody", strings.Contains(r.text, "1.2.3"), false)
	ask(t, h, "POST", "/operator/signin", form("a-token-of-another")).
		is(t, "a wrong token", 401, "not the token of this host", `role="alert"`)
	ask(t, h, "POST", "/operator/signin?"+form(token), "").is(t, "a token in the URL", 401)
	ask(t, h, "POST", "/operator/signin", form(strings.Repeat("x", 8<<10))).is(t, "a long form", 401)

	r = ask(t, h, "POST", "/operator/signin", form(" "+token+"\n")).is(t, "the token", 303)
	c := r.Cookies()[0]
	expect.That(t, c.HttpOnly && c.SameSite == http.SameSiteStrictMode && !c.Secure && c.Path == "/operator" &&
		c.MaxAge == 12*60*60 && r.Header.Get("Location") == "/operator", "signing in leads to %s with the cookie %+v",
		r.Header.Get("Location"), c)
	r = ask(t, h, "POST", "/operator/signin", form(token), "X-Forwarded-Proto", "https").
		is(t, "behind a TLS proxy", 303)
	expect.Equal(t, "Secure of the cookie behind a TLS proxy", r.Cookies()[0].Secure, true)
	cookie := signIn(t, h)
	ask(t, h, "GET", "/operator", "", "Cookie", cookie).is(t, "with a session", 200, "1.2.3", "Healthy", "Sign out")
	r = ask(t, h, "POST", "/operator/signout", "", "Cookie", cookie).is(t, "signing out", 303)
	c = r.Cookies()[0]
	expect.That(t, c.MaxAge < 0 && c.Value == "", "signing out leaves the cookie %+v", c)
	r = ask(t, h, "GET", "/operator", "", "Cookie", cookie).
		is(t, "a copied cookie after signing out", 200, `name="token"`)
	expect.Equal(t, "the state is shown to a copied cookie", strings.Contains(r.text, "1.2.3"), false)
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	c := expect.NewClock(now)
	h := newPage(t, nil, func(cfg *operator.Config) { cfg.Now = c.Now })
	cookie, other := signIn(t, h), signIn(t, h)
	shown := func(h http.Handler, cookie string) bool {
		t.Helper()
		return strings.Contains(ask(t, h, "GET", "/operator", "", "Cookie", cookie).text, "1.2.3")
	}
	expect.Equal(t, "a session is valid on another host", shown(newPage(t, nil, nil), cookie), false)
	for i := len("assay_operator="); i < len(cookie); i++ {
		altered := []byte(cookie)
		altered[i] ^= 1
		expect.That(t, !shown(h, string(altered)), "the session is valid with character %d altered", i)
	}
	ask(t, h, "POST", "/operator/signout", "", "Cookie", other).is(t, "signing out", 303)
	c.Add(12*time.Hour - time.Second)
	expect.Equal(t, "the session ended before 12 hours", shown(h, cookie), true)
	c.Add(time.Second)
	expect.Equal(t, "the session is valid after 12 hours", shown(h, cookie), false)
}

// client counts the requests of each value of a header as those of one client.
func client(r *http.Request) netip.Prefix {
	p, _ := netip.ParsePrefix(r.Header.Get("From"))
	return p
}

// Every client has ten wrong tokens at once, and then one every ten seconds. Until then not even the right one is
// compared, or guessing would go on. Others sign in meanwhile.
func TestWrongTokensAreBounded(t *testing.T) {
	t.Parallel()
	c := expect.NewClock(now)
	h := newPage(t, nil, func(cfg *operator.Config) { cfg.Now = c.Now })
	cookie := signIn(t, h)
	for i := range 10 {
		ask(t, h, "POST", "/operator/signin", form("wrong")).is(t, "a wrong token", 401)
		if i == 5 {
			signIn(t, h) // costs nothing
		}
	}
	ask(t, h, "POST", "/operator/signin", form(token)).is(t, "after ten wrong tokens", 429, "Wait 10 seconds")
	r := ask(t, h, "GET", "/operator", "", "Authorization", "Bearer "+token, "Accept", "application/json").
		is(t, "a header after ten wrong tokens", 429, `"error"`)
	expect.Equal(t, "Retry-After", r.Header.Get("Retry-After"), "10")
	ask(t, h, "POST", "/operator/signin", form(token), "From", "192.0.2.1/32").is(t, "another client meanwhile", 303)
	ask(t, h, "GET", "/operator", "", "Cookie", cookie).is(t, "a session meanwhile", 200, "1.2.3")
	c.Add(10 * time.Second)
	signIn(t, h)
	ask(t, h, "GET", "/operator", "", "Authorization", "Bearer wrong").is(t, "one more wrong token", 401)
	ask(t, h, "GET", "/operator", "", "Authorization", "Bearer wrong").is(t, "and another", 429)
}

func TestJSON(t *testing.T) {
	t.Parallel()
	h := newPage(t, &operator.State{At: now, Version: "1.2.3", Hosts: []operator.Host{{Name: "a"}},
		Unknown: map[operator.Part]string{operator.Chains: "the database does not respond"}}, nil)
	r := ask(t, h, "GET", "/operator", "", "Accept", "application/json").
		is(t, "without a token", 401, "Authorization: Bearer")
	expect.Equal(t, "WWW-Authenticate", r.Header.Get("WWW-Authenticate"), "Bearer")
	for _, credential := range [][]string{{"Authorization", "bearer " + token}, {"Cookie", signIn(t, h)}} {
		r = ask(t, h, "GET", "/operator", "", append(credential, "Accept", "application/json")...).
			is(t, credential[0], 200)
		var got struct {
			Health, Version string
			Hosts           []struct{ Name string }
			Unknown         map[string]string
		}
		err := json.Unmarshal([]byte(r.text), &got)
		expect.That(t, err == nil && got.Health == "attention" && got.Version == "1.2.3" && len(got.Hosts) == 1 &&
			got.Unknown["chains"] != "" && r.Header.Get("Content-Type") == "application/json", "JSON %+v, %v:\n%s", got,
			err, r.text)
	}
	ask(t, h, "GET", "/operator", "", "Authorization", "Bearer "+token).is(t, "HTML with the token", 200, "<h1>")
}

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	h := newPage(t, nil, nil)
	for name, test := range map[string]struct {
		headers []string
		status  int
	}{
		"the same origin":          {[]string{"Sec-Fetch-Site", "same-origin"}, http.StatusSeeOther},
		"a client, not a browser":  {nil, http.StatusSeeOther},
		"the same origin, no TLS":  {[]string{"Origin", "http://example.com"}, http.StatusSeeOther},
		"another site":             {[]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"another port":             {[]string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		"another site without TLS": {[]string{"Origin", "http://evil.example"}, http.StatusForbidden},
	} {
		ask(t, h, "POST", "/operator/signin", form(token), test.headers...).is(t, name, test.status)
		ask(t, h, "POST", "/operator/signout", "", test.headers...).is(t, name, test.status)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	h := newPage(t, nil, nil)
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/operator", http.StatusOK}, {"HEAD", "/operator", http.StatusOK},
		{"GET", "/operator/nothing", http.StatusNotFound}, {"PUT", "/operator", http.StatusMethodNotAllowed},
		{"GET", "/operator/static/operator.css", http.StatusOK}, {"GET", "/operator/static/icon.svg", http.StatusOK},
	} {
		r := ask(t, h, test.method, test.path, "").is(t, test.method+" "+test.path, test.status)
		policy := r.Header.Get("Content-Security-Policy")
		expect.That(t, !strings.Contains(policy, "script") && !strings.Contains(policy, "unsafe") &&
			strings.HasPrefix(policy, "default-src 'none'") && r.Header.Get("Cache-Control") == "no-store" &&
			r.Header.Get("X-Content-Type-Options") == "nosniff", "%s %s has the headers %v", test.method, test.path,
			r.Header)
		for _, inline := range []string{"<script", "<style", "style=", "http://", "https://", "onclick"} {
			expect.That(t, !strings.Contains(r.Header.Get("Content-Type"), "html") || !strings.Contains(r.text, inline),
				"%s %s contains %s", test.method, test.path, inline)
		}
	}
	// What the page refers to exists, and can be kept.
	for piece := range strings.SplitSeq(ask(t, h, "GET", "/operator", "").text, `href="`) {
		link, _, _ := strings.Cut(piece, `"`)
		if strings.HasPrefix(link, "/operator/static/") {
			r := ask(t, h, "GET", link, "").is(t, link, 200)
			expect.That(t, strings.Contains(r.Header.Get("Cache-Control"), "immutable"), "%s is loaded again and again",
				link)
		}
	}
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	h := newPage(t, nil, nil)
	for query, want := range map[string]bool{"": false, "?every=10": true, "?every=60": true, "?every=0": false,
		"?every=1;url=x": false} {
		text := ask(t, h, "GET", "/operator"+query, "", "Authorization", "Bearer "+token).text
		expect.That(t, strings.Contains(text, `http-equiv="refresh"`) == want,
			"with %q the page loads itself again: %t, want %t", query, !want, want)
	}
}

func TestHeadline(t *testing.T) {
	t.Parallel()
	problem := operator.Warning{Severity: operator.Problem, What: "x"}
	for name, test := range map[string]struct {
		state    operator.State
		health   operator.Health
		headline string
	}{
		"nothing": {operator.State{}, operator.Healthy, "Healthy: this host takes checks, and no problem is known"},
		"settings only": {operator.State{Warnings: []operator.Warning{{Severity: operator.Caution},
			{Severity: operator.Advice}}}, operator.Healthy,
			"Healthy: this host takes checks, and no problem is known"},
		"a problem": {operator.State{Warnings: []operator.Warning{problem}}, operator.Attention,
			"This host takes checks, but 1 problem needs attention"},
		"two problems": {operator.State{Warnings: []operator.Warning{problem, problem}}, operator.Attention,
			"This host takes checks, but 2 problems need attention"},
		"unknown": {operator.State{Unknown: map[operator.Part]string{operator.Hosts: "x"}}, operator.Attention,
			"This host takes checks, but not all of its state could be read"},
		"not ready": {operator.State{NotReady: []operator.Warning{problem}, Warnings: []operator.Warning{problem}},
			operator.Failing, "This host takes no checks"},
	} {
		if got := test.state.Health(); got != test.health || test.state.Headline() != test.headline {
			t.Errorf("%s: %s, %q, want %s, %q", name, got, test.state.Headline(), test.health, test.headline)
		}
	}
}

// Names and reasons come from other hosts and from whoever changed the lineup. All of them are text.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const evil = `<script>alert(1)</script>" onload="x' {{.}} \u202e`
	s := &operator.State{
		At: now, Host: evil, Version: evil, NotReady: []operator.Warning{{What: evil + "`" + evil, Do: evil}},
		Warnings: []operator.Warning{{Severity: operator.Problem, What: evil + "`" + evil + "`", Do: evil}},
		Hosts: []operator.Host{{Name: evil, Version: evil, Problem: evil, Canary: evil, Refused: 3},
			{Name: evil, Silent: true}},
		Lineup: operator.Lineup{Activation: 3, Author: evil, Reason: evil, Canary: &operator.Canary{Limit: evil},
			Shadow: &operator.Shadow{},
			Layers: []operator.Layer{{Name: evil, Version: evil, Mode: evil, Weights: map[string]float64{"domain": 1},
				Failed: map[string]uint64{evil: 2}, FuelMean: 1, Budget: 10}}},
		Queues: operator.Queues{Lists: map[string]int{evil: 1}},
		Audit:  operator.Audit{Chains: []operator.Chain{{Damage: evil}}},
	}
	for _, unknown := range []map[operator.Part]string{nil, {operator.Hosts: evil, operator.Chains: evil,
		operator.Graph: evil, operator.Webhooks: evil, operator.Lists: evil}} {
		s.Unknown = unknown
		text := ask(t, newPage(t, s, nil), "GET", "/operator", "", "Authorization", "Bearer "+token).text
		for _, bad := range []string{"<script", `" onload="`, "' {{"} {
			expect.That(t, !strings.Contains(text, bad), "the page contains %s:\n%s", bad, text)
		}
		expect.That(t, strings.Contains(text, "&lt;script&gt;") &&
			strings.HasSuffix(strings.TrimSpace(text), "</html>"), "the page is not complete:\n%s", text)
	}
}
