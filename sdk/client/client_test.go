package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func that(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

func must(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, args...)
	}
}

const checked = `{"score":94,"verdict":"block","signals":["x"],"dominant_threat":null,"type":"domain",` +
	`"query":"a.example","timestamp":"2026-01-15T10:30:00.123Z","ref":"chk_1"}`

// seen is what a server got in one attempt.
type seen struct{ call, key, body string }

// response is what a server does in one attempt.
type response = func(http.ResponseWriter)

// answers starts a server that gives one answer to each attempt, and then the last. Status 0 cuts the connection.
func answers(t *testing.T, all ...response) (*Client, func() []seen) {
	t.Helper()
	var (
		mu       sync.Mutex
		attempts []seen
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		attempts = append(attempts, seen{r.Method + " " + r.RequestURI, r.Header.Get("Idempotency-Key"), string(body)})
		n := len(attempts)
		mu.Unlock()
		all[min(n, len(all))-1](w)
	}))
	t.Cleanup(server.Close)
	client := New(server.URL+"/", "assay_x")
	client.Attempts, client.AttemptTimeout, client.Timeout = 4, time.Minute, 10*time.Minute
	return client, func() []seen {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(attempts)
	}
}

func respond(status int, body string, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func cut(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// half sends a part of its answer.
func half(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, checked)
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []response
		seen    int
		status  int // of the error; 0: success
	}{
		"at once":              {[]response{respond(200, checked)}, 1, 0},
		"a lost answer":        {[]response{cut, respond(200, checked)}, 2, 0},
		"half an answer":       {[]response{half, respond(200, checked)}, 2, 0},
		"an overloaded host":   {[]response{respond(503, "{}"), respond(200, checked)}, 2, 0},
		"a proxy without host": {[]response{respond(502, "<html>"), respond(200, checked)}, 2, 0},
		"always overloaded":    {[]response{respond(503, "{}")}, 4, 503},
		"too many requests":    {[]response{respond(429, `{"code":"rate_limited"}`), respond(200, checked)}, 2, 0},
		"a proxy's limit":      {[]response{respond(429, ""), respond(200, checked)}, 2, 0},
		"no quota":             {[]response{respond(429, `{"code":"quota_exhausted"}`, "Retry-After", "1")}, 1, 429},
		"another month":        {[]response{respond(429, `{"error":"quota"}`, "Retry-After", "864000")}, 1, 429},
		"an absurd wait":       {[]response{respond(429, `{}`, "Retry-After", "9223372036854775807")}, 1, 429},
		"an invalid request":   {[]response{respond(400, `{"error":"domain: has no dot"}`)}, 1, 400},
		"a redirect":           {[]response{respond(307, "", "Location", "https://elsewhere.example/")}, 1, 307},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, attempts := answers(t, c.answers...)
			result, err := client.Check(t.Context(), Request{Domain: "a.example"})
			var refused *Error
			switch {
			case c.status == 0 && (err != nil || result.Ref != "chk_1" || result.Verdict != Block):
				t.Errorf("got %+v, %v", result, err)
			case c.status != 0 && (!errors.As(err, &refused) || refused.Status != c.status):
				t.Errorf("error %v, want status %d", err, c.status)
			}
			got := attempts()
			that(t, len(got) == c.seen, "%d attempts, want %d", len(got), c.seen)
			for _, a := range got {
				that(t, a == got[0] && len(a.key) >= 20 && a.body == `{"domain":"a.example"}`,
					"attempts differ: %q", got)
			}
		})
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	client, _ := answers(t, respond(400, `{"error":"region.country: is not a country","code":"invalid_field",`+
		`"field":"region.country","request_id":"req_1"}`, "X-Request-Id", "req_1"))
	_, err := client.Check(t.Context(), Request{Phone: "1", Region: &Region{"XX"}})
	want := Error{Status: 400, Code: InvalidField, Message: "region.country: is not a country",
		Field: "region.country", RequestID: "req_1"}
	got := (*Error)(nil)
	that(t, errors.As(err, &got) && *got == want, "error %#v, want %#v", got, want)
	client, _ = answers(t, respond(500, `{"error":"internal error","ref":"chk_2"}`))
	client.Attempts = 1
	_, err = client.CheckBatch(t.Context(), []Request{{Domain: "a.example"}})
	got = (*Error)(nil)
	that(t, errors.As(err, &got) && got.Ref == "chk_2" && got.Field == "", "error %#v", got)
}

