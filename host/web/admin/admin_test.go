package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/registry/expect"
)

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, s+r.URL.Path) })
}

// start serves on loopback until the test ends, and returns the URL.
func start(t *testing.T, cfg Config) (url string, s *Server) {
	t.Helper()
	cfg.Metrics, cfg.Logger = text("metrics "), slog.New(slog.NewTextHandler(t.Output(), nil))
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	s = New(cfg)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { expect.NoError(t, errors.Join(s.Shutdown(context.Background()), <-served)) })
	return "http://" + l.Addr().String(), s
}

// send makes a GET request with headers, of which Host is the server's name.
func send(t *testing.T, url string, headers ...string) (status int, header http.Header, body string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Host = r.Header.Get("Host")
	response := expect.Value(http.DefaultClient.Do(r))(t)
	defer response.Body.Close()
	return response.StatusCode, response.Header, string(expect.Value(io.ReadAll(response.Body))(t))
}

func TestPaths(t *testing.T) {
	t.Parallel()
	url, _ := start(t, Config{Version: "1.2.3", Operator: text("page ")})
	bare, _ := start(t, Config{})
	for _, test := range []struct {
		url    string
		status int
		part   string
	}{
		{url + "/", 200, `href="/metrics"`},
		{url + "/healthz", 200, `{"status":"ok","version":"1.2.3"}`},
		{url + "/readyz", 200, `{"status":"ready"}`},
		{url + "/metrics", 200, "metrics /metrics"},
		{url + "/operator", 200, "page /operator"},
		{url + "/operator/sign-in", 200, "page /operator/sign-in"},
		{bare + "/operator", 404, "not found"},
		{url + "/operators", 404, "not found"},
		{url + "/debug/vars", 404, "not found"},
		{url + "/debug/pprof/", 200, "goroutine"},
		{url + "/debug/pprof/goroutine?debug=1", 200, "TestPaths"},
		{url + "/debug/pprof/heap?debug=1", 200, "heap profile"},
		{url + "/debug/pprof/symbol", 200, "num_symbols"},
	} {
		status, header, body := send(t, test.url)
		expect.That(t, status == test.status && strings.Contains(body, test.part), "%s: status %d, want %d and %q: %s",
			test.url, status, test.status, test.part, body)
		expect.That(t, header.Get("Cache-Control") == "no-store" && header.Get("X-Content-Type-Options") == "nosniff",
			"%s: headers %v", test.url, header)
	}
	_, _, body := send(t, url+"/debug/pprof/cmdline")
	expect.That(t, !strings.Contains(body, "-test."), "the arguments of the process are shown: %s", body)
	response := expect.Value(http.Post(url+"/metrics", "text/plain", http.NoBody))(t)
	_ = response.Body.Close()
	expect.Equal(t, "POST /metrics: status", response.StatusCode, http.StatusMethodNotAllowed)
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	problems := func() []Problem {
		return []Problem{{"database", "is read-only", errors.New("no <writes>")}, {Part: "lineup"}}
	}
	type testCase struct {
		cfg    Config
		status int
		body   string
	}
	expect.Each(t, map[string]testCase{
		"ready": {Config{}, 200, `{"status":"ready"}`},
		"degraded": {Config{Degraded: func() []string { return []string{"a layer is suspended"} }}, 200,
			`{"status":"ready","degraded":["a layer is suspended"]}`},
		"not ready": {Config{Ready: problems}, 503, `{"status":"not ready","problems":[` +
			`{"part":"database","reason":"is read-only","error":"no <writes>"},{"part":"lineup"}]}`},
		"draining": {Config{Draining: func() bool { return true }}, 503, `{"status":"draining"}`},
		"draining and not ready": {Config{Draining: func() bool { return true },
			Ready: func() []Problem { return []Problem{{Part: "lineup"}} }}, 503,
			`{"status":"draining","problems":[{"part":"lineup"}]}`},
	}, func(t *testing.T, test testCase) {
		url, _ := start(t, test.cfg)
		status, header, body := send(t, url+"/readyz")
		expect.That(t, status == test.status && body == test.body+"\n" &&
			header.Get("Content-Type") == "application/json", "%d %s, want %d %s", status, body, test.status, test.body)
		expect.That(t, (header.Get("Retry-After") != "") == (status == http.StatusServiceUnavailable),
			"status %d with Retry-After %q", status, header.Get("Retry-After"))
	})
}

func TestProblemAsError(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Problem{
		"lineup":                       {Part: "lineup"},
		"lists: not read":              {Part: "lists", Err: errors.New("not read")},
		"database (is full): no space": {"database", "is full", errors.New("no space")},
	} {
		expect.Equal(t, "text", p.Error().Error(), want)
	}
}

