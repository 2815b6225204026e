// Package api serves the JSON endpoints over HTTP/1.1 (docs/contract.md, openapi.json). All requests of clients arrive
// here, so this package refuses the malformed, oversized and slow ones before they reach the rest of the host. The
// logic of the endpoints is in other packages: checks in package check, privacy requests in package privacy.
package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/singleflight"

	"assay/host/access/admission"
	"assay/host/access/apikey"
	"assay/host/check"
)

// Checker scores entities and records the decisions; *check.Checker implements it. It returns soon after ctx ends.
type Checker interface {
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
	// Recall is Authenticate without a wait. known is false if Authenticate must be called to learn the answer.
	Recall(presented string) (caller check.Caller, known bool, err error)
}

// Public limits the endpoint that needs no key.
type Public interface {
	// Take counts one use by the client. ok reports whether it was within the limit; if not, resetAt is when the client
	// can try again. It returns an *admission.RateError if too many clients use it. The client is a /32 (IPv4), a /64
	// (IPv6), or the zero Prefix if the connection has no IP address.
	Take(ctx context.Context, client netip.Prefix) (resetAt time.Time, ok bool, err error)
	// Caller returns the caller of checks without a key.
	Caller() check.Caller
}

// Rates limits how often requests come. Refusals are of type *admission.RateError. Its methods do not wait and query no
// database.
type Rates interface {
	// TakeKey counts a request with a key.
	TakeKey(caller check.Caller) error
	// TakeNetwork counts a look-up of a key for a client, whose network has one limit.
	TakeNetwork(client netip.Prefix) error
}

// Door decides whether the host accepts further checks; *admission.Gate implements it.
type Door interface {
	// Admits returns nil if the host would accept n checks of an account now, else admission.ErrBusy or
	// admission.ErrShare. The account "" means one without checks in progress.
	Admits(account string, n int) error
}

// Config configures a Server. Checker, Keys and Public are required; the other fields have defaults.
type Config struct {
	Checker Checker
	Keys    Keys
	Public  Public
	Answers Answers // nil: an Idempotency-Key is ignored
	Door    Door    // refuses checks before they are read; nil: all are read
	Rates   Rates   // nil: no limits
	// Answered is called for each response with its route, status and duration. The route is an endpoint's path,
	// RoutePages, RouteOther or RouteTest. It must not wait; nil: ignored.
	Answered func(route string, status int, took time.Duration)
	Refused  func(reason string) // called for each response with 503; nil: ignored
	Events   Events              // nil: GET /api/events is 404
	Privacy  Privacy             // nil: paths below /gdpr/ are 404
	// Used is called for each request that a key may make, unless the ledger notes the key's use because it records a
	// check. It must not wait; nil: ignored.
	Used func(check.Caller)
	// Decisions reads recorded checks and has them reviewed, and Explainer explains them; nil: 404.
	Decisions Decisions
	Explainer Explainer
	// Feedback takes reports on checks; nil: 404.
	Feedback Feedback
	// Overrides keeps verdicts set in advance; nil: 404.
	Overrides Overrides
	Receipts  Receipts // nil: 404
	// AuditLog has the public files of the audit log; nil: 404.
	AuditLog AuditLog
	// Ready returns the reason why the host cannot answer, for the log only, or nil. It must not wait. nil: always
	// ready.
	Ready func() error
	// Outage reports whether an error is due to an outage of the database. Requests that fail with one get 503. It may
	// be nil.
	Outage func(error) bool
	// ProviderEvent handles an event of the payment provider, given its body and its Stripe-Signature header. It
	// returns an *entity.InvalidError if the signature is wrong. nil: 404.
	ProviderEvent func(ctx context.Context, body []byte, signature string) error
	// Pages serves paths that are not endpoints, after the head is vetted and within an endpoint's body limit. If it
	// responds 404, clients other than browsers get an endpoint's 404 instead. nil: 404.
	Pages fasthttp.RequestHandler

	TLS            *tls.Config    // nil: plain HTTP
	HTTPS          bool           // customers reach the host by https, and browsers must not use http
	TrustedProxies []netip.Prefix // peers whose X-Forwarded-For is trusted
	Logger         *slog.Logger   // nil: no logs
	Version        string         // returned by GET /healthz
	Now            func() time.Time

	// Zero values mean the defaults named here.
	Timeout        time.Duration // for the work of one request; 5 s
	CheckTimeout   time.Duration // the same for a single check, until its record is sent to the database; 900 ms
	ReadTimeout    time.Duration // from a request's first byte to its last, and until a new connection's first; 5 s
	WriteTimeout   time.Duration // for writing one response; 10 s
	IdleTimeout    time.Duration // between two requests on one connection; 30 s
	MaxConnections int           // concurrent connections, including idle ones, before new ones get 503; 8192
	MaxHandshakes  int           // of TLS in progress, shared by address blocks, before connections are closed; 1024

	// Slots that callers share. A caller with more than its share gets 503.
	MaxLookups int // requests whose key is looked up, or whose use is counted without a key, by address block; 64
	MaxBatches int // batches, by account; 16
	MaxPrivacy int // privacy requests, which can delay the audit chain, by account; 4
	// EventSlots are for requests for events, feedback, overrides and exports, by account; nil: 16 of them.
	EventSlots *admission.Shares
}