func TestGivenKey(t *testing.T) {
	t.Parallel()
	client, attempts := answers(t, respond(200, checked))
	for _, options := range [][]Option{{IdempotencyKey("order-17")}, nil, nil} {
		_, err := client.Check(t.Context(), Request{Domain: "a.example"}, options...)
		must(t, err == nil, "%v", err)
	}
	got := attempts()
	that(t, got[0].key == "order-17" && got[1].key != got[2].key, "keys %q", got)
}

// TestSettings checks that a line break after a key is left out, and that a setting with which no attempt can succeed
// ends a call at once.
func TestSettings(t *testing.T) {
	t.Parallel()
	const url = "http://assay.example"
	for _, c := range []struct {
		url, key, order string
		attempts        int
	}{{url, " assay_x\r\n", "order-17", 1}, {url, "assay\nx", "order-17", 0}, {url, "assay_x", "order\n17", 0},
		{"assay.example:443", "assay_x", "order-17", 0}, {"//assay.example", "assay_x", "order-17", 0}} {
		client, service := New(c.url, c.key), &down{}
		client.HTTP.Transport = service
		_, err := client.Check(t.Context(), Request{Domain: "a.example"}, IdempotencyKey(c.order))
		that(t, (err == nil) == (c.attempts == 1) && service.attempts == c.attempts && (err != nil || service.key ==
			"Bearer assay_x"), "%q: %d attempts with %q, %v", c.key, service.attempts, service.key, err)
	}
}

// TestRetryAfter checks that a client waits as long as the answer asks for.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	client, attempts := answers(t, respond(503, "{}", "Retry-After", "1"), respond(200, checked))
	begun := time.Now()
	_, err := client.Check(t.Context(), Request{Domain: "a.example"})
	must(t, err == nil && len(attempts()) == 2, "%v after %d attempts", err, len(attempts()))
	took := time.Since(begun)
	that(t, took >= time.Second, "the second attempt came after %v, want 1s at least", took)
}

// down is a service that refuses connections until it is up.
type down struct {
	up       time.Time
	attempts int
	key      string // as received
}

func (d *down) RoundTrip(r *http.Request) (*http.Response, error) {
	d.attempts++
	d.key = r.Header.Get("Authorization")
	if time.Now().Before(d.up) {
		return nil, syscall.ECONNREFUSED
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(checked))}, nil
}

// TestRestart checks that a restart of the service loses no call, and that a client gives up after its Timeout.
func TestRestart(t *testing.T) {
	t.Parallel()
	for outage, lost := range map[time.Duration]bool{6 * time.Second: false, 18 * time.Second: false, time.Hour: true} {
		t.Run(outage.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, begun := New("http://assay.example", "assay_x"), time.Now()
				service := &down{up: begun.Add(outage)}
				client.HTTP.Transport = service
				_, err := client.Check(t.Context(), Request{Domain: "a.example"})
				took := time.Since(begun)
				that(t, (err != nil) == lost && took <= client.Timeout && took >= min(outage,
					client.Timeout-2*time.Second) && service.attempts <= 40, "%v after %v and %d attempts", err, took,
					service.attempts)
			})
		})
	}
}

