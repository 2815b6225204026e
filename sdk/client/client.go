// Package client calls Assay's API and verifies its webhooks. It needs only the standard library.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Client calls the API with a key. Create it with New, and change its fields only before the first call. It is safe for
// concurrent use.
type Client struct {
	HTTP           *http.Client  // New sets one that follows no redirects
	Attempts       int           // the maximum number of attempts per call; 0: as many as Timeout allows
	AttemptTimeout time.Duration // the time limit of an attempt
	Timeout        time.Duration // the time limit of a call, including all attempts and pauses
	Wait           time.Duration // the time limit of an export or erasure in the background

	url, key string
}

// New returns a client for the service at url, such as https://assay.example.
func New(url, key string) *Client {
	return &Client{
		HTTP: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		AttemptTimeout: 5 * time.Second, Timeout: 20 * time.Second, Wait: 10 * time.Minute,
		url: strings.TrimRight(url, "/"), key: strings.TrimSpace(key), // a file ends with a line break
	}
}

// Request names the value to check. The service scores the first of Domain, Email, Phone and IBAN that is set.
type Request struct {
	Domain string  `json:"domain,omitempty"`
	Email  string  `json:"email,omitempty"`
	Phone  string  `json:"phone,omitempty"`
	IBAN   string  `json:"iban,omitempty"`
	Region *Region `json:"region,omitempty"`

	Receipt bool `json:"receipt,omitempty"` // whether Check's result includes a receipt
}

// Region is the region that a value comes from.
type Region struct {
	Country string `json:"country"` // ISO 3166-1 alpha-2, or EU
}

// Verdict is the decision about a checked value.
type Verdict string

// The verdicts of a Result. Those of an Event are in upper case.
const (
	Allow  Verdict = "allow"
	Review Verdict = "review"
	Block  Verdict = "block"
)

// Result is the answer to a check.
type Result struct {
	Score          int       `json:"score"` // 0 to 100, higher is more suspicious
	Verdict        Verdict   `json:"verdict"`
	Signals        []string  `json:"signals"`         // the reasons
	DominantThreat *string   `json:"dominant_threat"` // nil if there is none
	Type           string    `json:"type"`            // domain, email, phone or iban
	Query          string    `json:"query"`
	Timestamp      time.Time `json:"timestamp"`
	Ref            string    `json:"ref"`

	Warnings []Warning       `json:"warnings"` // fields that were ignored because they are invalid
	Receipt  json.RawMessage `json:"receipt"`  // if the request asked for it
}

// Warning says why a field of a request was ignored.
type Warning struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// BatchResult is the answer to one request of a batch: a result, or the reason why the request is invalid.
type BatchResult struct {
	Result
	Error string `json:"error"` // empty if there is a result
	Code  Code   `json:"code"`
	Field string `json:"field"` // the invalid field of the request, if there is one
}

// Feedback reports what a checked entity turned out to be.
type Feedback struct {
	Ref   string `json:"ref"`
	Label string `json:"label"` // fraud or legitimate
	Note  string `json:"note,omitempty"`

	Request // optional: the value that was checked, which is scored again
}

// Error is an answer with a status other than 200 and 202.
type Error struct {
	Status     int
	Code       Code          // the kind of error; empty if the service did not write the answer
	Message    string        // for people; the text may change
	Field      string        // the invalid field of the request, if there is one
	Ref        string        // of an internal error, to quote to support
	RequestID  string        // the X-Request-Id
	ResetAt    time.Time     // when an exceeded limit ends
	RetryAfter time.Duration // how long to wait, 0 if the answer does not say
}

// Code is a kind of error. Codes do not change, but later releases can add some.
type Code string

