package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/web/refusal"
	"assay/registry/expect"
)

const exampleBody = `{"domain":"example.com"}`

// head begins a request whose body is exampleBody unless a test uses another; each test adds headers.
const head = "POST /api/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + goodKey + "\r\n"

const length = "Content-Length: 24\r\n"

// smuggled is a request that must not be executed when it follows in a body or after an error.
const smuggled = "POST /api/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + goodKey +
	"\r\nConnection: close\r\nContent-Length: 25\r\n\r\n" + `{"domain":"smuggled.com"}`

func TestIsHost(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"": true, "x": true, "assay.example": true, "assay.example:8080": true, "x:": true, "x:1": true,
		"x:65535": true, "192.0.2.1:80": true, "[::1]": true, "[::1]:": true, "[2001:db8::1]:443": true,
		"x:0": false, "x:65536": false, "x:99999999999999999999": false, "x:-1": false, "x:+1": false, "x:80a": false,
		"x:8 0": false, "x:80:80": false, "::1": false, "[::1": false, "::1]": false, "[::1]80": false,
		"[::1]:0": false, "[::1]:80:80": false, "[[::1]]": false, "a@x:80": false, "x/y": false,
	} {
		expect.Equal(t, "isHost of "+value, isHost(value), want)
	}
}