// Routes of requests that are not for an endpoint, or do not count as its load.
const (
	RoutePages = "pages"
	RouteOther = "other" // unknown paths, and requests that could not be read
	RouteTest  = "test"  // with test keys
)

// Limits on one request in bytes. The limit on the head includes the request line.
const (
	maxBody      = 16 << 10
	maxBatchBody = 128 << 10
	maxEvent     = 512 << 10 // of the payment provider
	maxHead      = 8 << 10
)

const maxHeaders = 100

// Server serves HTTP requests. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	app      *fiber.App
	http     *fasthttp.Server
	routed   fasthttp.RequestHandler // the app's routes, without what serve adds
	allow    map[string]string       // Allow header by path
	paths    map[string]string       // the paths of allow, each by itself
	lookups  *admission.Shares
	recall   KeyMemory          // nil: keys are always looked up
	presents singleflight.Group // look-ups of keys in progress, by key
	batches  *admission.Shares
	privacy  *admission.Shares
	events   *admission.Shares
	// keptLookups are slots for look-ups of kept answers, which no other limit on checks covers.
	keptLookups *admission.Shares

	all      context.Context    // parent of the contexts of all requests
	stopWork context.CancelFunc // ends all
	draining atomic.Bool
	refusals refusals
	// forwarded is when a request last arrived through a proxy that is not trusted, in Unix seconds.
	forwarded atomic.Int64
	noticed   sync.Once    // the log says so
	underWay  atomic.Int64 // requests that have been read and not answered
	refused   atomic.Int64 // connections beyond the limit
	overflow  sparsely     // of log lines about these
	shaky     sparsely     // of log lines about handshakes

	mu       sync.Mutex
	listener *listener // in use by Serve
	closed   bool      // by Shutdown
}

// New returns a server that is not listening yet.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, lookups: admission.NewShares(cfg.MaxLookups), batches: admission.NewShares(cfg.MaxBatches),
		privacy: admission.NewShares(cfg.MaxPrivacy), events: cfg.EventSlots,
		keptLookups: admission.NewShares(maxKeptLookups),
	}
	s.refusals.log, s.refusals.kinds = cfg.Logger, map[refusalKind]*suppressed{}
	s.recall, _ = cfg.Keys.(KeyMemory)
	// Not derived from fiber's context, which has no deadline and is reused for the next request.
	s.all, s.stopWork = context.WithCancel(context.Background())
	s.app = fiber.New(fiber.Config{
		BodyLimit:                    maxBody,
		ReadBufferSize:               maxHead,
		ReadTimeout:                  cfg.ReadTimeout,
		WriteTimeout:                 cfg.WriteTimeout,
		IdleTimeout:                  cfg.IdleTimeout,
		Concurrency:                  cfg.MaxConnections + lingerSlack,
		Immutable:                    true,
		StrictRouting:                true,
		CaseSensitive:                true,
		DisablePreParseMultipartForm: true,
		DisableStartupMessage:        true,
		ErrorHandler:                 func(c *fiber.Ctx, err error) error { s.fail(c.Context(), err); return nil },
	})
	s.route()
	s.routed = s.app.Handler()
	s.http = s.app.Server()
	s.http.Handler = s.serve
	s.http.ErrorHandler = s.refuseUnread
	s.http.HeaderReceived = headReceived
	// fasthttp's own messages quote request heads, including keys. fiber already discards its log.
	s.http.SecureErrorLogMessage = true
	return s
}

