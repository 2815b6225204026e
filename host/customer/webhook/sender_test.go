package webhook

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/store/storetest"
	"assay/registry/expect"
)

// receiver starts a server that reads a request from each connection and then calls serve.
func receiver(t *testing.T, serve func(c net.Conn)) (address string) {
	t.Helper()
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				serve(c)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// writes sends text and closes the connection.
func writes(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// floods sends head, then text repeatedly until the client disconnects.
func floods(head, text string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, head)
		for err == nil {
			_, err = io.WriteString(c, text)
		}
	}
}

// unused is an address at which nobody listens. The system gives its port to nobody.
const unused = "127.0.0.1:1"

const (
	ok        = "HTTP/1.1 200 OK\r\n"
	switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
)

func accepted(status int, body string) Outcome {
	return Outcome{Status: status, ResponseBody: []byte(body), Delivered: true}
}

func refused(status int, body string) Outcome {
	return Outcome{Status: status, ResponseBody: []byte(body)}
}

// A request can be read while its header is still being written.
func TestRequestThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	var w wire
	var writing sync.WaitGroup
	writing.Go(func() {
		for range 100 {
			w.trace().WroteHeaderField("X", []string{"y"})
		}
	})
	for range 100 {
		w.request(nil)
	}
	writing.Wait()
	expect.Equal(t, "fields", strings.Count(w.request(nil).Header, "X: y"), 100)
}

func failed(reason string) Outcome { return Outcome{Error: reason} }