// On loopback, the server must not be reachable for web pages whose name resolves to a loopback address.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	all, loopback := guard(text(""), false), guard(text(""), true)
	for host, ours := range map[string]bool{
		"": true, "localhost": true, "LocalHost:8081": true, "127.0.0.1": true, "127.0.0.1:8081": true,
		"127.9.9.9:1": true, "[::1]:8081": true, "[::1]": true, "evil.example": false, "evil.example:8081": false,
		"localhost.evil.example": false, "127.0.0.1.evil.example:8081": false, "10.0.0.1:8081": false,
		"0.0.0.0:8081": false, "[2001:db8::1]:8081": false, "localhost:8081:8081": false,
	} {
		for bound, handler := range map[string]http.Handler{"loopback": loopback, "all addresses": all} {
			r, w := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody), httptest.NewRecorder()
			r.Host = host
			handler.ServeHTTP(w, r)
			want := http.StatusOK
			if bound == "loopback" && !ours {
				want = http.StatusForbidden
			}
			expect.That(t, w.Code == want, "bound to %s, Host %q: status %d, want %d", bound, host, w.Code, want)
		}
	}
	url, _ := start(t, Config{})
	status, _, _ := send(t, url+"/metrics", "Host", "evil.example")
	expect.Equal(t, "status of a server on loopback for evil.example", status, http.StatusForbidden)
}

// A page of another site must not record profiles.
func TestProfilesOfOtherSites(t *testing.T) {
	t.Parallel()
	url, _ := start(t, Config{})
	for site, want := range map[string]int{"none": 200, "same-origin": 200, "cross-site": 403, "same-site": 403} {
		status, _, _ := send(t, url+"/debug/pprof/heap", "Sec-Fetch-Site", site)
		expect.That(t, status == want, "Sec-Fetch-Site %s: status %d, want %d", site, status, want)
	}
}

// Neither a profile that is being recorded nor a handler that ignores its context delays the stop of a host.
func TestShutdownDuringRequests(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	defer close(leave)
	for name, hold := range map[string]func(ctx context.Context){
		"a profile":       func(ctx context.Context) { <-ctx.Done() }, // as net/http/pprof waits
		"a stuck handler": func(context.Context) { <-leave },
	} {
		entered := make(chan struct{})
		url, s := start(t, Config{Operator: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			hold(r.Context())
		})})
		done := make(chan error, 1)
		go func() {
			response, err := http.Get(url + "/operator")
			if err == nil {
				err = response.Body.Close()
			}
			done <- err
		}()
		<-entered
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stuck := name != "a profile"
		if stuck {
			cancel()
		}
		expect.NoError(t, s.Shutdown(ctx))
		if err := <-done; (err != nil) != stuck || (ctx.Err() != nil) != stuck {
			t.Errorf("%s: the request ended with %v, %v", name, err, ctx.Err())
		}
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	busy := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	before := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port - 1}

	l, taken, err := Listen(t.Context(), "", before, false)
	expect.Must(t, err == nil && errors.Is(taken, syscall.EADDRINUSE), "a taken default: %v, %v", taken, err)
	got := l.Addr().(*net.TCPAddr)
	expect.That(t, got.Port != port && got.IP.IsLoopback(), "a taken default: listening on %v", got)
	_ = l.Close()

	l, taken, err = Listen(t.Context(), "", before, true)
	expect.Must(t, err == nil && taken == nil, "any port: %v, %v", taken, err)
	_ = l.Close()

	l, _, err = Listen(t.Context(), busy.Addr().String(), before, false)
	expect.That(t, l == nil && errors.Is(err, syscall.EADDRINUSE) && strings.Contains(err.Error(),
		"ASSAY_ADMIN_LISTEN"), "a taken explicit address: %v", err)
	l, taken, err = Listen(t.Context(), Off, before, false)
	expect.That(t, l == nil && taken == nil && err == nil, "off: %v, %v, %v", l, taken, err)
}

func TestDefaultAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ip      net.IP
		port    int
		anyPort bool
		want    string
	}{
		{net.IPv4(127, 0, 0, 1), 8080, false, "127.0.0.1:8081"},
		{net.IPv6loopback, 8080, false, "[::1]:8081"},
		{net.IPv4zero, 8080, false, "127.0.0.1:8081"},
		{net.IPv6zero, 443, false, "127.0.0.1:444"},
		{net.IPv4(192, 0, 2, 1), 8080, false, "127.0.0.1:8081"},
		{net.IPv4(127, 0, 0, 1), 41234, true, "127.0.0.1:0"},
		{net.IPv4(127, 0, 0, 1), 65535, false, "127.0.0.1:0"},
	} {
		expect.Equal(t, fmt.Sprintf("customers on %v:%d, any port %v", test.ip, test.port, test.anyPort),
			ByDefault(&net.TCPAddr{IP: test.ip, Port: test.port}, test.anyPort).String(), test.want)
	}
	expect.Equal(t, "customers on a socket", ByDefault(&net.UnixAddr{Name: "/run/assay"}, false).String(),
		"127.0.0.1:0")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for setting, valid := range map[string]bool{"": true, "off": true, "127.0.0.1:0": true, ":9090": true,
		"[::1]:9090": true, "localhost": false, "9090": false, "127.0.0.1:http-ish": false, "127.0.0.1:65536": false} {
		expect.Equal(t, setting+" is valid", Validate(setting) == nil, valid)
	}
}
