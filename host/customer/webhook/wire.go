package webhook

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// wire records an attempt's traffic. The connection writes on another goroutine, which can outlive the attempt.
type wire struct {
	handshaking atomic.Bool // TLS was begun and has not succeeded

	mu      sync.Mutex
	sent    bool // at least the beginning of the header
	header  strings.Builder
	secrets []string // secrets that must not be kept: the endpoint's, and whole signatures
}

// hidden replaces secrets.
const hidden = "***"

// begin notes the request's secrets. It is called before the request is sent.
func (w *wire) begin(r *http.Request, secrets []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uri := *r.URL
	if uri.RawQuery != "" { // often a token; the customer knows the URL
		uri.RawQuery = hidden
	}
	fmt.Fprintf(&w.header, "%s %s HTTP/1.1\n", r.Method, uri.RequestURI())
	for _, s := range secrets {
		w.secrets = append(w.secrets, s, strings.TrimPrefix(s, "whsec_"))
	}
	for name, values := range r.Header {
		if isSignature(name) {
			for _, signature := range strings.Fields(values[0]) {
				w.secrets = append(w.secrets, signature, signature[strings.IndexAny(signature, "=,")+1:])
			}
		}
	}
	w.secrets = slices.DeleteFunc(w.secrets, func(s string) bool { return s == "" })
}

// trace returns hooks through which the HTTP client reports its progress.
func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		TLSHandshakeStart: func() { w.handshaking.Store(true) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil {
				w.handshaking.Store(false)
			}
		},
		WroteHeaderField: func(name string, values []string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sent = true
			for _, value := range values {
				writeField(&w.header, name, value)
			}
		},
	}
}

// request returns the request as it was sent.
func (w *wire) request(body []byte) Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Request{Body: cut(string(body), maxRequest)}
	if w.sent {
		r.Header = cut(w.header.String(), maxHeader)
	}
	return r
}

// responseHeader returns the status line and the header of a response, without values that may be secrets.
func responseHeader(r *http.Response) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.Proto, r.Status)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			writeField(&b, name, value)
		}
	}
	return b.String()
}

// writeField writes a field of a header. It shortens a signature, because a receiver would accept the body with the
// whole one.
func writeField(b *strings.Builder, name, value string) {
	switch {
	case isSignature(name):
		const shown = len("sha256=") + 8
		value = cut(value, shown) + hidden
	case isSecret(name):
		value = hidden
	}
	fmt.Fprintf(b, "%s: %s\n", name, value)
}

func isSignature(name string) bool { return strings.Contains(strings.ToLower(name), "signature") }

// isSecret reports whether the values of a field are likely to be secrets.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"cookie", "auth", "token", "secret", "key", "session", "password"},
		func(word string) bool { return strings.Contains(name, word) })
}

// hide returns the beginning of a receiver's text, with the request's secrets replaced. Some receivers echo the
// request.
func (w *wire) hide(text string, limit int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, secret := range w.secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return cut(text, limit)
}

func cut(text string, limit int) string { return text[:min(len(text), limit)] }
