package webhook

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/store"
)

// receiver is a server that does with each connection what the test says, once it has read the request.
func receiver(t *testing.T, serve func(c net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

// says answers with these bytes and closes the connection.
func says(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// drips sends a byte at a time, until the other side has gone.
func drips(head, text string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, head)
		for i := 0; err == nil; i++ {
			_, err = c.Write([]byte{text[i%len(text)]})
			<-time.After(5 * time.Millisecond)
		}
	}
}

// floods sends text until the other side has gone.
func floods(head, text string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, head)
		for err == nil {
			_, err = io.WriteString(c, text)
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\n"

func TestFaults(t *testing.T) {
	t.Parallel()
	closed, plain := receiver(t, func(net.Conn) {}), listen(t, "127.0.0.1:0", http.NotFoundHandler())
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()
	for name, test := range map[string]struct {
		serve func(net.Conn)
		url   string // instead
		want  store.Ended
	}{
		"200": {serve: says(ok + "Content-Length: 2\r\n\r\nOK"),
			want: store.Ended{Status: 200, Answer: []byte("OK"), Delivered: true}},
		"204": {serve: says("HTTP/1.1 204 No Content\r\n\r\n"),
			want: store.Ended{Status: 204, Delivered: true}},
		"299 without a reason": {serve: says("HTTP/1.1 299\r\n\r\n"),
			want: store.Ended{Status: 299, Delivered: true}},
		"HTTP/1.0": {serve: says("HTTP/1.0 200 OK\r\n\r\nold"),
			want: store.Ended{Status: 200, Answer: []byte("old"), Delivered: true}},
		"100 and then 200": {serve: says("HTTP/1.1 100 Continue\r\n\r\n" + ok + "\r\n"),
			want: store.Ended{Status: 200, Delivered: true}},
		"101": {serve: says(
			"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
			want: store.Ended{Status: 101}},
		"304": {serve: says("HTTP/1.1 304 Not Modified\r\n\r\n"),
			want: store.Ended{Status: 304}},
		"a redirect": {serve: says("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"),
			want: store.Ended{Status: 302}},
		"a redirect to no URL": {serve: says("HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n"),
			want: store.Ended{Status: 302}},
		"410": {serve: says("HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone"),
			want: store.Ended{Status: 410, Answer: []byte("gone")}},
		"429 with Retry-After": {serve: says(
			"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n"),
			want: store.Ended{Status: 429}},
		"503 with Retry-After": {serve: says(
			"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 86400\r\n\r\nbusy"), want: store.Ended{Status: 503,
			Answer: []byte("busy")}},
		"501": {serve: says("HTTP/1.1 501 Not Implemented\r\n\r\n"),
			want: store.Ended{Status: 501}},
		"status 999": {serve: says("HTTP/1.1 999 X\r\n\r\n"), want: store.Ended{Status: 999}},
		"promises more than it sends": {serve: says(ok + "Content-Length: 1000\r\n\r\nhalf"),
			want: store.Ended{Status: 200, Answer: []byte("half"), Delivered: true}},
		"promises less than it sends": {serve: says(ok + "Content-Length: 2\r\n\r\nabcdef"),
			want: store.Ended{Status: 200, Answer: []byte("ab"), Delivered: true}},
		"lies about its chunks": {serve: says(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzzz\r\n"),
			want: store.Ended{Status: 200, Answer: []byte("hello"), Delivered: true}},
		"lies about its encoding": {serve: says(ok + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain"),
			want: store.Ended{Status: 200, Answer: []byte("plain"), Delivered: true}},
		"two lengths": {serve: says(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
			want: store.Ended{Error: "no answer came"}},
		"an endless body": {serve: floods(ok+"\r\n", strings.Repeat("x", 1<<12)),
			want: store.Ended{Status: 200, Answer: []byte(strings.Repeat("x", 1024)), Delivered: true}},
		"an endless body with a length": {serve: floods(ok+"Content-Length: 9223372036854775807\r\n\r\n",
			strings.Repeat("x", 1<<12)), want: store.Ended{Status: 200, Answer: []byte(strings.Repeat("x", 1024)),
			Delivered: true}},
		"an endless head": {serve: floods(ok, "X-Filler: "+strings.Repeat("x", 100)+"\r\n"),
			want: store.Ended{Error: "the answer's head is too large"}},
		"an endless line": {serve: floods("HTTP/1.1 200 ", "OK"),
			want: store.Ended{Error: "the answer's head is too large"}},
		"endless 100s": {serve: floods("", "HTTP/1.1 100 Continue\r\n\r\n"),
			want: store.Ended{Error: "the answer's head is too large"}},
		"not HTTP": {serve: says("220 mail.example ESMTP\r\n"),
			want: store.Ended{Error: "the answer is not HTTP as expected"}},
		"binary": {serve: says("\x00\xff\x00\n\n"),
			want: store.Ended{Error: "the answer is not HTTP as expected"}},
		"closes without a word": {serve: func(net.Conn) {},
			want: store.Ended{Error: "the connection was closed before an answer"}},
		"closes within the head": {serve: says("HTTP/1.1 200 OK\r\nX-"),
			want: store.Ended{Error: "the answer is not HTTP as expected"}},
		"resets the connection": {serve: func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
			want: store.Ended{Error: "the connection was closed before an answer"}},
		"is down": {url: "http://" + unused.Addr().String(),
			want: store.Ended{Error: "the connection was refused"}},
		"has no name": {url: "http://nowhere.test/",
			want: store.Ended{Error: "the host's name does not exist"}},
		"speaks no TLS": {url: "https://" + closed,
			want: store.Ended{Error: "the connection was closed before an answer"}},
		"speaks HTTP where TLS is due": {url: strings.Replace(plain.URL, "http:", "https:", 1),
			want: store.Ended{Error: "the answer is not HTTP as expected"}},
		"a URL that is refused today": {url: "http://user@127.0.0.1/",
			want: store.Ended{Error: "url: it must not hold a user or a password"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := test.url
			if test.serve != nil {
				url = "http://" + receiver(t, test.serve)
			}
			names := startNameServer(t, map[string][][]netip.Addr{})
			e := newCaller(newGuard(t, "127.0.0.1/32"), names.Resolver, nil, discard()).attempt(delivery(url))
			if e.Status != test.want.Status || e.Error != test.want.Error ||
				string(e.Answer) != string(test.want.Answer) || e.Delivered != test.want.Delivered {
				t.Errorf("%d %q, answer %.40q (%d bytes), delivered: %v; want %+v", e.Status, e.Error, e.Answer,
					len(e.Answer), e.Delivered, test.want)
			}
			if e.Ref == "" || e.Number != 2 || e.Took <= 0 || e.At.IsZero() {
				t.Errorf("of %s, attempt %d, took %v until %v", e.Ref, e.Number, e.Took, e.At)
			}
		})
	}
}

// A receiver that keeps the host waiting is left at the time-out, whichever part it is slow with.
func TestSlowReceivers(t *testing.T) {
	t.Parallel()
	hangs := func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) } // until the other side has gone
	full, err := net.Listen("tcp", "127.0.0.1:0")                // accepts nothing: TLS waits for ever
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { full.Close() })
	const late = "no answer came within 10 seconds"
	for name, test := range map[string]struct {
		serve  func(net.Conn)
		url    string
		status int
		reason string
	}{
		"hangs":            {serve: hangs, reason: late},
		"hangs before TLS": {url: "https://" + full.Addr().String(), reason: late},
		"drips its head":   {serve: drips("HTTP/1.1 200 OK\r\nX-Filler: ", "x"), reason: late},
		"drips 100s":       {serve: drips("", "HTTP/1.1 100 Continue\r\n\r\n"), reason: late},
		"answers, then hangs": {serve: func(c net.Conn) { says(ok + "Content-Length: 9\r\n\r\n")(c); hangs(c) },
			status: 200},
		"answers and drips":       {serve: drips(ok+"\r\n", "x"), status: 200},
		"drips the end of chunks": {serve: drips(ok+"Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"), status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := test.url
			if test.serve != nil {
				url = "http://" + receiver(t, test.serve)
			}
			c := newCaller(newGuard(t, "127.0.0.1/32"), nil, nil, discard())
			c.timeout = 300 * time.Millisecond
			e := c.attempt(delivery(url))
			if e.Status != test.status || e.Error != test.reason || e.Delivered != (test.status == 200) ||
				e.Took < c.timeout/2 {
				t.Errorf("%+v, want status %d, %q", e, test.status, test.reason)
			}
		})
	}
}

// The times of an attempt, by a clock that only waiting moves and over a network that needs none.
func TestAttemptTimes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		says string
		took time.Duration
	}{
		"without an answer":                {"", 10 * time.Second},
		"with half a head":                 {ok + "X-", 10 * time.Second},
		"with a body that does not end":    {ok + "Content-Length: 9\r\n\r\nhalf", time.Second},
		"with a body that does not begin":  {ok + "\r\n", time.Second},
		"with a whole answer, held open":   {ok + "Content-Length: 2\r\n\r\nOK", 0},
		"with a refusal that does not end": {"HTTP/1.1 500 X\r\n\r\nwhy", time.Second},
		"with a switch of protocols":       {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCaller(newGuard(t), nil, nil, discard())
				c.plain.HTTPClient.Transport.(*lenient).DialContext = func(context.Context, string, string) (net.Conn,
					error) {
					here, there := net.Pipe()
					go func() {
						defer there.Close()
						r := bufio.NewReader(there)
						if request, err := http.ReadRequest(r); err == nil {
							_, _ = io.Copy(io.Discard, request.Body)
							_, _ = io.WriteString(there, test.says)
							_, _ = r.ReadByte() // until the other side has gone
						}
					}()
					return here, nil
				}
				if e := c.attempt(delivery("http://receiver.example")); e.Took != test.took {
					t.Errorf("took %v, want %v: %+v", e.Took, test.took, e)
				}
			})
		})
	}
}

