// Package api serves the JSON endpoints over HTTP/1.1. It is the only door to untrusted clients, so what is
// malformed, oversized or slow is refused here, before any of it reaches the rest of the host.
package api

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/check"
)

// Checker scores entities and records the decisions. Its errors are those of check.Checker. It returns soon after the
// context ends.
type Checker interface {
	Check(ctx context.Context, req check.Request) (*check.Decision, error)
	CheckBatch(ctx context.Context, caller check.Caller, items []check.Item) ([]check.Answer, error)
}

// Keys knows the API keys.
type Keys interface {
	// Authenticate returns who presented the key. It returns check.ErrUnauthorized for every key that may not be used,
	// whatever the reason; another error means that it could not be found out.
	Authenticate(ctx context.Context, presented string) (check.Caller, error)
}

// Public limits the endpoint that needs no key.
type Public interface {
	// Take counts one use by the client and says whether it was still within the limit, and when the limit starts anew.
	// The client is a /32 (IPv4) or /64 (IPv6), or the zero Prefix when the connection has no IP address.
	Take(ctx context.Context, client netip.Prefix) (resetAt time.Time, ok bool, err error)
	// Caller is on whose behalf checks without a key are made.
	Caller() check.Caller
}

// Problem is a reason not to be ready.
type Problem struct {
	Part string // shown to anybody, so one plain word: database, lineup
	Err  error  // for the log only
}

// Config is what a Server needs. Checker, Keys and Public are required; the rest has defaults.
type Config struct {
	Checker Checker
	Keys    Keys
	Public  Public
	Events  Events                              // nil: GET /api/events is 404
	Privacy Privacy                             // nil: what is below /gdpr/ is 404
	Ready   func(ctx context.Context) []Problem // nil: always ready
	// Degraded says what is amiss without keeping the host from answering, a sentence each; nil: nothing ever is.
	Degraded func() []string
	Metrics  http.Handler // serves GET /metrics; nil: 404
	// ProviderEvent takes an event of the payment provider, its body and its Stripe-Signature header. It returns an
	// *entity.InvalidError for one that is not the provider's. nil: 404.
	ProviderEvent func(ctx context.Context, body []byte, signature string) error
	// Pages answers requests for what is no endpoint here, with heads vetted and bodies bounded as an endpoint's; nil:
	// 404. Its own 404 is for browsers only: all others get an endpoint's.
	Pages fasthttp.RequestHandler

	TrustedProxies []netip.Prefix // peers whose X-Forwarded-For is believed
	Logger         *slog.Logger   // nil: silent
	Version        string         // told by GET /healthz
	Now            func() time.Time

	Timeout        time.Duration // for the work of one request; 5 s
	ReadTimeout    time.Duration // from a request's first byte to its last, and for a new connection's first byte; 5 s
	WriteTimeout   time.Duration // for writing one response; 10 s
	IdleTimeout    time.Duration // between two requests of one connection; 30 s
	MaxConnections int           // open at once, idle ones too, before new ones get 503; 8192
	MaxChecks      int           // requests for checks under way at once before further ones get 503; 512
	MaxBatches     int           // of these, batches; 16
	MaxPrivates    int           // of these, privacy requests, each of which may keep the audit chain waiting; 4
}

// Limits on one request. The head's also bounds the request line.
const (
	maxBody      = 16 << 10  // bytes
	maxBatchBody = 128 << 10 // bytes, of a batch
	maxEvent     = 512 << 10 // bytes, of a payment provider's event
	maxHead      = 8 << 10   // bytes
	maxHeaders   = 100
)

// Server answers HTTP requests. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	app      *fiber.App
	http     *fasthttp.Server
	routed   fasthttp.RequestHandler // the app's routes, without what serve adds
	allow    map[string]string       // path -> methods for the Allow header
	checks   chan struct{}           // holds one element per request for checks under way
	batches  chan struct{}           // likewise, of batches
	privates chan struct{}           // likewise, of privacy requests
	work     func() (context.Context, context.CancelFunc)
	stopWork context.CancelFunc // ends all that work began
	draining atomic.Bool
	overflow atomic.Int64 // when refusing connections was last logged, Unix seconds

	mu       sync.Mutex
	listener *listener // what Serve accepts from
}

// New returns a server that listens nowhere yet.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, checks: make(chan struct{}, cfg.MaxChecks), batches: make(chan struct{}, cfg.MaxBatches),
		privates: make(chan struct{}, cfg.MaxPrivates),
	}
	all, stop := context.WithCancel(context.Background())
	s.stopWork = stop
	// Not derived from fiber's context, which has no deadline and is used again for the next request.
	s.work = func() (context.Context, context.CancelFunc) { return context.WithTimeout(all, cfg.Timeout) }
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
	// fasthttp's own messages quote request heads, keys included; fiber already discards its log.
	s.http.SecureErrorLogMessage = true
	return s
}

