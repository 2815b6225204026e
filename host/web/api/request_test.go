package api

import (
	"regexp"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"assay/registry/expect"
)

func isRequestID(id string) bool {
	return regexp.MustCompile(`^req_[0-9A-HJKMNP-TV-Z]{26}$`).MatchString(id)
}

// TestRequestIDs checks that every response has an id of the host's own, and that the log has the same.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	const clients = "req_01KF0HBGZ0Q8WJ3V5N7T9R2M4C"
	for name, send := range map[string]func(*site) reply{
		"check": func(s *site) reply { return s.check(t, exampleBody, requestHeader, clients) },
		"error": func(s *site) reply { return s.check(t, "{", requestHeader, clients) },
		"panic": func(s *site) reply {
			return s.ask(t, panicKey, "POST /api/check", exampleBody)
		},
		"page":         func(s *site) reply { return s.send(t, "GET", "/page", "", requestHeader, clients) },
		"unknown path": func(s *site) reply { return s.send(t, "GET", "/none", "") },
		"malformed":    func(s *site) reply { return s.exchange(t, "GET /healthz HTTP/1.1\r\nHost: x:0\r\n\r\n")[0] },
		"unreadable":   func(s *site) reply { return s.exchange(t, "GET\r\n\r\n")[0] },
		"large head": func(s *site) reply {
			return s.send(t, "GET", "/healthz", "", "X-Long", strings.Repeat("x", maxHead))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Pages: func(ctx *fasthttp.RequestCtx) {
				if string(ctx.Path()) != "/page" {
					ctx.NotFound()
					return
				}
				ctx.SetBodyString(string(ctx.Response.Header.Peek(requestHeader)))
			}})
			r := send(s)
			id := r.header.Get(requestHeader)
			expect.That(t, isRequestID(id) && id != clients, "the id is %q", id)
			expect.That(t, name != "page" || r.body == id, "the page saw the id %q, want %q", r.body, id)
			if r.status != 200 {
				r.wellBehaved(t)
			}
			log := s.log.String()
			expect.That(t, strings.Contains(log, `"request_id":"`+id+`"`), "the id is %s, but the log says %s", id, log)
		})
	}
}

// TestClientsIDs checks which ids of a client are kept in the log.
func TestClientsIDs(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, test := range map[string]struct {
		header, value string
		kept          bool
	}{
		`"client_request_id":"7b2c/a.B:1+2="`: {requestHeader, "7b2c/a.B:1+2=", true},
		`"traceparent":"` + trace + `"`:       {"traceparent", trace, true},
		"jane@example.com":                    {requestHeader, "jane@example.com", false},
		"forged line":                         {requestHeader, "forged line", false},
		"\"client_request_id":                 {requestHeader, strings.Repeat("x", 129), false},
		"4bf92f3577b34da6":                    {"traceparent", trace + "-jane", false},
	} {
		s := start(t, Config{})
		s.check(t, exampleBody, test.header, test.value)
		kept := strings.Contains(s.log.String(), name)
		expect.That(t, kept == test.kept, "%s: in the log: %t, want %t:\n%s", name, kept, test.kept, s.log.String())
	}
}

func TestServerTiming(t *testing.T) {
	t.Parallel()
	const dur = `;dur=\d+\.\d{3}`
	s := start(t, Config{})
	type testCase struct{ path, body, value, want string }
	expect.Each(t, map[string]testCase{
		"check": {"/api/check", exampleBody, "1", "auth" + dur + ", check" + dur + ", total" + dur},
		"batch": {batchPath, `{"checks":[` + exampleBody + `]}`, "1",
			"auth" + dur + ", check" + dur + ", total" + dur},
		"without a key": {"/api/check-public", exampleBody, "1",
			"limit" + dur + ", check" + dur + ", total" + dur},
		"error":                    {"/api/check", "{", "1", "auth" + dur + ", total" + dur},
		"another endpoint":         {"/none", "", "1", "total" + dur},
		"not asked for":            {"/api/check", exampleBody, "", ""},
		"asked for in another way": {"/api/check", exampleBody, "yes", ""},
	}, func(t *testing.T, test testCase) {
		r := s.ask(t, goodKey, "POST "+test.path, test.body, timingHeader, test.value)
		if got := r.header.Get("Server-Timing"); !regexp.MustCompile("^" + test.want + "$").MatchString(got) {
			t.Errorf("Server-Timing is %q, want %q", got, test.want)
		}
	})
}

func TestStrictTransportSecurity(t *testing.T) {
	t.Parallel()
	for https, want := range map[bool]string{true: "max-age=31536000", false: ""} {
		s := start(t, Config{HTTPS: https})
		for _, path := range []string{"/healthz", "/none"} {
			got := s.send(t, "GET", path, "").header.Get("Strict-Transport-Security")
			expect.That(t, got == want, "HTTPS %v, %s: the header is %q, want %q", https, path, got, want)
		}
	}
}