func TestResponsesAndFaults(t *testing.T) {
	t.Parallel()
	silent, plain := receiver(t, func(net.Conn) {}), listen(t, "127.0.0.1:0", http.NotFoundHandler())
	type testCase struct {
		serve func(net.Conn)
		url   string // instead of serve
		want  Outcome
	}
	expect.Each(t, map[string]testCase{
		"200":                  {serve: writes(ok + "Content-Length: 2\r\n\r\nOK"), want: accepted(200, "OK")},
		"299 without a reason": {serve: writes("HTTP/1.1 299\r\n\r\n"), want: accepted(299, "")},
		"100 and then 200":     {serve: writes("HTTP/1.1 100 Continue\r\n\r\n" + ok + "\r\n"), want: accepted(200, "")},
		"101":                  {serve: writes(switching), want: refused(101, "")},
		"a redirect to an invalid URL": {serve: writes("HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n"),
			want: refused(302, "")},
		"410": {serve: writes("HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone"), want: refused(410, "gone")},
		"429 with Retry-After": {serve: writes("HTTP/1.1 429 X\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n"),
			want: refused(429, "")},
		"body shorter than Content-Length": {serve: writes(ok + "Content-Length: 1000\r\n\r\nhalf"),
			want: accepted(200, "half")},
		"invalid chunk": {serve: writes(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzzz\r\n"),
			want: accepted(200, "hello")},
		"wrong Content-Encoding": {serve: writes(ok + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain"),
			want: accepted(200, "plain")},
		"two Content-Lengths": {serve: writes(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
			want: failed(noResponse)},
		"an endless body": {serve: floods(ok+"\r\n", strings.Repeat("x", 1<<12)),
			want: accepted(200, strings.Repeat("x", 1024))},
		"an endless body with a length": {serve: floods(ok+"Content-Length: 9223372036854775807\r\n\r\n",
			strings.Repeat("x", 1<<12)), want: accepted(200, strings.Repeat("x", 1024))},
		"an endless header": {serve: floods(ok, "X-Filler: "+strings.Repeat("x", 100)+"\r\n"),
			want: failed(longHeader)},
		"endless 100 responses":     {serve: floods("", "HTTP/1.1 100 Continue\r\n\r\n"), want: failed(longHeader)},
		"not HTTP":                  {serve: writes("220 mail.example ESMTP\r\n"), want: failed(notHTTP)},
		"closes without a response": {serve: func(net.Conn) {}, want: failed(closedEarly)},
		"closes within the header":  {serve: writes("HTTP/1.1 200 OK\r\nX-"), want: failed(notHTTP)},
		"resets the connection": {serve: func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
			want: failed(closedEarly)},
		"refuses the connection":          {url: "http://" + unused, want: failed(notAccepted)},
		"unknown host name":               {url: "http://nowhere.test/", want: failed(noAddress)},
		"closes during the TLS handshake": {url: "https://" + silent, want: failed(noTLS)},
		"speaks HTTP instead of TLS":      {url: strings.Replace(plain.URL, "http:", "https:", 1), want: failed(noTLS)},
		"a URL that is no longer valid": {url: "http://user@127.0.0.1/",
			want: failed("url: must not contain a user or password")},
	}, func(t *testing.T, test testCase) {
		url := test.url
		if test.serve != nil {
			url = "http://" + receiver(t, test.serve)
		}
		resolver, _ := resolve(t, "")
		s := newSender(newGuard(t, "127.0.0.1/32"), resolver, nil, storetest.Discard())
		s.timeout, s.bodyTimeout = time.Minute, time.Minute
		d := newDelivery(url)
		e := s.send(d)
		expect.That(t, e.Status == test.want.Status && e.Error == test.want.Error &&
			string(e.ResponseBody) == string(test.want.ResponseBody) && e.Delivered == test.want.Delivered,
			"%d %q, body %.40q (%d bytes), delivered: %v; want %+v", e.Status, e.Error, e.ResponseBody,
			len(e.ResponseBody), e.Delivered, test.want)
		expect.That(t, e.Ref != "" && e.Attempt == 2 && e.Took > 0 && !e.EndedAt.IsZero(),
			"event %s, attempt %d, took %v until %v", e.Ref, e.Attempt, e.Took, e.EndedAt)
		// Nothing is kept as sent if no connection was made.
		expect.That(t, test.url == "" || e.Request.Header == "" && e.ResponseHeader == "" &&
			e.Request.Body == string(d.Body), "kept %+v", e)
	})
}

// loopback returns a sender that may call this machine.
func loopback(t *testing.T) *sender {
	t.Helper()
	return newSender(newGuard(t, "127.0.0.1/32"), nil, nil, storetest.Discard())
}

// An attempt ends at its timeout, whichever part of the response is slow, with a fake clock and an in-memory network.
func TestAttemptTimes(t *testing.T) {
	t.Parallel()
	const header, body = 10 * time.Second, time.Second // the timeouts
	for name, test := range map[string]struct {
		response, drips string // drips is sent byte by byte and again and again
		took            time.Duration
		status          int
	}{
		"no response":                  {"", "", header, 0},
		"half a header":                {ok + "X-", "", header, 0},
		"a header that drips":          {ok + "X-Filler: ", "x", header, 0},
		"100 responses that drip":      {"", "HTTP/1.1 100 Continue\r\n\r\n", header, 0},
		"body that does not end":       {ok + "Content-Length: 9\r\n\r\nhalf", "", body, 200},
		"body that does not begin":     {ok + "\r\n", "", body, 200},
		"a body that drips":            {ok + "\r\n", "x", body, 200},
		"chunks that drip":             {ok + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", body, 200},
		"complete response, held open": {ok + "Content-Length: 2\r\n\r\nOK", "", 0, 200},
		"error body that does not end": {"HTTP/1.1 500 X\r\n\r\nwhy", "", body, 500},
		"protocol switch":              {switching, "", 0, 101},
		"https, and no TLS from there": {"https", "", header, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, url := newSender(newGuard(t), nil, nil, storetest.Discard()), "http://receiver.example"
				client := c.plain
				var responding sync.WaitGroup
				defer responding.Wait()
				if test.response == "https" {
					url, client = "https://receiver.example", c.secure
				}
				client.HTTPClient.Transport.(*lenientTransport).DialContext = func(context.Context, string, string) (
					net.Conn, error) {
					here, there := net.Pipe()
					responding.Go(func() { respond(there, test.response, test.drips) })
					return here, nil
				}
				o := c.send(newDelivery(url))
				expect.Equal(t, "took", o.Took, test.took)
				expect.Equal(t, "status", o.Status, test.status)
				expect.That(t, (o.Error == timedOut) == (test.status == 0) && o.Delivered == (test.status == 200),
					"%+v", o)
			})
		})
	}
}

// respond reads a request and sends a response, without an end until the client disconnects.
func respond(c net.Conn, response, drips string) {
	defer c.Close()
	r := bufio.NewReader(c)
	if request, err := http.ReadRequest(r); err == nil {
		_, _ = io.Copy(io.Discard, request.Body)
		_, err = io.WriteString(c, response)
		for i := 0; drips != "" && err == nil; i++ {
			_, err = c.Write([]byte{drips[i%len(drips)]})
			<-time.After(5 * time.Millisecond)
		}
	}
	_, _ = io.Copy(io.Discard, r) // until the client disconnects
}

// The receiver gets exactly the signed bytes, once.
func TestRequest(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	server := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Proto, " ", r.ContentLength, " ",
			r.Header.Get("Content-Type"), " ", r.Header.Get("User-Agent"), " ",
			r.Header.Get("X-Service-Signature") == bodySignature("whsec_c2VjcmV0IG9uZQ==", body), " ",
			r.Header.Values("Idempotency-Key"), " ", string(body))
		w.WriteHeader(http.StatusInternalServerError)
	}))
	d := newDelivery(server.URL + "/hook?x=1")
	d.Body = []byte("{\"data\":\"<&>\u2028 \\u003c é\"}")
	loopback(t).send(d)
	want := fmt.Sprint("POST /hook?x=1 HTTP/1.1 ", len(d.Body), " application/json Assay-Webhooks/1 true [] ",
		string(d.Body))
	expect.Equal(t, "request", <-got, want)
	expect.Equal(t, "it was sent twice", len(got), 0)
}