// noKey is the scope of endpoints that take no key. A handler there that asks for the caller refuses every key.
const noKey apikey.Scope = ""

// route registers the endpoints with the scope that a key needs for each. fiber registers HEAD together with GET.
func (s *Server) route() {
	s.allow = map[string]string{}
	post := func(path string, scope apikey.Scope, h fiber.Handler) {
		s.app.Post(path, scoped(scope, h))
		s.allow[path] = strings.TrimPrefix(s.allow[path]+", POST", ", ")
	}
	get := func(path string, scope apikey.Scope, h fiber.Handler) {
		s.app.Get(path, scoped(scope, h))
		s.allow[path] = "GET, HEAD"
	}
	post("/api/check", apikey.ScopeCheck, s.check)
	post(batchPath, apikey.ScopeBatch, s.checkBatch)
	post("/api/check-public", noKey, s.checkPublic)
	post(feedbackPath, apikey.ScopeFeedback, s.giveFeedback)
	s.app.Delete(feedbackPath, scoped(apikey.ScopeFeedback, s.revokeFeedback))
	s.allow[feedbackPath] = "DELETE, POST"
	post(overridesPath, apikey.ScopeOverrides, s.addOverride)
	get(overridesPath, apikey.ScopeOverrides, s.listOverrides)
	s.app.Delete(overridesPath, scoped(apikey.ScopeOverrides, s.removeOverride))
	s.allow[overridesPath] = "DELETE, GET, HEAD, POST"
	post(providerPath, noKey, s.providerEvent)
	get("/api/events", apikey.ScopeEvents, s.listEvents)
	get(exportPath, apikey.ScopePrivacy, s.export)
	post(exportPath, apikey.ScopePrivacy, s.exportPosted)
	post(erasePath, apikey.ScopePrivacy, s.erase)
	post(subjectPath, apikey.ScopePrivacy, s.subject)
	post(explainPath, apikey.ScopePrivacy, s.explain)
	get(reviewPath, apikey.ScopePrivacy, s.showReview)
	post(reviewPath, apikey.ScopePrivacy, s.askReview)
	post(searchPath, apikey.ScopeEvents, s.searchChecks)
	get(exportChecksPath, apikey.ScopeEvents, s.exportChecks)
	get(usagePath, apikey.ScopeEvents, s.showUsage)
	s.app.Get(checksPrefix+":ref", scoped(apikey.ScopeEvents, s.showCheck))
	s.allow[checkRefPath] = "GET, HEAD"
	s.app.Get(receiptsPrefix+":ref", scoped(apikey.ScopeEvents, s.showReceipt))
	s.allow[receiptPath] = "GET, HEAD"
	for path, pattern := range map[string]string{
		requestPath: requestsPrefix + ":id", requestDataPath: requestsPrefix + ":id" + requestData,
	} {
		s.app.Get(pattern, scoped(apikey.ScopePrivacy, s.showRequest))
		s.allow[path] = "GET, HEAD"
	}
	get(checkpointPath, noKey, s.checkpoint)
	s.app.Get(auditPrefix+":chain/*", scoped(noKey, s.chainFile))
	s.allow[auditFilePath] = "GET, HEAD"
	get("/openapi.json", noKey, s.openAPI)
	get("/healthz", noKey, s.health)
	get("/readyz", noKey, s.ready)
	s.paths = map[string]string{}
	for path := range s.allow {
		if !strings.Contains(path, "{") {
			s.paths[path] = path
		}
	}
}

// Serve accepts connections on l until Shutdown, and then returns nil. It closes l. It must not be called concurrently.
func (s *Server) Serve(l net.Listener) error {
	bounded := newListener(l, s.cfg.MaxConnections, s.refuseConnection)
	if s.cfg.TLS != nil {
		bounded.secure = &secure{s.cfg.TLS, s.cfg.ReadTimeout, admission.NewShares(s.cfg.MaxHandshakes),
			s.handshakeFailed}
	}
	s.mu.Lock()
	s.listener = bounded
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return bounded.Close()
	}
	return s.http.Serve(bounded)
}