// However much a receiver answers, little of it is read.
func TestFloodIsCutOff(t *testing.T) {
	t.Parallel()
	wrote := make(chan int, 1)
	address := receiver(t, func(c net.Conn) {
		sum := 0
		for n, err := io.WriteString(c, ok+"\r\n"); err == nil; n, err = c.Write(make([]byte, 1<<16)) {
			sum += n
		}
		wrote <- sum
	})
	if e := newCaller(newGuard(t, "127.0.0.1/32"), nil, nil,
		discard()).attempt(delivery("http://" + address)); !e.Delivered {
		t.Errorf("%+v", e)
	}
	if n := <-wrote; n > 32<<20 { // the kernel's buffers take some of it
		t.Errorf("the receiver could send %d bytes", n)
	}
}

// What a receiver gets is what was signed, byte for byte, once.
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
	d := delivery(server.URL + "/hook?x=1")
	d.Body = []byte("{\"data\":\"<&>\u2028 \\u003c é\"}")
	newCaller(newGuard(t, "127.0.0.1/32"), nil, nil, discard()).attempt(d)
	want := fmt.Sprint("POST /hook?x=1 HTTP/1.1 ", len(d.Body), " application/json Assay-Webhooks/1 true [] ",
		string(d.Body))
	if first := <-got; first != want {
		t.Errorf("request %q, want %q", first, want)
	}
	if len(got) != 0 {
		t.Error("it was sent twice")
	}
}
