package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/registry/expect"
)

// line is a request's line in the log, without the members that differ from run to run.
type line struct {
	Level, Method, Route, Account, Ref, Error string
	Status                                    int
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	const check = "/api/check"
	const secretHead = "POST /api/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key-secret\r\n"
	request := func(request, key string, headers ...string) func(*site) {
		return func(s *site) { s.ask(t, key, request, exampleBody, headers...) }
	}
	body := func(body string) func(*site) { return func(s *site) { s.check(t, body) } }
	raw := func(head string) func(*site) { return func(s *site) { s.exchange(t, secretHead+head) } }
	type testCase struct {
		send func(*site)
		want line
	}
	expect.Each(t, map[string]testCase{
		"check": {body(exampleBody), line{"INFO", "POST", check, goodKey, "chk", "", 200}},
		"check without a key": {request("POST /api/check-public", "", "X-Forwarded-For", "198.51.100.77"),
			line{"INFO", "POST", "/api/check-public", "", "chk", "", 200}},
		"key in the query": {request("POST /api/check?key=key-secret&domain=example.com", ""),
			line{"INFO", "POST", check, "", "", "", 401}},
		"unknown key":   {request("POST /api/check", "key-secret"), line{"INFO", "POST", check, "", "", "", 401}},
		"invalid value": {body(`{"domain":"example.com\u0000"}`), line{"INFO", "POST", check, goodKey, "", "", 400}},
		"overloaded": {request("POST /api/check", busyKey),
			line{"WARN", "POST", check, busyKey, "", admission.ErrBusy.Error(), 503}},
		"a layer that could not be asked": {request("POST /api/check", lateKey),
			line{"WARN", "POST", check, lateKey, "", "layer slow@1.0.0 unavailable: more processor time", 503}},
		"internal error with its cause": {request("POST /api/check", failKey),
			line{"ERROR", "POST", check, failKey, "chk", "check " + knownRef + ": " + secret, 500}},
		"not ready": {request("GET /readyz", ""), line{"WARN", "GET", "/readyz", "", "", "database: " + secret, 503}},
		"panic": {request("POST /api/check", panicKey),
			line{"ERROR", "POST", check, panicKey, "chk", "panic: " + secret, 500}},
		"unknown path":   {request("GET /key-secret/example.com", ""), line{"INFO", "GET", "", "", "", "", 404}},
		"unknown method": {request("KEY-SECRET /api/check", ""), line{"INFO", "other", check, "", "", "", 405}},
		"malformed head": {raw("example.com\r\n\r\n"), line{Level: "INFO", Status: 400}},
		"malformed head that can be parsed": {raw("A: b\r\n example.com\r\n\r\n"),
			line{"INFO", "POST", check, "", "", "", 400}},
		"large body": {body(strings.Repeat(" ", maxBody+1)), line{"INFO", "POST", check, "", "", "", 413}},
	}, func(t *testing.T, test testCase) {
		s := start(t, Config{Ready: func() error { return errors.New("database: " + secret) },
			TrustedProxies: prefixes("127.0.0.0/8")})
		test.send(s)
		// The line is written before the response.
		logged := strings.TrimSpace(s.log.String())
		var got struct {
			line
			MS *float64
		}
		err := json.Unmarshal([]byte(logged), &got)
		expect.Must(t, err == nil && got.MS != nil, "not one line of JSON with a duration: %v: %s", err, logged)
		if got.Ref != "" {
			got.Ref = got.Ref[:3]
		}
		expect.NoDiff(t, "line", test.want, got.line)
		for _, word := range []string{"example.com", "key-secret", "KEY-SECRET", "198.51.100.77", "127.0.0.1",
			"Bearer"} {
			expect.That(t, !strings.Contains(logged, word), "the log contains %q: %s", word, logged)
		}
	})
}

func TestStatusEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Version: "1.2.3"})
	s.send(t, "GET", "/healthz", "").is(t, "a live host", 200, `{"status":"ok","version":"1.2.3"}`)
	s.send(t, "GET", "/readyz", "").is(t, "a ready host", 200, `{"status":"ready"}`)
	s = start(t, Config{Ready: func() error { return errors.New(secret) }})
	s.send(t, "GET", "/healthz", "").is(t, "a live host that is not ready", 200)
	s.send(t, "GET", "/readyz", "").is(t, "a host that is not ready", 503, `"error":"not ready"`)
	stopped := New(Config{Checker: &checker{}, Keys: keys{}, Public: &public{}})
	expect.NoError(t, stopped.Shutdown(context.Background()))
	status, body := answerTo(stopped.ready(nil))
	expect.That(t, status == 503 && body.Error == "not ready", "while it shuts down: status %d: %s", status, body.Error)
}

