package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/access/apikey"
	"assay/host/check"
	"assay/registry/expect"
)

const (
	goodKey  = "key-good"
	freeKey  = "key-free"
	usedKey  = "key-used-up"
	spentKey = "key-known-to-be-used-up"
	busyKey  = "key-busy"
	lateKey  = "key-late"
	failKey  = "key-fail"
	panicKey = "key-panic"
	downKey  = "key-down" // the key store is unavailable
	testKey  = "key-test"
)

// patience ends tests that hang.
const patience = 2 * time.Minute

var (
	nextMonth = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	nextHour  = time.Date(2026, 1, 15, 11, 0, 0, 0, time.UTC)
	atCheck   = time.Date(2026, 1, 15, 10, 30, 0, 123_000_000, time.UTC)
)

const (
	knownRef = "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C"
	secret   = "a cause that clients must not see"
)

// checker responds by the caller's account, and records the requests.
type checker struct {
	mu   sync.Mutex
	seen []check.Request
}

// Spent knows of spentKey alone.
func (c *checker) Spent(caller check.Caller) error {
	if caller.Account == spentKey {
		return &check.QuotaError{Quota: 50, ResetAt: nextMonth}
	}
	return nil
}

func (c *checker) Check(_ context.Context, req check.Request) (*check.Decision, error) {
	c.mu.Lock()
	c.seen = append(c.seen, req)
	c.mu.Unlock()
	switch req.Caller.Account {
	case freeKey:
		return nil, &check.PlanError{Plan: "free", Type: req.Fields[0].Type}
	case usedKey:
		return nil, &check.QuotaError{Quota: 50, ResetAt: nextMonth}
	case lateKey:
		return nil, &check.UnavailableError{Part: "layer slow@1.0.0", Err: errors.New("more processor time")}
	case busyKey:
		return nil, admission.ErrBusy
	case failKey:
		return nil, &check.InternalError{Ref: knownRef, Err: errors.New(secret)}
	case panicKey:
		panic(secret)
	}
	return &check.Decision{
		Fused: check.Fused{Score: 94, Verdict: check.Block, Threat: "phishing", Signals: []check.Signal{{Text: "first"},
			{Text: "second"}}},
		Ref: check.NewRef(), Type: req.Fields[0].Type, Query: req.Fields[0].Value, At: atCheck,
		Warnings: req.Warnings,
	}, nil
}

func (c *checker) CheckBatch(ctx context.Context, caller check.Caller, items []check.Item, once *check.Once) (
	[]check.Answer, error) {
	if caller.Account == freeKey {
		return nil, &check.PlanError{Plan: "free", Feature: "batch checks"}
	}
	answers := make([]check.Answer, len(items))
	for i, item := range items {
		if answers[i].Err = item.Err; item.Err != nil {
			continue
		}
		d, err := c.Check(ctx, check.Request{Caller: caller, Fields: item.Fields, Country: item.Country,
			Warnings: item.Warnings})
		if err != nil {
			return nil, err
		}
		answers[i].Decision = d
	}
	return answers, nil
}

func (c *checker) requests() []check.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]check.Request(nil), c.seen...)
}

// keys accepts the keys above. The account has the name of the key.
type keys struct{}

func (keys) Authenticate(_ context.Context, presented string) (check.Caller, error) {
	switch presented {
	case testKey:
		return check.Caller{Account: presented, Limits: apikey.Limits{Test: true}}, nil
	case goodKey, freeKey, usedKey, spentKey, busyKey, lateKey, failKey, panicKey:
		plan := check.Plan{Name: "pro", Privacy: true, Cents: 1}
		if presented == freeKey {
			plan = check.Plan{Name: "free"}
		}
		return check.Caller{Account: presented, Key: "key_1", Plan: plan}, nil
	case downKey:
		return check.Caller{}, errors.New(secret)
	}
	return check.Caller{}, check.ErrUnauthorized
}

type keyFunc func(ctx context.Context, presented string) (check.Caller, error)

func (f keyFunc) Authenticate(ctx context.Context, presented string) (check.Caller, error) {
	return f(ctx, presented)
}

// public allows limit uses per client.
type public struct {
	limit int
	mu    sync.Mutex
	used  map[netip.Prefix]int
}

func (p *public) Take(_ context.Context, client netip.Prefix) (time.Time, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == nil {
		p.used = map[netip.Prefix]int{}
	}
	p.used[client]++
	return nextHour, p.used[client] <= p.limit, nil
}