// Drain announces Shutdown: the server is no longer ready, and each response asks the client to close its connection.
// Apart from that, open and new connections are served as before. So load balancers and pools of connections go
// elsewhere before a request can be lost.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown stops accepting connections, closes idle ones at once and the others after their response, and waits for
// them. A connection that has not sent anything yet is closed after up to 5 s. If ctx ends first, Shutdown cancels the
// remaining work and returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	s.closed = true
	if s.listener != nil {
		_ = s.listener.Close() // fasthttp may not know the listener yet
	}
	s.mu.Unlock()
	err := s.http.ShutdownWithContext(ctx)
	s.stopWork()
	s.refusals.close()
	return err
}

// Draining reports whether the server is shutting down.
func (s *Server) Draining() bool { return s.draining.Load() }

// serve handles one request that has been read completely.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	x := s.begin(ctx)
	defer func() {
		if p := recover(); p != nil {
			s.fail(ctx, newPanic(p))
		}
		s.finish(ctx, x)
	}()
	x.route = s.knownPath(ctx)
	if c, ok := ctx.Conn().(*conn); ok && c.malformed != nil {
		s.refuse(ctx, errMalformed)
		return
	}
	if err := vetHead(&ctx.Request.Header); err != nil {
		s.refuse(ctx, err)
		return
	}
	switch known := methodOf(ctx) != ""; {
	case x.route == "" && known && s.cfg.Pages != nil:
		x.label = RoutePages
		s.cfg.Pages(ctx)
		if ctx.Response.StatusCode() == fasthttp.StatusNotFound {
			x.label = RouteOther
			if !wantsPage(&ctx.Request.Header) {
				s.fail(ctx, errNotFound) // most likely a misspelt endpoint
			}
		}
	case known:
		s.routed(ctx)
	case x.route == "": // fiber would respond to unknown methods in plain text
		s.fail(ctx, errNotFound)
	default:
		s.fail(ctx, errMethod)
	}
}

// wantsPage reports whether a request comes from a browser or from a script in a page.
func wantsPage(h *fasthttp.RequestHeader) bool {
	return bytes.Contains(bytes.ToLower(h.Peek(fasthttp.HeaderAccept)), []byte("text/html")) ||
		len(h.Peek("HX-Request")) > 0
}

// finish sets the headers that every response has, and counts and logs the request.
func (s *Server) finish(ctx *fasthttp.RequestCtx, x *exchange) {
	h := &ctx.Response.Header
	h.Set(requestHeader, x.id)
	h.Set("X-Content-Type-Options", "nosniff")
	if s.cfg.HTTPS {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	if len(h.Peek("Cache-Control")) == 0 {
		h.Set("Cache-Control", "no-store")
	}
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	took := time.Since(x.began)
	if x.timing != nil {
		h.Set("Server-Timing", x.timing.header(took))
	}
	s.underWay.Add(-1)
	route := cmp.Or(x.route, x.label, RouteOther)
	if x.test {
		route = RouteTest
	}
	s.cfg.Answered(route, ctx.Response.StatusCode(), took)
	s.log(ctx, x, took)
}

// Load returns the requests that are being answered, the open connections, and the number of connections that were
// refused because too many were open.
func (s *Server) Load() (requests, connections, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		connections = int(s.listener.open.Load())
	}
	return int(s.underWay.Load()), connections, int(s.refused.Load())
}

// work returns the context of a request's work.
func (s *Server) work() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.all, s.cfg.Timeout)
}

// knownPath returns the endpoint of the request's path as the documentation writes it, or "" if there is none.
func (s *Server) knownPath(ctx *fasthttp.RequestCtx) string {
	path := string(ctx.URI().PathOriginal())
	if known := s.paths[path]; known != "" {
		return known
	}
	if ref, ok := strings.CutPrefix(path, checksPrefix); ok && ref != "" && !strings.Contains(ref, "/") {
		return checkRefPath
	}
	if ref, ok := strings.CutPrefix(path, receiptsPrefix); ok && ref != "" && !strings.Contains(ref, "/") {
		return receiptPath
	}
	if rest, ok := strings.CutPrefix(path, auditPrefix); ok && strings.Contains(rest, "/") {
		return auditFilePath
	}
	if id, ok := strings.CutPrefix(path, requestsPrefix); ok {
		known := requestPath
		if id, ok = strings.CutSuffix(id, requestData); ok {
			known = requestDataPath
		}
		if id != "" && !strings.Contains(id, "/") {
			return known
		}
	}
	return ""
}
