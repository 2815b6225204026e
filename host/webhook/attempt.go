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
	"net/url"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"assay/host/store"
)

// Bounds of one attempt.
const (
	attemptTimeout  = 10 * time.Second // all in: look-up, connection, TLS, request, the answer's head
	answerTimeout   = time.Second      // for what follows the answer's head, which decides nothing any more
	maxAnswer       = 1 << 10          // bytes of the answer's body that are kept
	maxDiscarded    = 64 << 10         // bytes that are read behind these, so that a receiver can finish its answer
	maxAnswerHeader = 16 << 10
)

// caller makes attempts.
type caller struct {
	secure, plain *retryablehttp.Client // for https and http
	timeout       time.Duration
	log           *slog.Logger
}

func newCaller(g *Guard, resolver *net.Resolver, roots *x509.CertPool, log *slog.Logger) *caller {
	return &caller{secure: newClient(g.dialer(resolver, true), roots), plain: newClient(g.dialer(resolver, false), nil),
		timeout: attemptTimeout, log: log}
}

// newClient returns a client that sends a request once. The schedule of retries is the outbox's, which outlives the
// process; what go-retryablehttp would do of itself (1, 2 and 4 seconds, no retry of most statuses, as long a pause as
// Retry-After says) is not what the spec says.
func newClient(dialer *net.Dialer, roots *x509.CertPool) *retryablehttp.Client {
	http1 := &http.Protocols{}
	http1.SetHTTP1(true)
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: &lenient{&http.Transport{
				Proxy:           nil, // the environment's would dial in our place, unguarded
				DialContext:     dialer.DialContext,
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
				// a connection that its receiver closes just then would cost a failed attempt
				DisableKeepAlives:      true,
				DisableCompression:     true,
				MaxResponseHeaderBytes: maxAnswerHeader,
				Protocols:              http1,
			}},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:     0,
		CheckRetry:   func(context.Context, *http.Response, error) (bool, error) { return false, nil },
		Backoff:      func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 },
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // its own error quotes the URL
		Logger:       nil,                                   // likewise
	}
}

// lenient takes an answer that redirects to what is no URL: the client would parse that before it asks whether to
// follow, and lose the answer.
type lenient struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *lenient) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if _, err := response.Location(); err != nil {
		response.Header.Del("Location")
	}
	return response, nil
}

// attempt sends a delivery once. It does not end with the host's own life: an attempt that has begun is seen through.
func (c *caller) attempt(d store.Delivery) (e store.Ended) {
	began := time.Now()
	e = store.Ended{Ref: d.Ref, Number: d.Number}
	defer func() {
		if p := recover(); p != nil {
			e.Error = "an internal error kept the attempt from being made"
			c.log.Error("webhook attempt panicked", "ref", d.Ref, "panic", p, "stack", string(debug.Stack()))
		}
		e.At = time.Now()
		e.Took = e.At.Sub(began)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	response, err := c.send(ctx, d, began)
	if err != nil {
		e.Error = reason(ctx, err)
		return e
	}
	defer response.Body.Close()
	e.Status = response.StatusCode
	e.Delivered = response.StatusCode >= 200 && response.StatusCode <= 299
	if e.Status == http.StatusSwitchingProtocols {
		return e // what follows is no body, and reading it heeds no context
	}
	late := time.AfterFunc(answerTimeout, cancel)
	defer late.Stop()
	// Whatever is wrong with the body, the status has been said.
	e.Answer, _ = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	_, _ = io.CopyN(io.Discard, response.Body, maxDiscarded)
	return e
}

func (c *caller) send(ctx context.Context, d store.Delivery, at time.Time) (*http.Response, error) {
	// It is parsed again, strictly: what stands in the database may be older than today's rules.
	u, err := ParseURL(d.URL)
	if err != nil {
		return nil, err
	}
	request, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, u, d.Body)
	if err != nil {
		return nil, errors.New("the request cannot be made")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Assay-Webhooks/1")
	sign(request.Header, d, at)
	if request.URL.Scheme == "https" {
		return c.secure.Do(request)
	}
	return c.plain.Do(request)
}

// reason says in words for the customer why there was no answer. No error is passed on as it is: it may name addresses
// of the operator's network.
func reason(ctx context.Context, err error) string {
	var (
		wrapped *url.Error
		lookup  *net.DNSError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		alert   tls.AlertError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, errForbidden):
		return errForbidden.Error()
	case ctx.Err() != nil:
		return "no answer came within 10 seconds"
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "the host's name does not exist"
	case errors.As(err, &lookup):
		return "the host's name could not be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ETIMEDOUT):
		return "the host could not be reached"
	case errors.As(err, &unknown):
		return "TLS: the certificate is not signed by a known authority"
	case errors.As(err, &name):
		return "TLS: the certificate is for another host"
	case errors.As(err, &invalid):
		return "TLS: the certificate is not valid"
	case errors.As(err, &alert), errors.As(err, &record):
		return "TLS: the connection could not be secured"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return "the connection was closed before an answer"
	case strings.Contains(err.Error(), "malformed "),
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS"):
		return "the answer is not HTTP as expected"
	case strings.Contains(err.Error(), "response headers exceeded"):
		return "the answer's head is too large"
	case errors.As(err, &wrapped) && strings.HasPrefix(wrapped.Err.Error(), "tls: "):
		return "TLS: the connection could not be secured"
	case strings.HasPrefix(err.Error(), "url: "):
		return err.Error()
	}
	return "no answer came"
}
