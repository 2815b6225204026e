package api

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"

	"assay/registry/expect"
)

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
		{"POST", "/api/check", exampleBody, []string{"Authorization", "Bearer " + goodKey}, "/api/check 200"},
		{"POST", "/api/check", exampleBody, nil, "/api/check 401"},
		{"POST", "/api/check", exampleBody, []string{"Authorization", "Bearer " + panicKey}, "/api/check 500"},
		{"GET", "/api/check", "", nil, "/api/check 405"},
		{"GET", "/gdpr/export?ref=" + unknownRef, "", []string{"Authorization", "Bearer " + goodKey},
			"/gdpr/export 404"},
		{"GET", "/api/checks/" + knownRef, "", []string{"Authorization", "Bearer " + goodKey}, "/api/checks/{ref} 200"},
		{"GET", "/api/checks/nonsense", "", []string{"Authorization", "Bearer " + goodKey}, "/api/checks/{ref} 400"},
		{"GET", "/", "", nil, "pages 200"},
		{"GET", "/static/page.css", "", nil, "pages 200"},
		{"GET", "/broken", "", nil, "pages 500"},
		{"GET", "/nothing/of/the/kind", "", nil, "other 404"},
		{"GET", "/nothing/of/the/kind", "", []string{"Accept", "text/html"}, "other 404"},
		{"BREW", "/", "", nil, "other 404"},
		{"BREW", "/api/check", "", nil, "/api/check 405"},
	} {
		s.send(t, test.method, test.path, test.body, test.headers...)
		got := <-answered
		expect.That(t, got == test.want, "%s %s: %s, want %s", test.method, test.path, got, test.want)
	}
	for raw, want := range map[string]string{
		"no HTTP\r\n\r\n": "other 400",
		"POST /api/check HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n": "/api/check 413",
		"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n":               "/healthz 400",
	} {
		s.exchange(t, raw)
		got := <-answered
		expect.That(t, got == want, "%q: %s, want %s", raw, got, want)
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
		if got[0], got[1], got[2] = s.Load(); got != want {
			t.Errorf("%s: requests, connections and refusals %s", when, cmp.Diff(want, got))
		}
	}
	wantLoad("during a request", [3]int{1, 1, 1})
	close(leave)
	readReplies(t, c)
	requests, _, _ := s.Load()
	expect.That(t, requests == 0, "%d requests are under way", requests)
}