// What is kept of an attempt is what the receiver got and answered, without secrets, even if the receiver repeats them.
func TestExchange(t *testing.T) {
	t.Parallel()
	d := newDelivery("")
	d.Secrets = append(d.Secrets, "whsec_c2VjcmV0IHR3bw==")
	d.Body = []byte(`{"event":"check.blocked"}` + strings.Repeat(" ", maxRequest))
	got := make(chan string, 1)
	server := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("X-Service-Signature")
		w.Header().Set("Set-Cookie", "session=abc")
		w.Header().Set("X-Api-Key", "abc")
		w.Header().Set("X-Echo", r.Header.Get("Webhook-Signature"))
		w.Header().Set("X-Request-Id", "req_1")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "%s\n%s\n%s%s", r.Header.Get("X-Service-Signature"), d.Secrets[1],
			strings.Repeat("x", maxBody-110), d.Secrets[0])
	}))
	d.URL = server.URL + "/hook?token=abc"
	o := loopback(t).send(d)
	signature := <-got
	for _, want := range []string{"POST /hook?*** HTTP/1.1\n", "Host: " + strings.TrimPrefix(server.URL, "http://"),
		"\nContent-Type: application/json\n", "\nUser-Agent: Assay-Webhooks/1\n", "\nX-Service-Attempt: 2\n",
		"\nWebhook-Id: " + d.Ref + "\n", "\nContent-Length: " + fmt.Sprint(len(d.Body)) + "\n",
		"\nX-Service-Signature: " + signature[:15] + "***\n"} {
		expect.That(t, strings.Contains(o.Request.Header, want), "the request has no %q:\n%s", want, o.Request.Header)
	}
	expect.That(t, o.Request.Body == string(d.Body[:maxRequest]), "%d bytes of the request are kept, want %d",
		len(o.Request.Body), maxRequest)
	for _, want := range []string{"HTTP/1.1 400 Bad Request\n", "Set-Cookie: ***\n", "X-Api-Key: ***\n",
		"X-Request-Id: req_1\n", "X-Echo: *** ***\n"} {
		expect.That(t, strings.Contains(o.ResponseHeader, want), "the response has no %q:\n%s", want, o.ResponseHeader)
	}
	kept := o.Request.Header + o.ResponseHeader + string(o.ResponseBody)
	for _, secret := range append([]string{signature, signature[7:], "abc\n", "c2VjcmV0"}, d.Secrets...) {
		expect.That(t, !strings.Contains(kept, secret), "%q is kept:\n%s", secret, kept)
	}
	expect.That(t, strings.HasPrefix(string(o.ResponseBody), "***\n***\nxxx") && len(o.ResponseBody) <= maxBody,
		"the body is %q", o.ResponseBody)
}