// A burst of refusals writes one line at once and one a second, which together count all of them.
func TestLogOfRefusalsIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &refusals{log: slog.New(slog.NewTextHandler(&log, nil)), kinds: map[refusalKind]*suppressed{}}
		burst := refusalKind{"/api/check", "share"}
		own := 0
		for range 2500 { // over 2.5 seconds
			if r.admit(burst) {
				own++
			}
			<-time.After(1001 * time.Microsecond) // never at the same instant as a line
		}
		expect.That(t, r.admit(refusalKind{"/api/check", "database"}), "the first refusal of another kind has no line")
		<-time.After(10 * time.Second)
		synctest.Wait()
		expect.Equal(t, "the first refusal of a later burst has a line", r.admit(burst), true)
		r.admit(burst)
		r.close()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		expect.That(t, own == 1 && len(lines) == 4, "%d lines of requests, and:\n%s", own, log.String())
		for i, want := range []string{"suppressed=999", "suppressed=999", "suppressed=501", "suppressed=1"} {
			expect.That(t, i >= len(lines) || strings.Contains(lines[i], want+"\n") ||
				strings.HasSuffix(lines[i], want), "line %d is %s, want %s", i, lines[i], want)
		}
	})
}

// Refused requests share lines in the access log. Errors with a reference have one each.
func TestRefusedRequestsShareLines(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const n = 20
	began := time.Now()
	for range n {
		s.ask(t, busyKey, "POST /api/check", exampleBody)
		s.ask(t, failKey, "POST /api/check", exampleBody)
	}
	s.Server.refusals.close()
	log := s.log.String()
	refused := strings.Count(log, `"status":503`)
	most := 2 + 2*int(time.Since(began)/suppressFor) // each begins or ends a second of suppression
	expect.That(t, strings.Contains(log, admission.ErrBusy.Error()) && refused != 0 && refused <= most &&
		strings.Contains(log, `"reason":"door"`), "%d refusals have %d lines:\n%s", n, refused, log)
	expect.Equal(t, "failures", strings.Count(log, `"status":500`), n)
}

// Routes are few, whatever clients ask for: each is a label of metrics, and each value of a label takes memory.
func TestAnswered(t *testing.T) {
	t.Parallel()
	answered := make(chan string, 1)
	s := start(t, Config{
		Pages: func(ctx *fasthttp.RequestCtx) {
			switch string(ctx.Path()) {
			case "/", "/static/page.css":
				_, _ = ctx.WriteString("a page")
			case "/broken":
				panic(secret)
			default:
				ctx.SetStatusCode(http.StatusNotFound)
			}
		},
		Answered: func(route string, status int, took time.Duration) {
			expect.That(t, took > 0 && took <= time.Hour, "%s took %v", route, took)
			answered <- fmt.Sprint(route, " ", status)
		},
	})
	for _, test := range []struct {
		method, path, body string
		headers            []string
		want               string
	}{
		{"POST", "/api/check", exampleBody, auth(goodKey), "/api/check 200"},
		{"POST", "/api/check", exampleBody, nil, "/api/check 401"},
		{"POST", "/api/check", exampleBody, auth(panicKey), "/api/check 500"},
		{"GET", "/api/check", "", nil, "/api/check 405"},
		{"GET", "/gdpr/export?ref=" + unknownRef, "", auth(goodKey), "/gdpr/export 404"},
		{"GET", "/api/checks/" + knownRef, "", auth(goodKey), "/api/checks/{ref} 200"},
		{"GET", "/api/checks/nonsense", "", auth(goodKey), "/api/checks/{ref} 400"},
		{"GET", "/", "", nil, "pages 200"},
		{"GET", "/static/page.css", "", nil, "pages 200"},
		{"GET", "/broken", "", nil, "pages 500"},
		{"GET", "/nothing/of/the/kind", "", nil, "other 404"},
		{"GET", "/nothing/of/the/kind", "", []string{"Accept", "text/html"}, "other 404"},
		{"BREW", "/", "", nil, "other 404"},
		{"BREW", "/api/check", "", nil, "/api/check 405"},
	} {
		s.send(t, test.method, test.path, test.body, test.headers...)
		expect.Equal(t, test.method+" "+test.path, <-answered, test.want)
	}
	for raw, want := range map[string]string{
		"no HTTP\r\n\r\n": "other 400",
		"POST /api/check HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n": "/api/check 413",
		"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n":               "/healthz 400",
	} {
		s.exchange(t, raw)
		expect.Equal(t, raw, <-answered, want)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	s := start(t, Config{MaxConnections: 1, Pages: func(*fasthttp.RequestCtx) {
		close(entered)
		<-leave
	}})
	c := s.dial(t)
	expect.Value(io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))(t)
	<-entered
	readRepliesOrReset(t, s.dial(t)) // is refused
	wantLoad := func(when string, want [3]int) {
		t.Helper()
		var got [3]int
		got[0], got[1], got[2] = s.Load()
		expect.NoDiff(t, when+": requests, connections and refusals", want, got)
	}
	wantLoad("during a request", [3]int{1, 1, 1})
	close(leave)
	readReplies(t, c)
	requests, _, _ := s.Load()
	expect.That(t, requests == 0, "%d requests are under way", requests)
}
