// Package api serves the JSON endpoints over HTTP/1.1 (docs/contract.md, openapi.json). All requests of clients arrive
// here, so this package refuses the malformed, oversized and slow ones before they reach the rest of the host. The
// logic of the endpoints is in other packages: checks in package check, privacy requests in package privacy.
package api

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"assay/host/access/admission"
	"assay/host/web/refusal"
)

// Routes of requests that are not for an endpoint, or do not count as its load.
const (
	RoutePages   = "pages"
	RouteOther   = "other"   // unknown paths, and requests that could not be read
	RouteTest    = "test"    // with test keys
	RouteLimited = "limited" // checks refused because the caller exceeded a rate limit
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
	routed   fasthttp.RequestHandler   // the app's routes, without what serve adds
	allow    map[string]string         // Allow header by path
	patterns map[string]*regexp.Regexp // by path, of those with a placeholder
	lookups  *admission.Shares
	recall   KeyMemory          // nil: keys are always looked up
	excess   *admission.Shares  // connections beyond the limit that are refused through TLS, by network
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
	noticed   sync.Once      // the log reports the first such request
	underWay  atomic.Int64   // requests that have been read and not answered
	refused   atomic.Int64   // connections beyond the limit
	overflow  rate.Sometimes // of log lines about these: one a minute
	shaky     rate.Sometimes // of log lines about handshakes: one a minute

	mu       sync.Mutex
	listener *listener // in use by Serve
	closed   bool      // by Shutdown
}

// New returns a server that is not listening yet.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, lookups: admission.NewShares(cfg.MaxLookups), batches: admission.NewShares(cfg.MaxBatches),
		privacy: admission.NewShares(cfg.MaxPrivacy), events: admission.NewShares(cfg.MaxEvents),
		keptLookups: admission.NewShares(maxKeptLookups), excess: admission.NewShares(maxExcess),
		overflow: rate.Sometimes{Interval: time.Minute}, shaky: rate.Sometimes{Interval: time.Minute},
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

// Serve accepts connections on l until Shutdown, and then returns nil. It closes l. It must not be called concurrently.
func (s *Server) Serve(l net.Listener) error {
	bounded := newListener(l, s.cfg.MaxConnections, s.refuseConnection)
	bounded.proxies = s.cfg.TrustedProxies
	if s.cfg.TLS != nil {
		bounded.secure = &secure{s.cfg.TLS, s.cfg.ReadTimeout, admission.NewShares(s.cfg.MaxHandshakes),
			func(err error) { s.shaky.Do(func() { s.cfg.Logger.Warn("TLS handshakes fail", "error", err) }) }}
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
// Apart from that, open and new connections are served as before. So load balancers and connection pools switch to
// other hosts before a request can be lost.
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
		s.refusePage(ctx, x)
	case known:
		s.routed(ctx)
	case x.route == "": // fiber would respond to unknown methods in plain text
		s.fail(ctx, errNotFound)
	default:
		s.fail(ctx, errMethod)
	}
}

// refusePage turns an error page into an error of the API for clients that do not ask for a page.
func (s *Server) refusePage(ctx *fasthttp.RequestCtx, x *exchange) {
	status := ctx.Response.StatusCode()
	if status == fasthttp.StatusNotFound {
		x.label = RouteOther
	}
	if wantsPage(&ctx.Request.Header) {
		return
	}
	text := s.cfg.PageError(ctx)
	switch {
	case status == fasthttp.StatusNotFound:
		s.fail(ctx, errNotFound) // most likely a misspelt endpoint
	case text != "":
		s.fail(ctx, refuse(status, pageCodes[status], text))
	}
}

// pageCodes are the codes of error pages by status.
var pageCodes = map[int]string{
	fasthttp.StatusBadRequest: refusal.Request, fasthttp.StatusUnauthorized: refusal.Unauthorized,
	fasthttp.StatusForbidden: refusal.Forbidden, fasthttp.StatusMethodNotAllowed: refusal.Method,
	fasthttp.StatusConflict: refusal.Conflict, fasthttp.StatusGone: refusal.NotFound,
	fasthttp.StatusTooManyRequests:     refusal.Rate,
	fasthttp.StatusInternalServerError: refusal.Internal, fasthttp.StatusServiceUnavailable: refusal.Unavailable,
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
	switch {
	case x.test:
		route = RouteTest
	case refusalReason(x.cause) == reasonRate:
		route = RouteLimited
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
