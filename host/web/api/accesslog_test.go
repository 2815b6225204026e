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
	"assay/host/store/storetest"
)

// line is a request's line in the log, without the members that differ from run to run.
type line struct {
	Level, Method, Route, Account, Ref, Error string
	Status                                    int
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	const secretHead = "POST /api/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key-secret\r\n"
	for name, test := range map[string]struct {
		send func(*site)
		want line
	}{
		"check": {
			func(s *site) { s.check(t, exampleBody) },
			line{Level: "INFO", Method: "POST", Route: "/api/check", Status: 200, Account: goodKey, Ref: "chk"},
		},
		"check without a key": {
			func(s *site) { s.send(t, "POST", "/api/check-public", exampleBody, "X-Forwarded-For", "198.51.100.77") },
			line{Level: "INFO", Method: "POST", Route: "/api/check-public", Status: 200, Ref: "chk"},
		},
		"key in the query": {
			func(s *site) { s.send(t, "POST", "/api/check?key=key-secret&domain=example.com", exampleBody) },
			line{Level: "INFO", Method: "POST", Route: "/api/check", Status: 401},
		},
		"unknown key": {
			func(s *site) { s.send(t, "POST", "/api/check", exampleBody, "Authorization", "Bearer key-secret") },
			line{Level: "INFO", Method: "POST", Route: "/api/check", Status: 401},
		},
		"invalid value": {
			func(s *site) { s.check(t, `{"domain":"example.com\u0000"}`) },
			line{Level: "INFO", Method: "POST", Route: "/api/check", Status: 400, Account: goodKey},
		},
		"overloaded": {
			func(s *site) { s.send(t, "POST", "/api/check", exampleBody, "Authorization", "Bearer "+busyKey) },
			line{Level: "WARN", Method: "POST", Route: "/api/check", Status: 503, Account: busyKey,
				Error: admission.ErrBusy.Error()},
		},
		"a layer that could not be asked": {
			func(s *site) { s.send(t, "POST", "/api/check", exampleBody, "Authorization", "Bearer "+lateKey) },
			line{Level: "WARN", Method: "POST", Route: "/api/check", Status: 503, Account: lateKey,
				Error: "layer slow@1.0.0 unavailable: more processor time"},
		},
		"internal error with its cause": {
			func(s *site) { s.send(t, "POST", "/api/check", exampleBody, "Authorization", "Bearer "+failKey) },
			line{Level: "ERROR", Method: "POST", Route: "/api/check", Status: 500, Account: failKey, Ref: "chk",
				Error: "check " + knownRef + ": " + secret},
		},
		"panic": {
			func(s *site) { s.send(t, "POST", "/api/check", exampleBody, "Authorization", "Bearer "+panicKey) },
			line{Level: "ERROR", Method: "POST", Route: "/api/check", Status: 500, Account: panicKey, Ref: "chk",
				Error: "panic: " + secret},
		},
		"not ready": {
			func(s *site) { s.send(t, "GET", "/readyz", "") },
			line{Level: "WARN", Method: "GET", Route: "/readyz", Status: 503, Error: "database: " + secret},
		},
		"unknown path": {
			func(s *site) { s.send(t, "GET", "/key-secret/example.com", "") },
			line{Level: "INFO", Method: "GET", Status: 404},
		},
		"unknown method": {
			func(s *site) { s.send(t, "KEY-SECRET", "/api/check", "") },
			line{Level: "INFO", Method: "other", Route: "/api/check", Status: 405},
		},
		"malformed head": {
			func(s *site) {
				s.exchange(t, secretHead+"example.com\r\n\r\n")
			},
			line{Level: "INFO", Status: 400},
		},
		"malformed head that can be parsed": {
			func(s *site) {
				s.exchange(t, secretHead+"A: b\r\n example.com\r\n\r\n")
			},
			line{Level: "INFO", Method: "POST", Route: "/api/check", Status: 400},
		},
		"large body": {
			func(s *site) { s.check(t, strings.Repeat(" ", maxBody+1)) },
			line{Level: "INFO", Method: "POST", Route: "/api/check", Status: 413},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Ready: func() error { return errors.New("database: " + secret) },
				TrustedProxies: prefixes("127.0.0.0/8")})
			test.send(s)
			// The line is written before the response.
			logged := strings.TrimSpace(s.log.String())
			var got line
			var entry map[string]any
			if err := json.Unmarshal([]byte(logged), &entry); err != nil {
				t.Fatalf("not one line of JSON: %v: %s", err, logged)
			}
			storetest.NoError(t, json.NewDecoder(bytes.NewBufferString(logged)).Decode(&got))
			if got.Ref != "" {
				got.Ref = got.Ref[:3]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, logged)
			}
			if _, ok := entry["ms"].(float64); !ok {
				t.Errorf("no duration: %s", logged)
			}
			for _, word := range []string{"example.com", "key-secret", "KEY-SECRET", "198.51.100.77", "127.0.0.1",
				"Bearer"} {
				if strings.Contains(logged, word) {
					t.Errorf("the log contains %q: %s", word, logged)
				}
			}
		})
	}
}

func TestStatusEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Version: "1.2.3"})
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok","version":"1.2.3"}`,
		"/readyz":  `{"status":"ready"}`,
	} {
		if r := s.send(t, "GET", path, ""); r.status != 200 || r.body != want {
			t.Errorf("%s: status %d: %s", path, r.status, r.body)
		}
	}
	unready := start(t, Config{Ready: func() error { return errors.New(secret) }})
	r := unready.send(t, "GET", "/readyz", "")
	r.wellBehaved(t)
	if r.status != 503 || r.failure(t).Error != "not ready" {
		t.Errorf("/readyz: status %d: %s", r.status, r.body)
	}
	unready.send(t, "GET", "/healthz", "").is(t, "/healthz", 200)
}

func TestNotReadyWhileShuttingDown(t *testing.T) {
	t.Parallel()
	s := New(Config{Checker: &checker{}, Keys: keys{}, Public: &public{}})
	storetest.NoError(t, s.Shutdown(context.Background()))
	status, body := answerTo(s.ready(nil))
	if status != 503 || body.Error != "not ready" {
		t.Errorf("status %d: %s", status, body.Error)
	}
}

// TestAccessLog relies on this order.
func TestLogLinePrecedesTheResponse(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for range 20 {
		before := strings.Count(s.log.String(), "\n")
		s.send(t, "GET", "/healthz", "")
		if after := strings.Count(s.log.String(), "\n"); after != before+1 {
			t.Fatalf("%d lines for one request", after-before)
		}
	}
}
