package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/store/storetest"
)

const (
	goodKey  = "key-good"
	freeKey  = "key-free"
	usedKey  = "key-used-up"
	busyKey  = "key-busy"
	lateKey  = "key-late"
	failKey  = "key-fail"
	panicKey = "key-panic"
	downKey  = "key-down" // the key store is unavailable
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
	}, nil
}

// CheckBatch calls Check for each item.
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
		d, err := c.Check(ctx, check.Request{Caller: caller, Fields: item.Fields, Country: item.Country})
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
	case goodKey, freeKey, usedKey, busyKey, lateKey, failKey, panicKey:
		plan := check.Plan{Name: "pro", Privacy: true}
		if presented == freeKey {
			plan = check.Plan{Name: "free"}
		}
		return check.Caller{Account: presented, Key: "key_1", Plan: plan}, nil
	case downKey:
		return check.Caller{}, errors.New(secret)
	}
	return check.Caller{}, check.ErrUnauthorized
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
	checker *checker
	public  *public
	log     *logBuffer
}

// start serves on a new socket until the test ends. It fills empty fields of cfg with the fakes above.
func start(t testing.TB, cfg Config) *site {
	t.Helper()
	l := storetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	return startOn(t, l, cfg)
}

func startOn(t testing.TB, l net.Listener, cfg Config) *site {
	t.Helper()
	s := &site{addr: l.Addr().String(), checker: &checker{}, public: &public{limit: 1_000_000}, log: &logBuffer{}}
	if cfg.Checker == nil {
		cfg.Checker = s.checker
	}
	if cfg.Keys == nil {
		cfg.Keys = keys{}
	}
	if cfg.Public == nil {
		cfg.Public = s.public
	} else if p, ok := cfg.Public.(*public); ok {
		s.public = p
	}
	if cfg.Events == nil {
		cfg.Events = eventLog{}
	}
	if cfg.Overrides == nil {
		cfg.Overrides = &verdicts{}
	}
	if cfg.AuditLog == nil {
		cfg.AuditLog = auditFiles{}
	}
	if cfg.Receipts == nil {
		cfg.Receipts = receipts{}
	}
	if cfg.Feedback == nil {
		cfg.Feedback = &reports{}
	}
	if cfg.Decisions == nil {
		cfg.Decisions = &decisions{}
	}
	if cfg.Explainer == nil {
		cfg.Explainer = &decisions{}
	}
	switch cfg.Privacy {
	case nil:
		cfg.Privacy = &archive{}
	case noArchive:
		cfg.Privacy = nil
	}
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return atCheck }
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = patience
	}
	cfg.Logger = slog.New(slog.NewJSONHandler(s.log, nil))
	s.Server = New(cfg)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
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

// reply is a response that was read completely.
type reply struct {
	status int
	header http.Header
	body   string
	closes bool // whether it announces that the connection is closed
}

func (r reply) failure(t testing.TB) failure {
	t.Helper()
	var f failure
	if err := json.Unmarshal([]byte(r.body), &f); err != nil {
		t.Fatalf("the body of status %d is not JSON: %v: %q", r.status, err, r.body)
	}
	return f
}

// wellBehaved checks the properties of every response.
func (r reply) wellBehaved(t testing.TB) {
	t.Helper()
	storetest.Expect(t, "X-Content-Type-Options", r.header.Get("X-Content-Type-Options"), "nosniff")
	id := r.header.Get(requestHeader)
	if !isRequestID(id) {
		t.Errorf("%s is %q", requestHeader, id)
	}
	for name := range r.header {
		if strings.HasPrefix(name, "Access-Control-") || name == "Server" {
			t.Errorf("unwanted header %s", name)
		}
	}
	if r.status == http.StatusOK || r.status == http.StatusAccepted {
		return
	}
	storetest.Expect(t, "Content-Type of an error", r.header.Get("Content-Type"), "application/json")
	if r.body != "" && !strings.HasSuffix(r.body, `,"request_id":"`+id+`"}`) { // the answer to HEAD is empty
		t.Errorf("the body does not have the id of the request: %s", r.body)
	}
	if strings.Contains(r.body, secret) || strings.Contains(r.body, "goroutine") ||
		strings.Contains(r.body, "fasthttp") {
		t.Errorf("the body reveals internals: %q", r.body)
	}
}

// send makes one request with a new client. headers alternates names and values.
func (s *site) send(t testing.TB, method, path, body string, headers ...string) reply {
	t.Helper()
	req := storetest.Must(http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body)))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		Timeout: patience}
	resp := storetest.Must(client.Do(req))(t)
	return readReply(t, resp)
}

func readReply(t testing.TB, resp *http.Response) reply {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	body := storetest.Must(io.ReadAll(resp.Body))(t)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body), closes: resp.Close}
}

// check posts body to /api/check with a good key.
func (s *site) check(t testing.TB, body string, headers ...string) reply {
	t.Helper()
	return s.send(t, "POST", "/api/check", body,
		append([]string{"Authorization", "Bearer " + goodKey, "Content-Type", "application/json"}, headers...)...)
}

// exchange writes raw bytes to a new connection and returns all responses until the server closes the connection. It
// fails if the server does not close it.
func (s *site) exchange(t testing.TB, raw string) []reply {
	t.Helper()
	c := storetest.Must(net.Dial("tcp", s.addr))(t)
	defer func() { _ = c.Close() }()
	storetest.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	go func() { _, _ = io.WriteString(c, raw) }()
	return readReplies(t, c)
}

func readReplies(t testing.TB, c net.Conn) []reply {
	t.Helper()
	var replies []reply
	for r := bufio.NewReader(c); ; {
		resp, err := http.ReadResponse(r, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return replies
		}
		if err != nil {
			t.Fatalf("after %d responses: %v", len(replies), err)
		}
		replies = append(replies, readReply(t, resp))
	}
}

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
