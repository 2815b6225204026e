package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/web/refusal"
)

var (
	errMalformed = refuse(fasthttp.StatusBadRequest, refusal.Request, "the request is not well-formed HTTP/1.1")
	errNotFound  = refuse(fasthttp.StatusNotFound, refusal.NotFound, "there is no such endpoint")
	errMethod    = refuse(fasthttp.StatusMethodNotAllowed, refusal.Method,
		"the endpoint does not support this method; see the Allow header")
	errSlow      = refuse(fasthttp.StatusRequestTimeout, refusal.Slow, "the request did not arrive in time")
	errMediaType = refuse(fasthttp.StatusUnsupportedMediaType, refusal.Media,
		"the body must be JSON in UTF-8, sent as Content-Type: application/json")
	errEncoding = refuse(fasthttp.StatusUnsupportedMediaType, refusal.Media,
		"the body must not have a Content-Encoding")
	errHeadTooLarge = refuse(fasthttp.StatusRequestHeaderFieldsTooLarge, refusal.Head,
		fmt.Sprintf("the request line and headers exceed %d bytes or %d headers", maxHead, maxHeaders))
	errReceipt = refuse(fasthttp.StatusServiceUnavailable, refusal.Unavailable,
		"the receipt cannot be read at the moment; the check is counted once, send the same request again")
	errVersion = refuse(fasthttp.StatusBadRequest, refusal.Request, "only HTTP/1.1 and HTTP/1.0 are supported")
)

func refuse(status int, code, text string) *refusal.Refusal {
	return &refusal.Refusal{Status: status, Code: code, Text: text}
}

// tooLarge returns the error for a body of more than limit bytes.
func tooLarge(limit int) error {
	return refuse(fasthttp.StatusRequestEntityTooLarge, refusal.TooLarge,
		fmt.Sprintf("the body exceeds %d bytes", limit))
}

// invalidBody is the reason why a body as a whole is invalid. Errors of single fields are of type entity.InvalidError.
type invalidBody string

func (e invalidBody) Error() string { return string(e) }

// hourlyError means that a client without a key has used up its hourly limit.
type hourlyError struct {
	resetAt time.Time
	shared  bool // with the other clients of a proxy
}

func (e *hourlyError) Error() string {
	text := "the hourly limit of checks without a key is used up; it resets at " + stamp(e.resetAt)
	if e.shared {
		text += sharedLimit
	}
	return text
}

// sharedLimit follows the text of a limit that counts all clients of a proxy as one. Only the operator can change that.
const sharedLimit = "; all clients share this limit, because the service does not know the proxy in front of it " +
	"(setting ASSAY_TRUSTED_PROXIES)"

// tooFast is a rate limit's refusal of a check. Only the quota answers checks with 429, so that a client that gets 429
// need not try again before the quota is reset.
type tooFast struct{ *admission.RateError }

func (e tooFast) Unwrap() error { return e.RateError }

// notReady means that the host should receive no requests.
type notReady struct{ err error } // why, for the log

func (*notReady) Error() string   { return "not ready" }
func (e *notReady) Unwrap() error { return e.err }

// panicked is a recovered panic of a handler.
type panicked struct {
	text  string
	stack []byte
}

func newPanic(p any) *panicked {
	const longest = 256
	text := fmt.Sprint(p)
	return &panicked{text: text[:min(len(text), longest)], stack: debug.Stack()}
}

func (e *panicked) Error() string { return "panic: " + e.text }

// failure is the body of every error response (contract section 7). Empty fields are omitted.
type failure struct {
	Error   string `json:"error"`
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"`
	Ref     string `json:"ref,omitempty"`
	ResetAt string `json:"reset_at,omitempty"`
}

// refused is a failure as the whole body of a response; batches contain failures too.
type refused struct {
	failure
	RequestID string `json:"request_id,omitempty"`
}

// answerTo returns the status and body for an error of a JSON endpoint. An error that is not a refusal is internal:
// the client does not see its text.
func answerTo(err error) (status int, body failure) {
	var (
		routing *fiber.Error
		body400 invalidBody
		hourly  *hourlyError
		fast    tooFast
		unready *notReady
	)
	r := refusal.Of(err)
	switch {
	case errors.As(err, &routing) && routing.Code == fasthttp.StatusNotFound:
		r = errNotFound
	case errors.As(err, &routing) && routing.Code == fasthttp.StatusMethodNotAllowed:
		r = errMethod
	case errors.As(err, &body400):
		r = refuse(fasthttp.StatusBadRequest, refusal.Body, body400.Error())
	case errors.As(err, &hourly):
		r = refuse(fasthttp.StatusTooManyRequests, refusal.Hourly, hourly.Error())
		r.ResetAt = hourly.resetAt
	case errors.As(err, &fast):
		r = refuse(fasthttp.StatusServiceUnavailable, refusal.Rate, fast.Error())
	case errors.As(err, &unready):
		r = refuse(fasthttp.StatusServiceUnavailable, refusal.NotReady, unready.Error())
	case r == nil:
		return fasthttp.StatusInternalServerError, internal(err)
	}
	body = failure{Error: r.Text, Code: r.Code, Field: r.Field}
	if !r.ResetAt.IsZero() {
		body.ResetAt = stamp(r.ResetAt)
	}
	return r.Status, body
}