// Each request is refused and the connection closed, without executing what follows.
func TestFramingIsStrict(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	post := func(headers string) string { return head + headers + "\r\n" + exampleBody }
	chunked := "Transfer-Encoding: chunked\r\n"
	long := strings.Repeat("a", 16<<10)
	chunks := "18\r\n" + exampleBody + "\r\n0\r\n\r\n"
	type testCase struct {
		raw    string
		status int
	}
	expect.Each(t, map[string]testCase{
		"request line":                 {"POST /" + long + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
		"one header":                   {post(length + "X: " + long + "\r\n"), 431},
		"101 headers":                  {post(length + strings.Repeat("A: b\r\n", 98)), 431},
		"no Host":                      {"POST /api/check HTTP/1.1\r\n" + length + "\r\n" + exampleBody, 400},
		"two Hosts":                    {post(length + "Host: x\r\n"), 400},
		"userinfo in Host":             {"GET /healthz HTTP/1.1\r\nHost: a@x\r\n\r\n", 400},
		"port of the target too large": {"GET http://x:65536/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"HTTP/0.9":                     {"GET /healthz\r\n\r\n", 400},
		"HTTP/2.0":                     {"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", 400},
		"two spaces":                   {"GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"two lengths":                  {post(length + "Content-Length: 25\r\n"), 400},
		"signed length":                {post("Content-Length: +24\r\n"), 400},
		"length, then chunked":         {head + length + chunked + "\r\n" + chunks, 400},
		"chunked, then length":         {head + chunked + length + "\r\n" + chunks, 400},
		"gzip, chunked":                {head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks, 400},
		"tab before the coding":        {head + "Transfer-Encoding:\tchunked\r\n\r\n" + chunks, 400},
		"two encodings":                {head + chunked + chunked + "\r\n" + chunks, 400},
		"space before the colon":       {head + "Transfer-Encoding : chunked\r\n\r\n" + chunks, 400},
		"space in a name":              {post(length + "X Y: a\r\n"), 400},
		"folded line":                  {post(length + "X: a\r\n b\r\n"), 400},
		"no colon":                     {post(length + "X\r\n"), 400},
		"HTTP/1.0 and chunked":         {strings.Replace(head, "1.1", "1.0", 1) + chunked + "\r\n" + chunks, 400},
		"bare LF in the headers":       {post("X: a\n" + length), 400},
		"chunk size not hexadecimal":   {head + chunked + "\r\nzz\r\n" + exampleBody + "\r\n0\r\n\r\n", 400},
		"chunk too large":              {head + chunked + "\r\nffffff\r\n" + exampleBody, 413},
		"chunk ended by LF":            {head + chunked + "\r\n18\n" + exampleBody + "\r\n0\r\n\r\n", 400},
		"chunk longer than its size":   {head + chunked + "\r\n10\r\n" + exampleBody + "\r\n0\r\n\r\n", 400},
		"key in a trailer": {head + chunked + "\r\n18\r\n" + exampleBody +
			"\r\n0\r\nAuthorization: Bearer x\r\n\r\n", 400},
		"HTTP/2 preface":                 {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		"a gigabyte declared":            {post("Content-Length: 1073741824\r\n"), 413},
		"expects to continue, too large": {head + "Content-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n", 413},
		"expects to continue, malformed": {head + length + chunked + "Expect: 100-continue\r\n\r\n", 400},
	}, func(t *testing.T, test testCase) {
		replies := s.exchange(t, test.raw+smuggled)
		expect.Must(t, len(replies) == 1, "%d responses, want one: %v", len(replies), replies)
		r := replies[0]
		r.is(t, "answer", test.status)
		expect.Equal(t, "the response announces the end of the connection", r.closes, true)
		expect.That(t, !strings.Contains(r.body, goodKey), "the body quotes the key: %s", r.body)
	})
	t.Cleanup(func() {
		expect.Equal(t, "requests that were executed", len(s.checker.requests()), 0)
		expect.Equal(t, "the log quotes the key", strings.Contains(s.log.String(), goodKey), false)
	})
}

// The server responds without waiting for a body, or for the end of a head that never ends.
func TestMalformedHeadsAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	expect.Each(t, map[string]string{
		"a body declared":     head + "A: b\r\n c\r\nContent-Length: 10000\r\n\r\n",
		"chunks announced":    head + length + "Transfer-Encoding: chunked\r\n\r\n",
		"LF without CRLF":     "GET /healthz HTTP/1.1\nHost: x\n\n",
		"TLS, client waiting": "\x16\x03\x01\x00\xf4\x01\x00\x00\xf0",
	}, func(t *testing.T, raw string) {
		replies := s.exchange(t, raw)
		expect.That(t, len(replies) == 1 && replies[0].status == 400, "responses %v, want one 400", replies)
	})
}

func TestParserErrorsDoNotQuoteHeads(t *testing.T) {
	t.Parallel()
	l := listen(t)
	s := &site{addr: l.Addr().String(), Server: New(Config{Checker: &checker{}, Keys: keys{}, Public: &public{}})}
	answer, texts := s.http.ErrorHandler, make(chan string, 1)
	s.http.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
		texts <- err.Error()
		answer(ctx, err)
	}
	served := s.serveAside(l)
	s.exchange(t, head+strings.Repeat("x", 2*maxHead))
	expect.That(t, !strings.Contains(<-texts, goodKey), "the text has the key")
	expect.NoError(t, s.Shutdown(context.Background()))
	expect.NoError(t, <-served)
}

func TestValidFramingIsAccepted(t *testing.T) {
	t.Parallel()
	const last, closing = "Connection: close\r\n", head + "Connection: close\r\n"
	const whole, second = head + length + "\r\n" + exampleBody, closing + length + "\r\n" + exampleBody
	s := start(t, Config{})
	type testCase struct {
		raw      string
		statuses []int
	}
	ok := func(raw string) testCase { return testCase{raw, []int{200}} }
	expect.Each(t, map[string]testCase{
		"chunked": ok(closing +
			"Transfer-Encoding: Chunked\r\n\r\n10\r\n{\"domain\":\"examp\r\n8;x=y\r\nle.com\"}\r\n0\r\n\r\n"),
		"trailer": ok(closing + "Transfer-Encoding: chunked\r\n\r\n18\r\n" + exampleBody +
			"\r\n0\r\nX-Checksum: 1\r\n\r\n"),
		"empty lines before":       ok("\r\n\r\n" + second),
		"line ends in the body":    ok(closing + "Content-Length: 26\r\n\r\n\n" + exampleBody + "\n"),
		"100 headers":              ok(closing + strings.Repeat("A: b\r\n", 96) + length + "\r\n" + exampleBody),
		"odd headers":              ok(closing + "X: \xe4\r\nY:\r\n" + length + "\r\n" + exampleBody),
		"HTTP/1.0":                 ok(strings.Replace(whole, "1.1", "1.0", 1)),
		"HTTP/1.0 without headers": ok("GET /healthz HTTP/1.0\r\n\r\n"),
		"absolute form":            ok(strings.Replace(second, "/api", "http://x/api", 1)),
		"IPv6 host":                ok(strings.Replace(second, "Host: x", "Host: [::1]:8080", 1)),
		"upgrade is ignored": ok(head + "Upgrade: h2c\r\nConnection: upgrade, close\r\n" + last + length +
			"\r\n" + exampleBody),
		"pipelined":                 {whole + second, []int{200, 200}},
		"pipelined, then malformed": {whole + head + "Transfer-Encoding: identity\r\n\r\n" + smuggled, []int{200, 400}},
		"pipelined, then a bare LF": {whole + head + "X: a\n" + length + "\r\n" + exampleBody + smuggled, []int{200,
			400}},
		"7 KiB of headers": ok(closing + length + "X: " + strings.Repeat("a", 7<<10) + "\r\n\r\n" + exampleBody),
		"continue":         {closing + length + "Expect: 100-continue\r\n\r\n" + exampleBody, []int{100, 200}},
	}, func(t *testing.T, test testCase) {
		var got []int
		for _, r := range s.exchange(t, test.raw) {
			got = append(got, r.status)
		}
		expect.NoDiff(t, "statuses", test.statuses, got)
	})
}

// Paths must match exactly. Other methods get a 405 with Allow.
func TestRouting(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for _, test := range []struct {
		method, target string
		status         int
		allow          string
	}{
		{"GET", "/api/check", 405, "POST"}, {"HEAD", "/api/check", 405, "POST"}, {"TRACE", "/api/check", 405, "POST"},
		{"CONNECT", "/api/check", 405, "POST"}, {"OPTIONS", "/api/check", 405, "POST"},
		{"post", "/api/check", 405, "POST"}, {"GET", "/api/check-public", 405, "POST"},
		{"GET", "/api/check?x=/healthz", 405, "POST"},
		{"POST", "/healthz", 405, "GET, HEAD"}, {"POST", "/readyz", 405, "GET, HEAD"},
		{"GET", "/metrics", 404, ""},
		{"POST", "/openapi.json", 405, "GET, HEAD"}, {"BREW", "/openapi.json", 405, "GET, HEAD"},
		{"HEAD", "/healthz", 200, ""}, {"GET", "/healthz?verbose=http://x//y", 200, ""}, {"GET", "/readyz", 200, ""},
		{"POST", "/api/check/", 404, ""}, {"POST", "/API/CHECK", 404, ""}, {"POST", "//api/check", 404, ""},
		{"POST", "/api/./check", 404, ""}, {"POST", "/api/%63heck", 404, ""}, {"POST", "/api//check", 404, ""},
		{"POST", "/api/x/../check", 404, ""}, {"POST", "/api/check%00", 404, ""}, {"POST", "/api/check;x", 404, ""},
		{"GET", searchPath, 405, "POST"}, {"GET", "/api/checks", 404, ""}, {"GET", checksPrefix, 404, ""},
		{"GET", checksPrefix + knownRef + "/x", 404, ""}, {"DELETE", exportPath, 405, "GET, HEAD, POST"},
		{"POST", "/nope", 404, ""}, {"BREW", "/nope", 404, ""}, {"GET", "/", 404, ""}, {"OPTIONS", "*", 404, ""},
		{"GET", "/..%2f..%2fetc/passwd", 404, ""}, {"GET", "/openapi.json.fiber.gz", 404, ""},
		{"GET", "/" + strings.Repeat("x", 500) + "<script>", 404, ""},
		{"CONNECT", "example.com:443", 404, ""},
	} {
		t.Run(test.method+" "+test.target[:min(len(test.target), 30)], func(t *testing.T) {
			t.Parallel()
			raw := test.method + " " + test.target + " HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n" +
				"Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
			c := s.dial(t)
			expect.Value(io.WriteString(c, raw))(t)
			answer, body, _ := strings.Cut(string(expect.Value(io.ReadAll(c))(t)), "\r\n\r\n")
			want := "HTTP/1.1 " + strconv.Itoa(test.status) + " "
			expect.Must(t, strings.HasPrefix(answer, want), "answer %q, want %q", answer, want)
			expect.That(t, test.allow == "" || strings.Contains(answer, "\r\nAllow: "+test.allow+"\r\n"),
				"Allow is not %q: %s", test.allow, answer)
			expect.That(t, !strings.Contains(answer, "Access-Control"), "CORS: %s", answer)
			if test.method == "HEAD" {
				expect.Equal(t, "the response to HEAD has a body", body, "")
			} else if test.status != 200 && (!strings.HasPrefix(body, `{"error":"`) ||
				strings.Contains(body, "script")) {
				t.Errorf("body %q", body)
			}
		})
	}
}

// Error pages are for clients that ask for HTML. All others get JSON.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	const page = "<p>There is no such page."
	s := start(t, Config{Pages: func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/html; charset=utf-8")
		if status := map[string]int{"/docs": 200, "/form": 400, "/foreign": 403}[string(ctx.Path())]; status != 200 {
			ctx.SetStatusCode(cmp.Or(status, 404))
			ctx.SetBodyString(page)
		}
	}, PageError: func(ctx *fasthttp.RequestCtx) string {
		return map[string]string{"/foreign": "foreign origin"}[string(ctx.Path())]
	}})
	type testCase struct {
		method, path string
		headers      []string
		status       int
		page         bool
	}
	expect.Each(t, map[string]testCase{
		"another error":          {"POST", "/foreign", nil, 403, false},
		"another error, browser": {"POST", "/foreign", []string{"Accept", "text/html"}, 403, true},
		"a form with a remark":   {"POST", "/form", nil, 400, true},
		"trailing slash":         {"POST", "/api/check/", nil, 404, false},
		"any media type":         {"GET", "/nope", []string{"Accept", "*/*"}, 404, false},
		"browser":                {"GET", "/nope", []string{"Accept", "text/html,*/*;q=0.8"}, 404, true},
		"browser, mixed case":    {"GET", "/nope", []string{"Accept", "Text/HTML"}, 404, true},
		"script of a page":       {"GET", "/nope", []string{"Accept", "*/*", "HX-Request", "true"}, 404, true},
		"existing page":          {"GET", "/docs", nil, 200, true},
		"unknown method":         {"BREW", "/docs", []string{"Accept", "text/html"}, 404, false},
	}, func(t *testing.T, test testCase) {
		got := s.send(t, test.method, test.path, "", test.headers...)
		expect.Must(t, got.status == test.status, "status %d, %q", got.status, got.body)
		if test.page {
			expect.That(t, got.header.Get("Content-Type") == "text/html; charset=utf-8" && (test.status == 200 ||
				got.body == page), "%v, %q", got.header, got.body)
			return
		}
		got.wellBehaved(t)
		want := failure{Error: errNotFound.Text, Code: refusal.NotFound}
		if test.status == 403 {
			want = failure{Error: "foreign origin", Code: refusal.Forbidden}
		}
		expect.NoDiff(t, "error", want, got.failure(t))
	})
}