func (p *public) GiveBack(_ context.Context, client netip.Prefix) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[client]--
	return nil
}

func (p *public) Caller() check.Caller {
	return check.Caller{Account: "acct_public", Plan: check.PublicPlan()}
}

func (p *public) uses(client string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used[netip.MustParsePrefix(client)]
}

// site is a running server with its fakes.
type site struct {
	*Server
	addr    string
	socket  net.Listener // if begin opened it
	checker *checker
	public  *public
	log     *logBuffer
}

// start serves on a new socket until the test ends. It fills empty fields of cfg with the fakes above.
func start(t testing.TB, cfg Config) *site {
	t.Helper()
	return startOn(t, listen(t), cfg)
}

func startOn(t testing.TB, l net.Listener, cfg Config) *site {
	t.Helper()
	s := &site{addr: l.Addr().String(), checker: &checker{}, public: &public{limit: 1_000_000}, log: &logBuffer{}}
	if p, ok := cfg.Public.(*public); ok {
		s.public = p
	}
	cfg.Checker, cfg.Keys = cmp.Or[Checker](cfg.Checker, s.checker), cmp.Or[Keys](cfg.Keys, keys{})
	cfg.Public, cfg.Events = cmp.Or[Public](cfg.Public, s.public), cmp.Or[Events](cfg.Events, eventLog{})
	cfg.Overrides = cmp.Or[Overrides](cfg.Overrides, &verdicts{})
	cfg.AuditLog = cmp.Or[AuditLog](cfg.AuditLog, auditFiles{})
	cfg.Receipts, cfg.Feedback = cmp.Or[Receipts](cfg.Receipts, receipts{}), cmp.Or[Feedback](cfg.Feedback, &reports{})
	cfg.Decisions = cmp.Or[Decisions](cfg.Decisions, &decisions{})
	cfg.Explainer = cmp.Or[Explainer](cfg.Explainer, &decisions{})
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, patience)
	cfg.Privacy = cmp.Or[Privacy](cfg.Privacy, &archive{})
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return atCheck }
	}
	cfg.Logger = slog.New(slog.NewJSONHandler(s.log, nil))
	s.Server = New(cfg)
	served := s.serveAside(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		expect.NoError(t, s.Shutdown(ctx))
		expect.NoError(t, <-served)
	})
	return s
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	return expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
}

// serveAside serves in the background, and returns how that ends.
func (s *Server) serveAside(l net.Listener) <-chan error {
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return served
}

// begin serves until the test calls Shutdown.
func begin(t testing.TB, cfg Config) (*site, <-chan error) {
	t.Helper()
	l := listen(t)
	cfg.Checker, cfg.Keys, cfg.Public = cmp.Or[Checker](cfg.Checker, &checker{}), keys{}, &public{limit: 1}
	s := &site{addr: l.Addr().String(), socket: l, Server: New(cfg)}
	return s, s.serveAside(l)
}

// logBuffer is a writer that is safe for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// varying are the parts of log lines in which any short text can occur by chance.
var varying = regexp.MustCompile(`"time":"[^"]*"|"ms":[^,]*|"(chk|req|test)_[0-9A-Z]{26}"`)

// text returns the log in lower case, without its times and random references.
func (l *logBuffer) text() string { return strings.ToLower(varying.ReplaceAllString(l.String(), "")) }

// fieldsOf returns the fields of a request as type=value.
func fieldsOf(req check.Request) (fields []string) {
	for _, f := range req.Fields {
		fields = append(fields, string(f.Type)+"="+f.Value)
	}
	return fields
}

var _ Checker = (*check.Checker)(nil)

// holding is a checker that blocks each check until its release, or until its context ends.
type holding struct {
	checker
	entered chan struct{}
	release chan struct{}
}

func newHolding() *holding {
	return &holding{entered: make(chan struct{}), release: make(chan struct{})}
}

func (h *holding) CheckBatch(ctx context.Context, caller check.Caller, items []check.Item, _ *check.Once) (
	[]check.Answer, error) {
	d, err := h.Check(ctx, check.Request{Caller: caller, Fields: items[0].Fields})
	return []check.Answer{{Decision: d}}, err
}

func (h *holding) Check(ctx context.Context, req check.Request) (*check.Decision, error) {
	h.entered <- struct{}{}
	select {
	case <-h.release:
		return (&checker{}).Check(ctx, req)
	case <-ctx.Done():
		return nil, &check.InternalError{Ref: knownRef, Err: ctx.Err()}
	}
}