// internal returns the body for an error that no client caused.
func internal(err error) failure {
	ref := check.NewRef()
	if inside, ok := errors.AsType[*check.InternalError](err); ok {
		ref = cmp.Or(inside.Ref, ref)
	}
	if errors.As(err, new(*check.DoubtError)) {
		return failure{Code: refusal.Uncertain, Ref: ref,
			Error: "the request may have taken effect, in whole or in part; send it again to be sure"}
	}
	return failure{Error: "an internal error occurred; quote the ref when you contact support", Code: refusal.Internal,
		Ref: ref}
}

// reasonRate is the reason for refusing a client that exceeds its rate limit, even if the host is idle.
const reasonRate = "rate"

// refusalReason returns the metric label of an error that gets 503.
func refusalReason(err error) string {
	var missing *check.UnavailableError
	switch {
	case errors.As(err, new(tooFast)):
		return reasonRate
	case errors.Is(err, admission.ErrBusy):
		return "door"
	case errors.Is(err, admission.ErrShare):
		return "share"
	case errors.As(err, &missing):
		return missing.Reason()
	}
	return "not ready"
}

// fail replaces the response with the one for err, and keeps err for the access log.
func (s *Server) fail(ctx *fasthttp.RequestCtx, err error) {
	err = s.withOutage(err)
	status, body := answerTo(err)
	x := current(ctx)
	ctx.Response.Reset()
	h := &ctx.Response.Header
	switch {
	case status == fasthttp.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer") // RFC 6750 section 3
	case status == fasthttp.StatusMethodNotAllowed:
		h.Set("Allow", s.allow[s.knownPath(ctx)])
	case status == fasthttp.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
		if reason := refusalReason(err); reason != reasonRate && !errors.Is(err, errDraining) && (x == nil || !x.test) {
			s.cfg.Refused(reason)
		}
	}
	s.explainLimit(h, err)
	answer := refused{failure: body}
	if x != nil {
		answer.RequestID = x.id
	}
	if rate, ok := errors.AsType[*admission.RateError](err); ok && rate.Rate.ByAddress && s.Shared(ctx) {
		answer.Error += sharedLimit
	}
	s.answer(ctx, status, answer)
	if x != nil {
		x.ref = body.Ref
		if status >= fasthttp.StatusInternalServerError {
			x.cause = err
		}
	}
}

// explainLimit sets Retry-After if a limit was exceeded. For a rate or the limit per hour, it also sets the fields of
// draft-ietf-httpapi-ratelimit-headers-10. Quotas are not reported in headers (contract section 7).
func (s *Server) explainLimit(h *fasthttp.ResponseHeader, err error) {
	var (
		quota  *check.QuotaError
		hourly *hourlyError
		rate   *admission.RateError
	)
	seconds := func(until time.Time) int { return max(1, int(math.Ceil(until.Sub(s.cfg.Now()).Seconds()))) }
	var wait int
	switch {
	case errors.As(err, &quota):
		wait = seconds(quota.ResetAt)
	case errors.As(err, &hourly):
		wait = seconds(hourly.resetAt)
		h.Set("RateLimit", fmt.Sprintf(`"hour";r=0;t=%d`, wait))
	case errors.As(err, &rate):
		wait = seconds(rate.Until)
		burst, window := rate.Rate.Bucket()
		h.Set("RateLimit-Policy", fmt.Sprintf(`%q;q=%d;w=%d`, rate.Rate.Name, burst, int(math.Ceil(window.Seconds()))))
		h.Set("RateLimit", fmt.Sprintf(`%q;r=0;t=%d`, rate.Rate.Name, wait))
	default:
		return
	}
	h.Set("Retry-After", strconv.Itoa(wait))
}

// withOutage returns err as a *check.UnavailableError if the database's outage caused it. An internal error of a check
// stays one, because the check may have been recorded.
func (s *Server) withOutage(err error) error {
	if errors.As(err, new(*check.InternalError)) || errors.As(err, new(*notReady)) ||
		errors.As(err, new(*check.UnavailableError)) || !s.cfg.Outage(err) {
		return err
	}
	return &check.UnavailableError{Part: "database", Err: err}
}

// answer writes v as JSON.
func (s *Server) answer(ctx *fasthttp.RequestCtx, status int, v any) { write(ctx, status, encode(v)) }

// encode returns v as JSON. Invalid UTF-8 in v is replaced.
func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding a response: %v", err)) // impossible: bodies consist of strings and numbers
	}
	return body
}

// write sets a response whose body nothing changes afterwards.
func write(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(body)
}

func stamp(t time.Time) string { return t.UTC().Format(check.TimeFormat) }
