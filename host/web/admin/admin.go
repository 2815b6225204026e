// Package admin serves what operators and their monitoring need over HTTP/1.1: metrics, profiles, readiness with its
// reasons, and the operator's pages. It has its own listener, on loopback by default, because all of this reveals more
// about a host than customers may know.
package admin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

// Problem is a reason why the host is not ready.
type Problem struct {
	Part   string // one word, such as "database" or "lineup"
	Reason string // the problem with it, such as "is read-only"; may be empty
	Err    error  // may be nil
}

// Error returns the problem as an error.
func (p Problem) Error() error {
	text := p.Part
	if p.Reason != "" {
		text += " (" + p.Reason + ")"
	}
	if p.Err != nil {
		return fmt.Errorf("%s: %w", text, p.Err)
	}
	return errors.New(text)
}

// Config configures a Server. Metrics and Logger are required. The functions must not wait; nil functions return
// nothing.
type Config struct {
	Metrics  http.Handler     // serves GET /metrics
	Operator http.Handler     // serves /operator and all paths below; nil: 404
	Ready    func() []Problem // problems that keep the host from answering checks
	Degraded func() []string  // a sentence for each problem that does not keep the host from answering
	Draining func() bool      // reports whether the host is about to stop
	Version  string           // returned by GET /healthz
	Logger   *slog.Logger
}

// The limits of the server. They also limit how much a malicious client can hold open.
const (
	headTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second // reading a request, and writing a response; plus the duration of a profile
	idleTimeout    = 2 * time.Minute  // more than the usual interval of scrapes
	maxHead        = 16 << 10
	maxBody        = 16 << 10
	maxConnections = 128
)

// Server serves the admin endpoints. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	http     *http.Server
	stopWork context.CancelFunc // ends the contexts of all requests
}

// New returns a server that is not listening yet.
func New(cfg Config) *Server {
	if cfg.Ready == nil {
		cfg.Ready = func() []Problem { return nil }
	}
	if cfg.Degraded == nil {
		cfg.Degraded = func() []string { return nil }
	}
	if cfg.Draining == nil {
		cfg.Draining = func() bool { return false }
	}
	all, stop := context.WithCancel(context.Background())
	s := &Server{cfg: cfg, stopWork: stop}
	s.http = &http.Server{
		ReadHeaderTimeout: headTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHead,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return all },
	}
	return s
}

// Serve accepts connections on l until Shutdown, and then returns nil. It closes l. It must be called at most once.
func (s *Server) Serve(l net.Listener) error {
	s.http.Handler = guard(s.routes(), IsLoopback(l.Addr()))
	err := s.http.Serve(netutil.LimitListener(l, maxConnections))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops the server. Profiles that are being recorded end now. If ctx ends before the last response is written,
// Shutdown closes its connection.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopWork()
	if err := s.http.Shutdown(ctx); err == nil || ctx.Err() == nil {
		return err
	}
	return s.http.Close()
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", s.cfg.Metrics)
	if s.cfg.Operator != nil {
		mux.Handle("/operator", s.cfg.Operator)
		mux.Handle("/operator/", s.cfg.Operator)
	}
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	profiles.HandleFunc("/debug/pprof/cmdline", program)
	mux.Handle("GET /debug/pprof/", fromHere(profiles))
	mux.Handle("POST /debug/pprof/symbol", fromHere(profiles))
	return mux
}

// guard refuses requests for other hosts if the server is reached through loopback only. Otherwise a web page whose
// name resolves to a loopback address could read everything with the browser of someone who works on this machine (DNS
// rebinding).
func guard(next http.Handler, loopback bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if loopback && !namesLoopback(r.Host) {
			http.Error(w, "this address is only for requests to localhost or a loopback address", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// namesLoopback reports whether a Host header names this machine's loopback interface. Clients that send no header,
// which HTTP/1.0 allows, are not browsers.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	addr, err := netip.ParseAddr(host)
	return host == "" || strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// fromHere refuses requests that pages of other sites make. They could not read a profile, but recording one takes
// processor time and blocks other recordings.
func fromHere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "open this address by itself, not from another site", http.StatusForbidden)
		}
	})
}

// program responds with the program's name. pprof's own handler adds the arguments, which may contain secrets.
func program(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(os.Args[0]))
}

//go:embed index.html
var index []byte

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, _ = w.Write(index)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok", "version": s.cfg.Version})
}

// readiness is the body of GET /readyz.
type readiness struct {
	Status   string    `json:"status"` // ready, not ready or draining
	Problems []problem `json:"problems,omitempty"`
	Degraded []string  `json:"degraded,omitempty"`
}

type problem struct {
	Part   string `json:"part"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
}

// ready responds like the customers' endpoint, and adds the reasons.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	r := readiness{Status: "ready", Degraded: s.cfg.Degraded()}
	for _, p := range s.cfg.Ready() {
		reason := problem{Part: p.Part, Reason: p.Reason}
		if p.Err != nil {
			reason.Error = p.Err.Error()
		}
		r.Status, r.Problems = "not ready", append(r.Problems, reason)
	}
	if s.cfg.Draining() {
		r.Status = "draining"
	}
	status := http.StatusOK
	if r.Status != "ready" {
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	}
	answer(w, status, r)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client may have left
}
