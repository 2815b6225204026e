package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"assay/host/internal/internet"
	"assay/registry/fault"
)

// Limits of a source.
const (
	fetchTimeout    = 15 * time.Minute
	responseTimeout = 30 * time.Second // until the response begins, and between any two reads of it
	maxSourceBytes  = 1 << 30          // as sent, before unpacking
	maxRedirects    = 5
	maxRetryAfter   = 24 * 60 * 60 // seconds
)

// Source is the open file or response of a list. It counts the bytes read, and fails beyond 1 GiB.
type Source struct {
	Size       int64 // bytes, or -1 if unknown
	Validators       // of a response
	in         io.ReadCloser
	read       atomic.Int64
}

// Validators identify one version of a document (RFC 9110 section 8.8). Empty ones are unknown.
type Validators struct{ ETag, LastModified string }

// Request is a request for a list from an https URL, or from an http URL on this machine.
type Request struct {
	URL     string
	Known   Validators // of the caller's version; Fetch returns ErrNotModified if it is current
	Version string     // becomes part of the User-Agent
	DNS     []string   // resolvers as host:port; only the first is used; none: the system's
}

// ErrNotModified means that the caller already has the publisher's current version.
var ErrNotModified = errors.New("the list has not changed")

// RetryError means that the publisher asked for a pause.
type RetryError struct {
	After time.Duration
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// NewSource returns a source that reads from in. size is -1 if it is unknown.
func NewSource(in io.ReadCloser, size int64) *Source { return &Source{Size: size, in: in} }

// BytesRead returns the number of bytes read so far.
func (s *Source) BytesRead() int64 { return s.read.Load() }

// Read implements io.Reader.
func (s *Source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if s.read.Add(int64(n)) > maxSourceBytes {
		return 0, fmt.Errorf("the list is larger than %d MiB", maxSourceBytes>>20)
	}
	return n, err
}

// Close implements io.Closer.
func (s *Source) Close() error { return s.in.Close() }

// Fetch requests a list. Redirects lead only to public addresses, so that a publisher cannot reach the network of the
// host. Errors never contain the URL, because its query may contain an access key.
func Fetch(ctx context.Context, r Request) (*Source, error) {
	source, err := fetch(ctx, r, responseTimeout)
	return source, fault.Wrap(err, "fetching list")
}

// fetch implements Fetch. Reading fails with errStalled if the server sends nothing for stallTimeout.
func fetch(ctx context.Context, r Request, stallTimeout time.Duration) (*Source, error) {
	at, err := url.Parse(r.URL)
	if err != nil {
		return nil, errors.New("it is not a URL")
	}
	if err := checkScheme(at); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	client := &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // the dial function must see the address of the publisher
			DialContext:            internet.GuardedDial(at, r.DNS),
			TLSHandshakeTimeout:    responseTimeout,
			ResponseHeaderTimeout:  responseTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true,
			DisableCompression:     true, // Open decompresses, within its limits
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("too many redirects")
			}
			return checkScheme(to.URL)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		cancel()
		return nil, withoutURL(err)
	}
	for name, value := range map[string]string{
		"User-Agent": "assay/" + r.Version, "Accept-Encoding": "gzip",
		"If-None-Match": r.Known.ETag, "If-Modified-Since": r.Known.LastModified,
	} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	response, err := client.Do(request) //nolint:bodyclose // body.Close closes it
	if err != nil {
		cancel()
		return nil, withoutURL(err)
	}
	source := NewSource(&body{in: response.Body, timeout: stallTimeout, cancel: cancel}, response.ContentLength)
	source.Validators = Validators{validator(response, "ETag"), validator(response, "Last-Modified")}
	if response.StatusCode != http.StatusOK {
		_ = source.Close()
		return nil, statusError(response)
	}
	return source, nil
}

// validator returns a header, or "" if it could not be stored or sent in the next request.
func validator(response *http.Response, name string) string {
	value := response.Header.Get(name)
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return value
}

// statusError returns the error for a response without a list. It omits the reason phrase, which may contain anything.
func statusError(response *http.Response) error {
	err := fmt.Errorf("the server responded with status %d", response.StatusCode)
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	switch {
	case response.StatusCode == http.StatusNotModified:
		return ErrNotModified
	case seconds > 0:
		return &RetryError{time.Duration(min(seconds, maxRetryAfter)) * time.Second, err}
	}
	return err
}

// errStalled means that a server stopped sending in the middle of a list.
var errStalled = errors.New("the server stopped sending before the end of the list")

// body is a response body whose reads fail with errStalled after the timeout.
type body struct {
	in      io.ReadCloser
	timeout time.Duration
	cancel  func() // interrupts the current read
	stalled bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.stalled {
		return 0, errStalled
	}
	timer := time.AfterFunc(b.timeout, b.cancel)
	n, err := b.in.Read(p)
	if b.stalled = !timer.Stop(); b.stalled {
		err = errStalled
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel()
	return b.in.Close()
}

// withoutURL returns the cause of a client's error, without the URL.
func withoutURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// checkScheme requires https, because an attacker who can alter the list in transit decides what is blocked. It also
// accepts http to this machine. It refuses host names that would garble an error.
func checkScheme(at *url.URL) error {
	addr := net.ParseIP(at.Hostname())
	switch {
	case strings.ContainsFunc(at.Host, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the host name is not printable")
	case at.Scheme == "https", at.Scheme == "http" && (at.Hostname() == "localhost" || addr.IsLoopback()):
		return nil
	case at.Scheme == "http":
		return errors.New("http does not protect the list from being altered in transit: use https, or download it " +
			"yourself and import the file")
	}
	return fmt.Errorf("the scheme %q is not supported: use https", at.Scheme)
}

// RedactURL returns a URL without user, password, query and fragment, which may contain access keys.
func RedactURL(rawURL string) string {
	at, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
}