// TestTimeLimits checks that an attempt without an answer ends, and that the caller's context ends a call.
func TestTimeLimits(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hang := func(http.ResponseWriter) { <-release }
	client, attempts := answers(t, hang, respond(200, checked))
	client.AttemptTimeout, client.Attempts = 200*time.Millisecond, 1000 // the second may take too long, too
	_, err := client.Check(t.Context(), Request{Domain: "a.example"})
	that(t, err == nil && len(attempts()) >= 2, "%v after %d attempts", err, len(attempts()))
	ctx, cancel := context.WithCancel(t.Context())
	client, attempts = answers(t, func(http.ResponseWriter) { cancel(); <-release })
	t.Cleanup(func() { close(release) }) // before the servers stop
	_, err = client.Check(ctx, Request{Domain: "a.example"})
	that(t, errors.Is(err, context.Canceled) && len(attempts()) == 1, "%v after %d attempts", err, len(attempts()))
}

// TestWebhooks verifies what a host signs. host/customer/webhook writes the cases.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../testdata/webhooks.json")
	var cases []struct {
		Name, Secret, Body string
		Now                int64
		Headers            map[string]string
		Valid, Service     bool
	}
	err = errors.Join(err, json.Unmarshal(file, &cases))
	must(t, err == nil && len(cases) >= 20, "%d cases, %v", len(cases), err)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			webhook, err := NewWebhook(c.Secret + "\n") // as a file has it
			must(t, err == nil, "%v", err)
			h := http.Header{}
			for name, value := range c.Headers {
				h[name] = []string{value}
			}
			event, err := webhook.Verify(h, []byte(c.Body), time.Unix(c.Now, 0))
			that(t, !c.Valid || err == nil && event.Data.Query == "é.example" && event.Data.Score == 94,
				"got %+v, %v", event, err)
			that(t, c.Valid || errors.Is(err, ErrSignature), "error %v, want %v", err, ErrSignature)
			event, err = webhook.VerifyServiceSignature(h, []byte(c.Body))
			that(t, (!c.Service || err == nil && event.Data.Query == "é.example") && (c.Service || errors.Is(err,
				ErrSignature)), "the service's signature: %+v, %v", event, err)
		})
	}
	for _, invalid := range []string{"whsec_\n", "whsec_c2Vj\ncmV0"} {
		_, err = NewWebhook(invalid)
		that(t, err != nil && !strings.Contains(err.Error(), "c2Vj"), "the secret %q: %v", invalid, err)
	}
}

func ExampleClient_Check() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, checked)
	}))
	defer server.Close()
	result, err := New(server.URL, "assay_...").Check(context.Background(), Request{Domain: "a.example"})
	fmt.Println(result.Verdict, result.Score, err)
	// Output: block 94 <nil>
}

func running(kind string) func(http.ResponseWriter) {
	return respond(202, `{"id":"req_1","kind":"`+kind+`","state":"running"}`)
}

func settled(state string) func(http.ResponseWriter) {
	return respond(200, `{"id":"req_1","kind":"export","state":"`+state+`"}`)
}

// TestBackground checks that exports and erasures wait for what the service does in the background.
func TestBackground(t *testing.T) {
	t.Parallel()
	export := func(c *Client) (string, error) {
		text, err := c.Export(t.Context(), Subject{Email: "a@example.com"})
		return string(text), err
	}
	erase := func(c *Client) (string, error) {
		return "erased", c.Erase(t.Context(), Subject{Ref: "chk_1"})
	}
	const asked, erasure = "POST /gdpr/export", "POST /gdpr/erase"
	const poll, part = "GET /gdpr/requests/req_1", "GET /gdpr/requests/req_1/export"
	for name, c := range map[string]struct {
		call    func(*Client) (string, error)
		answers []response
		calls   []string
		want    string // or the error
	}{
		"an export at once": {export, []response{respond(200, `{"checks":[1]}`)}, []string{asked}, `{"checks":[1]}`},
		"an export in the background": {export, []response{
			running("export"), settled("running"), cut, settled("done"),
			respond(200, `{"checks":[1,2],"later":true,"next":"chk_2"}`),
			respond(200, `{"checks":[3],"later":true,"next":null}`)},
			[]string{asked, poll, poll, poll, part, part + "?after=chk_2"},
			`{"checks":[1,2,3],"later":true,"next":null}`},
		"an export without checks": {export, []response{
			running("export"), settled("done"), respond(200, `{"checks":[],"next":null}`)},
			[]string{asked, poll, part}, `{"checks":[],"next":null}`},
		"an export whose key was revoked": {export, []response{running("export"), settled("failed")},
			[]string{asked, poll}, "the export req_1 has the state failed"},
		"an erasure at once": {erase, []response{respond(200, `{"erased":2}`)}, []string{erasure}, "erased"},
		"an erasure in the background": {erase, []response{running("erasure"), settled("running"), settled("done")},
			[]string{erasure, poll, poll}, "erased"},
		"an unknown subject": {erase, []response{respond(404, `{"error":"unknown"}`)}, []string{erasure},
			"status 404: unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, attempts := answers(t, c.answers...)
			got, err := c.call(client)
			if err != nil {
				got = err.Error()
			}
			that(t, got == c.want, "got %s, want %s", got, c.want)
			var calls []string
			for _, a := range attempts() {
				calls = append(calls, a.call)
				if post := strings.HasPrefix(a.call, "POST"); post != (a.key != "") || post != (a.body != "") {
					t.Errorf("%s has the key %q and the body %q", a.call, a.key, a.body)
				}
			}
			got, want := strings.Join(calls, "\n"), strings.Join(c.calls, "\n")
			that(t, got == want, "calls\n%s\nwant\n%s", got, want)
		})
	}
}

