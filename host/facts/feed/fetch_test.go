package feed

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"assay/registry/expect"
)

func TestFetch(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/list.gz":
			expect.Equal(t, "User-Agent", r.UserAgent(), "assay/1.2.3")
			z := gzip.NewWriter(w)
			fmt.Fprintln(z, "a.example")
			_ = z.Close()
		case "/elsewhere":
			http.Redirect(w, r, "http://lists.example/list.txt", http.StatusFound)
		case "/stall":
			fmt.Fprintln(w, "a.example")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/odd":
			w.Header()["Etag"] = []string{"\"caf\xe9\""}
			w.Header().Set("Last-Modified", "Tue")
		case "/status":
			conn, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprint(conn, "HTTP/1.1 500 \x1b[2J\x00\xe9\r\n\r\n")
			_ = conn.Close()
		case "/hidden":
			w.Header().Set("Location", "https://a\u009b2J.example/")
			w.WriteHeader(http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)

	source := expect.Value(Fetch(t.Context(), Request{URL: server.URL + "/list.gz?key=secret", Version: "1.2.3"}))(t)
	data, err := io.ReadAll(source)
	_ = source.Close()
	expect.That(t, err == nil && bytes.HasPrefix(data, []byte{0x1f, 0x8b}) && source.BytesRead() == int64(len(data)),
		"fetched %d bytes and counted %d, %v; want gzip data", len(data), source.BytesRead(), err)

	for from, want := range map[string]string{
		server.URL + "/none?key=secret": "status 404",
		server.URL + "/status":          "status 500",
		server.URL + "/hidden":          "not printable",
		server.URL + "/elsewhere":       "use https",
		server.URL + "/loop":            "too many redirects",
		"http://lists.example/x":        "use https",
		"ftp://lists.example/x":         `scheme "ftp"`,
		"https://127.0.0.1:1/?k=secret": "refused",
	} {
		_, err := Fetch(t.Context(), Request{URL: from})
		expect.That(t, err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "secret"),
			"Fetch(%s): %v, want %q without the key", from, err, want)
		expect.That(t, !strings.ContainsFunc(fmt.Sprint(err), func(r rune) bool { return !unicode.IsPrint(r) }),
			"Fetch(%s): %q", from, err)
	}
	odd := expect.Value(Fetch(t.Context(), Request{URL: server.URL + "/odd"}))(t)
	_ = odd.Close()
	expect.Equal(t, "validators", odd.Validators, Validators{LastModified: "Tue"})

	ended := expect.Ended(t)
	expect.Error(t, "with a cancelled context",
		expect.ErrorOf(Fetch(ended, Request{URL: server.URL + "/list.gz"})), context.Canceled)

	stalled := expect.Value(fetch(t.Context(), Request{URL: server.URL + "/stall"}, 10*time.Millisecond))(t)
	defer stalled.Close()
	for range 2 { // the error must persist: a buffered reader may drop the first
		expect.Error(t, "reading a stalled response", expect.ErrorOf(io.ReadAll(stalled)), errStalled)
	}
}

// Redirects do not lead into the host's own network, whatever the publisher says.
func TestRedirectsIntoOwnNetwork(t *testing.T) {
	t.Parallel()
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the private server was called")
	}))
	t.Cleanup(private.Close)
	port := strings.TrimPrefix(private.URL, "http://127.0.0.1:")
	publisher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			fmt.Fprintln(w, "a.example")
			return
		}
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	}))
	t.Cleanup(publisher.Close)
	for _, to := range []string{
		private.URL, "http://localhost:" + port, "https://127.0.0.1:" + port, "https://10.0.0.1/",
		"https://169.254.169.254/", "https://[::1]:" + port,
		"https://[::ffff:127.0.0.1]:" + port, "https://192.168.1.1:8443/", "https://localhost/",
	} {
		request := Request{URL: publisher.URL + "/?to=" + url.QueryEscape(to)}
		expect.ErrorText(t, "redirected to "+to, expect.ErrorOf(Fetch(t.Context(), request)), "not a public address")
	}
	source, err := Fetch(t.Context(), Request{URL: publisher.URL + "/?to=/here"})
	expect.Must(t, err == nil, "redirected within the publisher: %v", err)
	_ = source.Close()
}

func TestSourceIsBounded(t *testing.T) {
	t.Parallel()
	source := NewSource(io.NopCloser(strings.NewReader("x")), -1)
	source.read.Store(maxSourceBytes)
	expect.Failure(t, expect.ErrorOf(io.ReadAll(source)), "reading past the limit succeeded")
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	expect.NoError(t, checkScheme(&url.URL{Scheme: "http", Host: "[::1]:80"})) // loopback may use http
	const want = "https://lists.example/a/list.csv"
	expect.Equal(t, "RedactURL", RedactURL("https://user:pass@lists.example/a/list.csv?auth=secret#x"), want)
}
