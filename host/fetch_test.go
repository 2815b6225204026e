package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFetchList(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/list.gz":
			z := gzip.NewWriter(w)
			fmt.Fprintln(z, "a.example")
			_ = z.Close()
		case "/away":
			http.Redirect(w, r, "http://lists.example/list.txt", http.StatusFound)
		case "/stall":
			fmt.Fprintln(w, "a.example")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	s, err := openList(t.Context(), server.URL+"/list.gz?key=secret")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(s)
	s.close()
	if err != nil || !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) || s.read.Load() != int64(len(data)) {
		t.Errorf("fetched %d bytes, counted %d, %v", len(data), s.read.Load(), err)
	}
	for from, want := range map[string]string{
		server.URL + "/none?key=secret": "404",
		server.URL + "/away":            "use https",
		server.URL + "/round":           "from one address to the next",
		"http://lists.example/x":        "use https",
		"ftp://lists.example/x":         `by "ftp"`,
		"https://127.0.0.1:1/?k=secret": "refused",
		filepath.Join(t.TempDir(), "x"): "no such file",
	} {
		_, err := openList(t.Context(), from)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", from, err, want)
		}
	}
	if got := sourceOf("https://user:pass@lists.example/a/list.csv?auth=secret#x"); got != "https://lists.example/a/list.csv" {
		t.Errorf("source %q", got)
	}
	tooMuch := &listSource{in: strings.NewReader("x")}
	tooMuch.read.Store(fetchAtMost)
	if _, err := io.ReadAll(tooMuch); err == nil {
		t.Error("a list without end is read")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fetchList(ended, server.URL+"/list.gz", answerTimeout); err == nil {
		t.Error("fetching goes on after the end of its context")
	}
	s, err = fetchList(t.Context(), server.URL+"/stall", 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for range 2 { // whoever looks ahead must not lose the error
		if _, err := io.ReadAll(s); !errors.Is(err, errStalled) {
			t.Errorf("a server that hangs half way: %v, want %v", err, errStalled)
		}
	}
	if err := safeToFetch(&url.URL{Scheme: "http", Host: "[::1]:80"}); err != nil {
		t.Errorf("this machine by http: %v", err)
	}
}