// TestWait checks that waiting ends with the client's limit and with the caller's context.
func TestWait(t *testing.T) {
	t.Parallel()
	client, _ := answers(t, running("erasure"))
	client.Wait = 50 * time.Millisecond
	err := client.Erase(t.Context(), Subject{Ref: "chk_1"})
	that(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "req_1"), "error %v", err)
	client.Wait = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = client.Export(ctx, Subject{Ref: "chk_1"})
	that(t, errors.Is(err, context.Canceled), "error %v", err)
}

// TestReceipt checks that a receipt is asked for again until it has its proof.
func TestReceipt(t *testing.T) {
	t.Parallel()
	promised := respond(200, `{"proof":null}`, "Retry-After", "1")
	client, attempts := answers(t, promised, respond(200, `{"proof":{}}`))
	got, err := client.Receipt(t.Context(), "chk_1/..")
	that(t, err == nil && string(got) == `{"proof":{}}`, "got %s, %v", got, err)
	calls := attempts()
	that(t, len(calls) == 2 && calls[0].call == "GET /api/receipts/chk_1%2F.." && calls[0].key == "", "calls %q", calls)
	for _, later := range []response{promised, cut} {
		client, _ = answers(t, promised, later)
		client.Attempts = 2
		got, err = client.Receipt(t.Context(), "chk_1")
		that(t, err == nil && string(got) == `{"proof":null}`, "without a proof: %s, %v", got, err)
	}
}

// TestRemovedBefore checks that a 404 is success only if an earlier attempt may have removed what is named.
func TestRemovedBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first   response
		removed bool
	}{
		"a lost answer":    {cut, true},
		"a proxy's error":  {respond(503, ""), true},
		"an uncertain one": {respond(500, `{"code":"uncertain"}`), true},
		"a busy host":      {respond(503, `{"code":"busy"}`), false},
		"a limit":          {respond(429, `{"code":"rate_limited"}`), false},
	} {
		client, attempts := answers(t, c.first, respond(404, "{}"))
		err := client.RemoveOverride(t.Context(), "ovr_1")
		that(t, (err == nil) == c.removed && len(attempts()) == 2, "%s: %v after %d", name, err, len(attempts()))
	}
}

// TestExportByValue checks that an export that would ignore a value is refused: it would have all checks.
func TestExportByValue(t *testing.T) {
	t.Parallel()
	client, attempts := answers(t, respond(200, "[]"))
	for _, value := range []Request{{Email: "a@example.com"}, {Region: &Region{"DE"}}} {
		_, err := client.ExportChecks(t.Context(), "json", Query{Type: "email", Request: value})
		that(t, err != nil && len(attempts()) == 0, "%v after %d attempts", err, len(attempts()))
	}
}
