package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Bounds of one attempt.
const (
	attemptTimeout    = 10 * time.Second // DNS lookup, connection, TLS, request and response header
	bodyTimeout       = time.Second      // for the response body, which no longer affects the outcome
	maxBody           = 1 << 10          // bytes of the response body that are kept
	maxHeader         = 4 << 10          // bytes of a header that are kept
	maxRequest        = 16 << 10         // bytes of a request body that are kept
	maxSecret         = 128              // bytes beyond maxBody in which a secret can end
	maxDiscarded      = 64 << 10         // further bytes that are read, so that the receiver can finish its response
	maxResponseHeader = 16 << 10         // bytes
)

// sender makes attempts.
type sender struct {
	secure, plain *retryablehttp.Client // for https and http
	timeout       time.Duration
	bodyTimeout   time.Duration
	now           func() time.Time // for webhook-timestamp
	log           *slog.Logger
}

func newSender(g *Guard, resolver *net.Resolver, roots *x509.CertPool, log *slog.Logger) *sender {
	return &sender{secure: newClient(g.dialer(resolver, true), roots), plain: newClient(g.dialer(resolver, false), nil),
		timeout: attemptTimeout, bodyTimeout: bodyTimeout, now: time.Now, log: log}
}

// newClient returns a client that sends each request once. Retries are scheduled by the outbox, which survives the
// process. go-retryablehttp's own policy (1, 2 and 4 seconds, few statuses, Retry-After) differs from the contract's.
func newClient(dialer *net.Dialer, roots *x509.CertPool) *retryablehttp.Client {
	http1 := &http.Protocols{}
	http1.SetHTTP1(true)
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: &lenientTransport{&http.Transport{
				Proxy:           nil, // a proxy from the environment would bypass the guard
				DialContext:     dialer.DialContext,
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
				// reusing a connection that the receiver is just closing would fail the attempt
				DisableKeepAlives:      true,
				DisableCompression:     true,
				MaxResponseHeaderBytes: maxResponseHeader,
				Protocols:              http1,
			}},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:     0,
		CheckRetry:   func(context.Context, *http.Response, error) (bool, error) { return false, nil },
		Backoff:      func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 },
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // the default error quotes the URL
		Logger:       nil,                                   // the default logger prints the URL
	}
}

// lenientTransport accepts redirects whose Location is not a valid URL. http.Client parses the header before it calls
// CheckRedirect, and would drop the response.
type lenientTransport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *lenientTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if _, err := response.Location(); err != nil {
		response.Header.Del("Location")
	}
	return response, nil
}

// send makes one attempt. It has no context: an attempt that has begun is completed even while the host shuts down.
func (s *sender) send(d Delivery) (o Outcome) {
	began := time.Now()
	o = Outcome{Chain: d.Chain, Ref: d.Ref, Attempt: d.Attempt}
	defer func() {
		if p := recover(); p != nil {
			o.Error = "internal error: the request was not sent"
			s.log.Error("webhook attempt panicked", "ref", d.Ref, "panic", p, "stack", string(debug.Stack()))
		}
		o.EndedAt = time.Now()
		o.Took = o.EndedAt.Sub(began)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	var seen wire
	response, err := s.post(httptrace.WithClientTrace(ctx, seen.trace()), d, &seen)
	o.Request = seen.request(d.Body)
	if err != nil {
		o.Error = reason(ctx, d.URL, &seen, err)
		return o
	}
	defer response.Body.Close()
	o.Status = response.StatusCode
	o.Delivered = response.StatusCode >= 200 && response.StatusCode <= 299
	o.ResponseHeader = seen.hide(responseHeader(response), maxHeader)
	if o.Status == http.StatusSwitchingProtocols {
		return o // the rest is not a body, and reading it ignores ctx
	}
	timer := time.AfterFunc(s.bodyTimeout, cancel)
	defer timer.Stop()
	// The status alone decides the outcome, so errors of the body are ignored.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody+maxSecret))
	o.ResponseBody = []byte(seen.hide(string(body), maxBody))
	_, _ = io.CopyN(io.Discard, response.Body, maxDiscarded)
	return o
}

func (s *sender) post(ctx context.Context, d Delivery, seen *wire) (*http.Response, error) {
	// The stored URL is parsed again, because it may predate today's rules.
	u, err := ParseURL(d.URL)
	if err != nil {
		return nil, err
	}
	request, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, u, d.Body)
	if err != nil {
		return nil, errors.New("creating the request failed") // err quotes the URL
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Assay-Webhooks/1")
	sign(request.Header, d, s.now())
	seen.begin(request.Request, d.Secrets)
	if request.URL.Scheme == "https" {
		return s.secure.Do(request)
	}
	return s.plain.Do(request)
}

// The classes of failed attempts, as texts for the customer. A class never depends on DNS or TLS answers, because a
// customer can set a URL with a guessed name, and must not learn whether the operator's network has the name or what it
// serves.
const (
	noAddress   = "the name was not found, or its address is not allowed"
	notAllowed  = "the address is not allowed"
	timedOut    = "timed out: no response within 10 seconds"
	notAccepted = "the connection was refused"
	notReached  = "the host could not be reached"
	noTLS       = "the TLS handshake failed"
	closedEarly = "the connection was closed before a response"
	notHTTP     = "the response is not valid HTTP"
	longHeader  = "the response header is too large"
	noResponse  = "no response"
)

// reason returns the class of an error.
func reason(ctx context.Context, to string, seen *wire, err error) string {
	switch {
	case strings.HasPrefix(err.Error(), "url: "):
		return err.Error()
	case errors.Is(err, errForbidden) && isAddress(to):
		return notAllowed
	case errors.Is(err, errForbidden), errors.As(err, new(*net.DNSError)):
		return noAddress
	case ctx.Err() != nil:
		return timedOut
	case seen.handshaking.Load():
		return noTLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return notAccepted
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ETIMEDOUT):
		return notReached
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return closedEarly
	case strings.Contains(err.Error(), "malformed "):
		return notHTTP
	case strings.Contains(err.Error(), "response headers exceeded"):
		return longHeader
	}
	return noResponse
}

// isAddress reports whether the host of a URL is an address, which needs no DNS.
func isAddress(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil
}