// Sending byte by byte does not extend ReadTimeout.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	reading := start(t, Config{ReadTimeout: 300 * time.Millisecond, IdleTimeout: time.Hour})
	idling := start(t, Config{ReadTimeout: time.Hour, IdleTimeout: 300 * time.Millisecond})
	whole := head + length + "\r\n" + exampleBody
	type testCase struct {
		site          *site
		sent, dripped string
		statuses      []int
	}
	expect.Each(t, map[string]testCase{
		"nothing":   {reading, "", "", []int{408}},
		"slow head": {reading, "", head + strings.Repeat("X: y\r\n", 1000), []int{408}},
		"slow body": {reading, head + "Content-Length: 10000\r\n\r\n", strings.Repeat(" ", 10000), []int{408}},
		"slow chunks": {reading, head + "Transfer-Encoding: chunked\r\n\r\n",
			strings.Repeat("1\r\n \r\n", 2000), []int{408}},
		"slow body after continue": {reading, head + "Expect: 100-continue\r\nContent-Length: 10000\r\n\r\n",
			strings.Repeat(" ", 10000), []int{100, 408}},
		"slow second head": {reading, whole, head + strings.Repeat("X: y\r\n", 1000), []int{200, 408}},
		"idle":             {idling, whole, "", []int{200}},
	}, func(t *testing.T, test testCase) {
		got := test.site.drip(t, test.sent, test.dripped)
		for len(test.statuses) > 1 && slices.Equal(got, []int{408}) { // even the first head was late
			got = test.site.drip(t, test.sent, test.dripped)
		}
		expect.That(t, len(got) == len(test.statuses) && (len(got) == 0 ||
			got[len(got)-1] == test.statuses[len(got)-1]), "statuses %v, want %v", got, test.statuses)
	})
}