// The codes of errors.
const (
	InvalidRequest     Code = "invalid_request"
	InvalidBody        Code = "invalid_body"
	InvalidField       Code = "invalid_field"
	NoField            Code = "no_field"
	Unauthorized       Code = "unauthorized"
	KeyExpired         Code = "key_expired"
	AccountSuspended   Code = "account_suspended"
	PlanRequired       Code = "plan_required"
	ScopeMissing       Code = "scope_missing"
	AddressRefused     Code = "address_refused"
	Forbidden          Code = "forbidden"
	NotFound           Code = "not_found"
	MethodNotAllowed   Code = "method_not_allowed"
	TooSlow            Code = "too_slow"
	TooLarge           Code = "too_large"
	HeadersTooLarge    Code = "headers_too_large"
	Conflict           Code = "conflict"
	MediaType          Code = "media_type"
	QuotaExhausted     Code = "quota_exhausted"
	RateLimited        Code = "rate_limited"
	HourlyLimit        Code = "hourly_limit"
	Busy               Code = "busy"
	ShareExhausted     Code = "share_exhausted"
	Unavailable        Code = "unavailable"
	NotReady           Code = "not_ready"
	TooManyConnections Code = "too_many_connections"
	Internal           Code = "internal"
	Uncertain          Code = "uncertain"
)

func (e *Error) Error() string {
	text := fmt.Sprintf("status %d: %s", e.Status, e.Message)
	if e.RequestID != "" {
		text += " (" + e.RequestID + ")"
	}
	return text
}

// Option changes a call.
type Option func(*sending)

// IdempotencyKey sets the Idempotency-Key of a call, such as an order number, so that the program can repeat the call
// after a restart. Without this option, each call has a random key.
func IdempotencyKey(key string) Option { return func(s *sending) { s.key = key } }

type sending struct{ key string }

// Check scores one entity.
func (c *Client) Check(ctx context.Context, request Request, options ...Option) (Result, error) {
	return call[Result](ctx, c, http.MethodPost, "/api/check", request, options...)
}

// CheckPublic scores a domain without a key, to try the service. The service allows few such calls an hour.
func (c *Client) CheckPublic(ctx context.Context, domain string) (Result, error) {
	return call[Result](ctx, c, http.MethodPost, "/api/check-public", Request{Domain: domain})
}

// CheckBatch scores several entities. The results are in the order of the requests.
func (c *Client) CheckBatch(ctx context.Context, requests []Request, options ...Option) ([]BatchResult, error) {
	type batch struct {
		Checks []Request `json:"checks"`
	}
	type results struct {
		Results []BatchResult `json:"results"`
	}
	a, err := call[results](ctx, c, http.MethodPost, "/api/check/batch", batch{requests}, options...)
	if err == nil && len(a.Results) != len(requests) {
		err = fmt.Errorf("the batch has %d results for %d requests", len(a.Results), len(requests))
	}
	return a.Results, err
}

// GiveFeedback labels a check of the account. Another report on the same check replaces the earlier one.
func (c *Client) GiveFeedback(ctx context.Context, feedback Feedback) error {
	_, err := c.send(ctx, http.MethodPost, "/api/feedback", feedback)
	return err
}

// RevokeFeedback takes back the account's feedback on a check.
func (c *Client) RevokeFeedback(ctx context.Context, ref string) error {
	_, err := c.send(ctx, http.MethodDelete, "/api/feedback?ref="+url.QueryEscape(ref), nil)
	return err
}

// Receipt returns the receipt of a check, as JSON to store. It proves the check's record to others. Receipt waits for
// the proof, which the service has within seconds. If that exceeds Timeout, the receipt has the member "proof": null.
func (c *Client) Receipt(ctx context.Context, ref string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	path := "/api/receipts/" + url.PathEscape(ref)
	a, err := c.send(ctx, http.MethodGet, path, nil)
	for attempt := 1; err == nil && a.retryAfter > 0 && attempt != c.Attempts && wait(ctx, a.retryAfter); attempt++ {
		proved, err := c.send(ctx, http.MethodGet, path, nil)
		if err != nil {
			break // the receipt without its proof is valid, too
		}
		a = proved
	}
	return a.body, err
}

// call sends a request and decodes the answer.
func call[T any](ctx context.Context, c *Client, method, path string, in any, options ...Option) (out T, err error) {
	a, err := c.send(ctx, method, path, in, options...)
	if err == nil {
		err = a.decode(&out)
	}
	return out, err
}