func (cfg *Config) setDefaults() {
	if cfg.Ready == nil {
		cfg.Ready = func(context.Context) []Problem { return nil }
	}
	if cfg.Degraded == nil {
		cfg.Degraded = func() []string { return nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	for d, preset := range map[*time.Duration]time.Duration{
		&cfg.Timeout:      5 * time.Second,
		&cfg.ReadTimeout:  5 * time.Second,
		&cfg.WriteTimeout: 10 * time.Second,
		&cfg.IdleTimeout:  30 * time.Second,
	} {
		if *d <= 0 {
			*d = preset
		}
	}
	if cfg.MaxConnections <= 0 {
		cfg.MaxConnections = 8192
	}
	if cfg.MaxChecks <= 0 {
		cfg.MaxChecks = 512
	}
	if cfg.MaxBatches <= 0 {
		cfg.MaxBatches = 16
	}
	if cfg.MaxPrivates <= 0 {
		cfg.MaxPrivates = 4
	}
	trusted := make([]netip.Prefix, len(cfg.TrustedProxies))
	for i, p := range cfg.TrustedProxies {
		trusted[i] = unmapPrefix(p)
	}
	cfg.TrustedProxies = trusted
}

// route registers the endpoints. GET includes HEAD, as fiber registers both.
func (s *Server) route() {
	s.allow = map[string]string{}
	post := func(path string, h fiber.Handler) {
		s.app.Post(path, h)
		s.allow[path] = strings.TrimPrefix(s.allow[path]+", POST", ", ")
	}
	get := func(path string, h fiber.Handler) {
		s.app.Get(path, h)
		s.allow[path] = "GET, HEAD"
	}
	post("/api/check", s.check)
	post(batchPath, s.checkBatch)
	post("/api/check-public", s.checkPublic)
	post(providerPath, s.providerEvent)
	get("/api/events", s.events)
	get(exportPath, s.export)
	post(exportPath, s.exportPosted)
	post(erasePath, s.erase)
	post(subjectPath, s.subject)
	get("/openapi.json", s.openAPI)
	get("/healthz", s.health)
	get("/readyz", s.ready)
	get("/metrics", s.metrics())
}

// Serve accepts connections on l until Shutdown, and then returns nil. It closes l. Listeners are served one at a
// time.
func (s *Server) Serve(l net.Listener) error {
	bounded := newListener(l, s.cfg.MaxConnections, s.refuseConnection)
	s.mu.Lock()
	s.listener = bounded
	late := s.draining.Load()
	s.mu.Unlock()
	if late {
		return bounded.Close()
	}
	return s.http.Serve(bounded)
}

// Shutdown stops accepting connections, lets the requests under way be answered, and closes each connection after its
// answer, idle ones at once; one that has sent nothing yet is given up to 5 s. When the context ends first, the work
// still under way is cancelled, and the context's error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	if s.listener != nil {
		_ = s.listener.Close() // also when Serve has not got as far as telling fasthttp of it
	}
	s.mu.Unlock()
	err := s.http.ShutdownWithContext(ctx)
	s.stopWork()
	return err
}

// serve answers one request whose bytes have all been read.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	x := begin(ctx)
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
	switch known := knownMethod(string(ctx.Method())); {
	case x.route == "" && known && s.cfg.Pages != nil:
		s.cfg.Pages(ctx)
		if ctx.Response.StatusCode() == fasthttp.StatusNotFound && !wantsPage(&ctx.Request.Header) {
			s.fail(ctx, errNotFound) // most likely an endpoint, misspelt
		}
	case known:
		s.routed(ctx)
	case x.route == "": // fiber would answer unknown methods with plain text
		s.fail(ctx, errNotFound)
	default:
		s.fail(ctx, errMethod)
	}
}

// wantsPage says whether a request comes from a browser or from a script of a page.
func wantsPage(h *fasthttp.RequestHeader) bool {
	return bytes.Contains(bytes.ToLower(h.Peek(fasthttp.HeaderAccept)), []byte("text/html")) ||
		len(h.Peek("HX-Request")) > 0
}

// finish sets what every response has, and logs it.
func (s *Server) finish(ctx *fasthttp.RequestCtx, x *exchange) {
	h := &ctx.Response.Header
	h.Set("X-Content-Type-Options", "nosniff")
	if len(h.Peek("Cache-Control")) == 0 {
		h.Set("Cache-Control", "no-store")
	}
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	s.log(ctx, x)
}

// knownPath returns the path of the request if it is that of an endpoint, else "".
func (s *Server) knownPath(ctx *fasthttp.RequestCtx) string {
	path := string(ctx.URI().PathOriginal())
	if _, ok := s.allow[path]; ok {
		return path
	}
	return ""
}
