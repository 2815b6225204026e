package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		"panic": {request("POST /api/check", panicKey),
			line{"ERROR", "POST", check, panicKey, "chk", "panic: " + secret, 500}},
		"not ready": {request("GET /readyz", ""), line{"WARN", "GET", "/readyz", "", "", "database: " + secret,
			503}},
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
		var got line
		var entry map[string]any
		err := json.Unmarshal([]byte(logged), &entry)
		expect.Must(t, err == nil, "not one line of JSON: %v: %s", err, logged)
		expect.NoError(t, json.NewDecoder(bytes.NewBufferString(logged)).Decode(&got))
		if got.Ref != "" {
			got.Ref = got.Ref[:3]
		}
		diff := cmp.Diff(test.want, got)
		expect.That(t, diff == "", "%s\n%s", diff, logged)
		_, ok := entry["ms"].(float64)
		expect.That(t, ok, "no duration: %s", logged)
		for _, word := range []string{"example.com", "key-secret", "KEY-SECRET", "198.51.100.77", "127.0.0.1",
			"Bearer"} {
			expect.That(t, !strings.Contains(logged, word), "the log contains %q: %s", word, logged)
		}
	})
}

func TestStatusEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Version: "1.2.3"})
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok","version":"1.2.3"}`,
		"/readyz":  `{"status":"ready"}`,
	} {
		r := s.send(t, "GET", path, "")
		expect.That(t, r.status == 200 && r.body == want, "%s: status %d: %s", path, r.status, r.body)
	}
	unready := start(t, Config{Ready: func() error { return errors.New(secret) }})
	r := unready.send(t, "GET", "/readyz", "")
	r.wellBehaved(t)
	expect.That(t, r.status == 503 && r.failure(t).Error == "not ready", "/readyz: status %d: %s", r.status, r.body)
	unready.send(t, "GET", "/healthz", "").is(t, "/healthz", 200)
}

func TestNotReadyWhileShuttingDown(t *testing.T) {
	t.Parallel()
	s := New(Config{Checker: &checker{}, Keys: keys{}, Public: &public{}})
	expect.NoError(t, s.Shutdown(context.Background()))
	status, body := answerTo(s.ready(nil))
	expect.That(t, status == 503 && body.Error == "not ready", "status %d: %s", status, body.Error)
}