// answer is the answer to a request: 200 or 202.
type answer struct {
	status     int
	body       []byte
	retryAfter time.Duration
}

func (a answer) decode(out any) error {
	if err := json.Unmarshal(a.body, out); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	return nil
}

// send sends a request, and retries it with the same bytes and the same key if that can help (contract section 4.6).
func (c *Client) send(ctx context.Context, method, path string, in any, options ...Option) (a answer, err error) {
	made := sending{key: rand.Text()}
	for _, o := range options {
		o(&made)
	}
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return answer{}, fmt.Errorf("encoding the request: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err == nil && request.URL.Scheme != "https" && request.URL.Scheme != "http" {
		err = errors.New("the URL of the service does not begin with https:// or http://")
	}
	if err == nil && strings.ContainsFunc(c.key+made.key, unicode.IsControl) {
		err = errors.New("the API key or the Idempotency-Key has a control character")
	}
	if err != nil {
		return answer{}, err // no attempt can succeed
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", made.key)
	}
	lost := false // whether an earlier attempt may have taken effect: a 503 of the service says that it has not
	for attempt := 1; ; attempt++ {
		a, err = c.attempt(request)
		refused := (*Error)(nil)
		if errors.As(err, &refused) && lost && method == http.MethodDelete && refused.Status == http.StatusNotFound {
			return answer{}, nil // the earlier attempt removed it
		}
		lost = lost || refused == nil || refused.Status == 500 || refused.Status > 500 && refused.Code == ""
		if err == nil || attempt == c.Attempts || !retryable(err) || !wait(ctx, pause(attempt, err)) {
			return a, err
		}
	}
}

// attempt sends a request once. An answer other than 200 and 202 is an *Error.
func (c *Client) attempt(request *http.Request) (answer, error) {
	ctx, cancel := context.WithTimeout(request.Context(), c.AttemptTimeout)
	defer cancel()
	request = request.Clone(ctx)
	request.Body, _ = request.GetBody() // that of bytes does not fail
	response, err := c.HTTP.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	if s := response.StatusCode; s != http.StatusOK && s != http.StatusAccepted {
		return answer{}, newError(response, content)
	}
	return answer{response.StatusCode, content, retryAfter(response.Header)}, nil
}

func newError(response *http.Response, body []byte) *Error {
	var failure struct {
		Error   string    `json:"error"`
		Code    Code      `json:"code"`
		Field   string    `json:"field"`
		Ref     string    `json:"ref"`
		ResetAt time.Time `json:"reset_at"`
	}
	// A proxy's error need not be JSON; its status says enough.
	_ = json.Unmarshal(body, &failure)
	return &Error{
		Status: response.StatusCode, Code: failure.Code,
		Message: cmp.Or(failure.Error, http.StatusText(response.StatusCode)),
		Field:   failure.Field, Ref: failure.Ref, RequestID: response.Header.Get("X-Request-Id"),
		ResetAt: failure.ResetAt, RetryAfter: retryAfter(response.Header),
	}
}

func retryAfter(h http.Header) time.Duration {
	const most = 366 * 24 * 60 * 60
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(min(s, most)) * time.Second
}

// retryable reports whether a request may soon succeed if it is sent again: after too many requests, a server error or
// a lost answer. A 429 without a code comes from a proxy.
func retryable(err error) bool {
	var refused *Error
	return !errors.As(err, &refused) || refused.Status >= 500 || refused.Code == RateLimited ||
		refused.Status == http.StatusTooManyRequests && refused.Code == ""
}

// pause returns how long to wait after an attempt: at least as long as the answer asks for, or else longer after each
// attempt. A random part spreads the clients' retries.
func pause(attempt int, err error) time.Duration {
	var refused *Error
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		return refused.RetryAfter + mathrand.N(time.Second/2)
	}
	most := 200 * time.Millisecond << min(attempt-1, 3)
	return most/2 + mathrand.N(most/2)
}

// wait waits for d. It reports false at once if the call's time would end first.
func wait(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
