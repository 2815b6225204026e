package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"assay/host/customer/feedback"
	"assay/registry/expect"
)

// reply is a response that was read completely.
type reply struct {
	status int
	header http.Header
	body   string
	closes bool // whether it announces that the connection is closed
}

// is checks that a response is well-behaved, its status, and that it contains texts.
func (r reply) is(t testing.TB, what string, status int, texts ...string) {
	t.Helper()
	r.wellBehaved(t)
	lacks := func(text string) bool { return !strings.Contains(r.body, text) }
	expect.That(t, r.status == status && !slices.ContainsFunc(texts, lacks), "%s: status %d, want %d and %q: %s", what,
		r.status, status, texts, r.body)
}

func (r reply) failure(t testing.TB) failure {
	t.Helper()
	var f failure
	err := json.Unmarshal([]byte(r.body), &f)
	expect.Must(t, err == nil, "the body of status %d is not JSON: %v: %q", r.status, err, r.body)
	return f
}

// wellBehaved checks the properties of every response.
func (r reply) wellBehaved(t testing.TB) {
	t.Helper()
	expect.Equal(t, "X-Content-Type-Options", r.header.Get("X-Content-Type-Options"), "nosniff")
	id := r.header.Get(requestHeader)
	expect.That(t, isRequestID(id), "%s is %q", requestHeader, id)
	for name := range r.header {
		expect.That(t, !strings.HasPrefix(name, "Access-Control-") && name != "Server", "unwanted header %s", name)
	}
	got := r.header.Get("WWW-Authenticate")
	expect.That(t, (got == "Bearer") == (r.status == 401), "WWW-Authenticate is %q with status %d", got, r.status)
	got = r.header.Get("Retry-After")
	expect.That(t, r.status != 503 || got == "1" || r.header.Get("RateLimit") != "",
		"Retry-After is %q with status 503", got)
	if r.status == http.StatusOK || r.status == http.StatusAccepted {
		return
	}
	expect.Equal(t, "Content-Type of an error", r.header.Get("Content-Type"), "application/json")
	if r.body != "" && !strings.HasSuffix(r.body, `,"request_id":"`+id+`"}`) { // the answer to HEAD is empty
		t.Errorf("the body does not have the id of the request: %s", r.body)
	}
	expect.That(t, !strings.Contains(r.body, secret) && !strings.Contains(r.body, "goroutine") &&
		!strings.Contains(r.body, "fasthttp"), "the body reveals internals: %q", r.body)
}

// send makes one request with a new client. headers alternates names and values.
func (s *site) send(t testing.TB, method, path, body string, headers ...string) reply {
	t.Helper()
	req := expect.Value(http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body)))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		Timeout: patience}
	return readReply(t, expect.Value(client.Do(req))(t))
}

func readReply(t testing.TB, resp *http.Response) reply {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	body := expect.Value(io.ReadAll(resp.Body))(t)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body), closes: resp.Close}
}

// ask sends a request such as "GET /healthz" with a key.
func (s *site) ask(t testing.TB, key, request, body string, headers ...string) reply {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	return s.send(t, method, path, body, append([]string{"Authorization", "Bearer " + key}, headers...)...)
}

// calls records what a fake was asked.
type calls struct {
	mu   sync.Mutex
	seen []string
}

// add records a call. It fails if the account is failKey.
func (c *calls) add(account, format string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, strings.TrimSpace(fmt.Sprintf(format, args...)))
	if account == failKey {
		return errors.New(secret)
	}
	return nil
}

// about is add for a call about a check. It fails if that is unknownRef.
func (c *calls) about(account, ref, format string, args ...any) error {
	if err := c.add(account, format, args...); err != nil || ref != unknownRef {
		return err
	}
	return fmt.Errorf("reading: %w", feedback.ErrUnknownCheck)
}

// dialog is a request, the call that it makes, and the answer, unless that is "".
type dialog struct{ request, body, call, answer string }

// converse sends requests, and checks that the log has none of the private texts.
func (s *site) converse(t *testing.T, made *calls, dialogs []dialog, private ...string) {
	t.Helper()
	for _, e := range dialogs {
		made.seen = nil
		r := s.ask(t, goodKey, e.request, e.body)
		r.is(t, e.request+" "+e.body, 200)
		if e.answer != "" {
			expect.Equal(t, e.request, r.body, e.answer)
		}
		expect.NoDiff(t, e.request+" calls", []string{e.call}, made.seen)
	}
	for _, text := range private {
		log := s.log.text()
		expect.That(t, !strings.Contains(log, text), "the log contains %q: %s", text, log)
	}
}

// check posts body to /api/check with a good key.
func (s *site) check(t testing.TB, body string, headers ...string) reply {
	t.Helper()
	return s.send(t, "POST", "/api/check", body,
		append([]string{"Authorization", "Bearer " + goodKey, "Content-Type", "application/json"}, headers...)...)
}

// exchange writes raw bytes to a new connection and returns all responses until the server closes it, as it must.
func (s *site) exchange(t testing.TB, raw string) []reply {
	t.Helper()
	c := s.dial(t)
	go func() { _, _ = io.WriteString(c, raw) }()
	return readReplies(t, c)
}

func readReplies(t testing.TB, c net.Conn) []reply {
	t.Helper()
	var replies []reply
	for r := bufio.NewReader(c); ; {
		resp, err := http.ReadResponse(r, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return replies
		}
		expect.Must(t, err == nil, "after %d responses: %v", len(replies), err)
		replies = append(replies, readReply(t, resp))
	}
}

func isRequestID(id string) bool {
	return regexp.MustCompile(`^req_[0-9A-HJKMNP-TV-Z]{26}$`).MatchString(id)
}

// TestRequestIDs checks that every response has an id of the host's own, and that the log has the same.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	const clients = "req_01KF0HBGZ0Q8WJ3V5N7T9R2M4C"
	expect.EachNamed(t, map[string]func(*site) reply{
		"check":        func(s *site) reply { return s.check(t, exampleBody, requestHeader, clients) },
		"error":        func(s *site) reply { return s.check(t, "{", requestHeader, clients) },
		"panic":        func(s *site) reply { return s.ask(t, panicKey, "POST /api/check", exampleBody) },
		"page":         func(s *site) reply { return s.send(t, "GET", "/page", "", requestHeader, clients) },
		"unknown path": func(s *site) reply { return s.send(t, "GET", "/none", "") },
		"malformed":    func(s *site) reply { return s.exchange(t, "GET /healthz HTTP/1.1\r\nHost: x:0\r\n\r\n")[0] },
		"unreadable":   func(s *site) reply { return s.exchange(t, "GET\r\n\r\n")[0] },
		"large head": func(s *site) reply {
			return s.send(t, "GET", "/healthz", "", "X-Long", strings.Repeat("x", maxHead))
		},
	}, func(t *testing.T, name string, send func(s *site) reply) {
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
		"batch": {batchPath, `{"checks":[` + exampleBody + `]}`, "1", "auth" + dur + ", check" + dur + ", total" + dur},
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
			expect.Equal(t, fmt.Sprintf("HTTPS %v, %s", https, path),
				s.send(t, "GET", path, "").header.Get("Strict-Transport-Security"), want)
		}
	}
}
