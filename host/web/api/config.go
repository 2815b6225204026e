package api

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/check"
)

// Checker scores entities and records the decisions; *check.Checker implements it. It returns soon after ctx ends.
type Checker interface {
	// Spent returns the next check's *check.QuotaError if the account's quota was used up a moment ago.
	Spent(caller check.Caller) error
	Check(ctx context.Context, req check.Request) (*check.Decision, error)
	CheckBatch(ctx context.Context, caller check.Caller, items []check.Item, once *check.Once) ([]check.Answer, error)
}

// Keys authenticates API keys.
type Keys interface {
	// Authenticate returns the caller that a key belongs to. It returns check.ErrUnauthorized for every invalid key,
	// whatever the reason. Any other error means that the key could not be verified.
	Authenticate(ctx context.Context, presented string) (check.Caller, error)
}

// KeyMemory is implemented by Keys that remember recent answers.
type KeyMemory interface {
	// Recall is Authenticate without waiting. known is false if Authenticate must be called to learn the answer; caller
	// is then the key's caller if the key was valid a moment ago.
	Recall(presented string) (caller check.Caller, known bool, err error)
	// Confirm verifies that a caller that may be remembered is still valid. It returns check.ErrUnauthorized if the key
	// ended meanwhile.
	Confirm(ctx context.Context, caller check.Caller) error
}

// Public limits the endpoint that needs no key.
type Public interface {
	// Take counts one use by the client. ok reports whether it was within the limit; if not, resetAt is when the client
	// can try again. It returns an *admission.RateError if too many clients use it. The client is a /32 (IPv4), a /64
	// (IPv6), or the zero Prefix if the connection has no IP address.
	Take(ctx context.Context, client netip.Prefix) (resetAt time.Time, ok bool, err error)
	// GiveBack uncounts the client's latest use.
	GiveBack(ctx context.Context, client netip.Prefix) error
	// Caller returns the caller of checks without a key.
	Caller() check.Caller
}

// Rates limits how often requests come. Refusals are of type *admission.RateError. Its methods do not wait and query no
// database.
type Rates interface {
	// TakeCheck counts a check with a key. A month's checks may come at once, up to a limit.
	TakeCheck(caller check.Caller) error
	// TakeKey counts another request with a key.
	TakeKey(caller check.Caller) error
	// TakeNetwork counts a look-up of a key for a client. A network's clients share one limit.
	TakeNetwork(client netip.Prefix) error
}

// Door decides whether the host accepts further checks; *admission.Gate implements it.
type Door interface {
	// Admits returns nil if the host would accept n checks of an account now, else admission.ErrBusy or
	// admission.ErrShare. The account "" is one without checks in progress.
	Admits(account string, n int) error
}

// Config configures a Server. The fields up to Receipts are required; the others have defaults.
type Config struct {
	Checker   Checker
	Keys      Keys
	Public    Public
	Events    Events
	Privacy   Privacy
	Decisions Decisions
	Explainer Explainer
	Feedback  Feedback
	Overrides Overrides
	AuditLog  AuditLog
	Receipts  Receipts

	Answers Answers // nil: an Idempotency-Key is ignored
	Door    Door    // refuses checks before they are read; nil: all are read
	Rates   Rates   // nil: no limits
	// Answered is called for each response with its route, status and duration. The route is an endpoint's path,
	// RoutePages, RouteOther, RouteTest or RouteLimited. It must not wait; nil: ignored.
	Answered func(route string, status int, took time.Duration)
	Refused  func(reason string) // called for each response with 503; nil: ignored
	// Used is called for each permitted request with a key, unless the ledger records the key's use with a check. It
	// must not wait; nil: ignored.
	Used func(check.Caller)
	// Ready returns the reason why the host cannot answer, for the log only, or nil. It must not wait. nil: always
	// ready.
	Ready func() error
	// Outage reports whether an error is due to an outage of the database. Requests that fail with one get 503. It may
	// be nil.
	Outage func(error) bool
	// ProviderEvent handles an event of the payment provider, given its body and its Stripe-Signature header. It
	// returns an *entity.InvalidError if the signature is wrong. nil: 404.
	ProviderEvent func(ctx context.Context, body []byte, signature string) error
	// Pages serves paths that are not endpoints, after the head is vetted and within an endpoint's body limit. nil:
	// 404.
	Pages fasthttp.RequestHandler
	// PageError returns the text of the error page that Pages has responded with, or "". Clients that do not ask for
	// HTML get it as JSON. nil: "".
	PageError func(*fasthttp.RequestCtx) string

	TLS            *tls.Config    // nil: plain HTTP
	HTTPS          bool           // customers reach the host by https, and browsers must not use http
	TrustedProxies []netip.Prefix // peers whose X-Forwarded-For is trusted, and which may open all connections
	Logger         *slog.Logger   // nil: no logs
	Version        string         // returned by GET /healthz
	Now            func() time.Time

	// Zero values mean the defaults named here.
	Timeout        time.Duration // for the work of one request; 5 s
	CheckTimeout   time.Duration // the same for a single check, until its record is sent to the database; 900 ms
	ReadTimeout    time.Duration // from a request's first byte to its last, and until a new connection's first; 5 s
	WriteTimeout   time.Duration // for writing one response; 10 s
	IdleTimeout    time.Duration // between two requests on one connection; 30 s
	MaxConnections int           // concurrent, including idle ones, shared by networks, before 503; 8192
	MaxHandshakes  int           // of TLS in progress, shared by networks, before connections are closed; 1024

	// Slots that callers share (see check.Caller.Share). A caller with more than its share gets 503.
	MaxLookups int // requests whose key is looked up, or whose use is counted without a key, by network; 64
	MaxBatches int // batches; 16
	MaxPrivacy int // privacy requests, which can delay the audit chain; 4
	MaxEvents  int // requests for events, feedback, overrides, usage and receipts; 16
	// Downloads are for exports, which last as long as a client reads; nil: 16 of them.
	Downloads *admission.Shares
}