// drip sends a text at once and another byte by byte, and returns the statuses of the responses.
func (s *site) drip(t *testing.T, sent, dripped string) (statuses []int) {
	t.Helper()
	c := s.dial(t)
	stop, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = io.WriteString(c, sent)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := range dripped {
			select {
			case <-tick.C:
				if _, err := io.WriteString(c, dripped[i:i+1]); err != nil {
					return
				}
			case <-stop.Done():
				return
			}
		}
	}()
	for _, r := range readRepliesOrReset(t, c) {
		statuses = append(statuses, r.status)
	}
	return statuses
}

// readRepliesOrReset is readReplies for a client that may still be sending: a reset after the response is no error.
func readRepliesOrReset(t *testing.T, c net.Conn) []reply {
	t.Helper()
	return readReplies(t, resetIsEOF{c})
}

type resetIsEOF struct{ net.Conn }

func (c resetIsEOF) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	var timeout net.Error
	if err != nil && (!errors.As(err, &timeout) || !timeout.Timeout()) {
		err = io.EOF
	}
	return n, err
}

func TestHeadScanAtEverySplit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		raw string
		ok  bool
	}{
		"complete":             {"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\nbody\nwith\rany\x00thing", true},
		"no headers":           {"GET / HTTP/1.0\r\n\r\n\n", true},
		"incomplete":           {"GET / HTTP/1.1\r\nHost: x\r", true},
		"LF":                   {"GET / HTTP/1.1\r\nHost: x\n\r\n", false},
		"CR":                   {"GET / HTTP/1.1\r\nHost: x\ry\r\n\r\n", false},
		"CR CR LF":             {"GET / HTTP/1.1\r\r\nHost: x\r\n\r\n", false},
		"NUL":                  {"GET / HTTP/1.1\r\nHost: \x00\r\n\r\n", false},
		"LF after empty lines": {"\r\n\r\nGET / HTTP/1.1\n\r\n", false},
		"LF as an empty line":  {"\nGET / HTTP/1.1\r\n\r\n", false},
	} {
		for cut := range len(test.raw) + 1 {
			var h headScan
			err := errors.Join(h.feed([]byte(test.raw[:cut])), h.feed([]byte(test.raw[cut:])))
			expect.That(t, (err == nil) == test.ok, "%s: split at %d: %v", name, cut, err)
		}
	}
}
