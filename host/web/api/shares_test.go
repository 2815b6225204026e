package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/internal/internet"
	"assay/host/web/refusal"
	"assay/registry/expect"
)

type closedDoor struct{}

func (closedDoor) Admits(string, int) error { return admission.ErrBusy }

type oneDoor string

func (d oneDoor) Admits(account string, _ int) error {
	if account == string(d) {
		return admission.ErrShare
	}
	return nil
}

// noLookups fails the test if a key is looked up.
func noLookups(t *testing.T) keyFunc {
	return func(context.Context, string) (check.Caller, error) {
		t.Error("a key was looked up")
		return check.Caller{}, check.ErrUnauthorized
	}
}

// An overloaded host refuses a check before it looks up the key, and before it reads the body.
func TestDoorRefusesBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	p := &public{limit: 10}
	s := start(t, Config{Door: closedDoor{}, Keys: noLookups(t), Public: p})
	for _, path := range []string{"/api/check", "/api/check-public", batchPath} {
		s.ask(t, goodKey, "POST "+path, "{").is(t, path, 503, admission.ErrBusy.Error())
	}
	expect.Equal(t, "refused calls counted", p.uses("127.0.0.1/32"), 0)
}

// One account's excess, or that of a network's free keys, refuses no other.
func TestDoorRefusesOneShare(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Door: oneDoor("acct_public|127.0.0.0/24")})
	s.ask(t, "", "POST /api/check-public", exampleBody).is(t, "without a key", 503)
	s = start(t, Config{Door: oneDoor("network 127.0.0.0/24")})
	s.ask(t, "", "POST /api/check-public", exampleBody).is(t, "without a key", 200)
	for key, status := range map[string]int{freeKey: 503, goodKey: 400} {
		for _, path := range []string{"/api/check", batchPath} {
			s.ask(t, key, "POST "+path, "{").is(t, path, status)
		}
	}
}

// A paid account, or all free keys of a network, leave slots for others. Exports have slots of their own.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Checker: &onceChecker{}, Answers: &onceChecker{}, Decisions: &decisions{}})
	const exports, usage, score = "GET /api/checks/export?format=csv", "GET /api/usage", "POST /api/check"
	slots := map[string]*admission.Shares{exports: s.cfg.Downloads, usage: s.events, score: s.keptLookups}
	another := map[string]int{exports: 200, usage: 200, score: 429} // its quota is used up
	for _, request := range []string{exports, usage, score} {
		for key, share := range map[string]string{goodKey: goodKey, freeKey: "network 127.0.0.0/24"} {
			for _, err := slots[request].Take(share); err == nil; _, err = slots[request].Take(share) {
			}
			s.ask(t, key, request, exampleBody, onceHeader, "k").is(t, request, 503, admission.ErrShare.Error())
		}
		s.ask(t, usedKey, request, exampleBody, onceHeader, "k").is(t, request, another[request])
	}
}

type refuser struct {
	checker
	err error
}

func (r *refuser) Check(context.Context, check.Request) (*check.Decision, error) { return nil, r.err }

func TestRefusalsAreCountedByReason(t *testing.T) {
	t.Parallel()
	late := &check.UnavailableError{Part: "layer x@1.0.0", Err: context.DeadlineExceeded}
	for want, err := range map[string]error{
		"door": admission.ErrBusy, "share": admission.ErrShare, "deadline": late,
		"layer":  &check.UnavailableError{Part: "layer x@1.0.0", Err: errors.New("no instance")},
		"facts":  &check.UnavailableError{Part: "facts of graph", Err: errors.New("no connection")},
		"ledger": &check.UnavailableError{Part: "ledger", Err: errors.New("the queue is full")},
	} {
		counted := make(chan string, 10)
		s := start(t, Config{Checker: &refuser{err: err}, Refused: func(reason string) { counted <- reason }})
		s.check(t, exampleBody).is(t, want, 503)
		expect.Equal(t, "counted as", <-counted, want)
		expect.Equal(t, "further refusals", len(counted), 0)
	}
}

// hoarder holds all requests of one account until the test ends.
type hoarder struct {
	archive
	*holding
	account string
}

func (h *hoarder) hold(c check.Caller) {
	if c.Account == h.account {
		h.entered <- struct{}{}
		<-h.release
	}
}

func (h *hoarder) Export(ctx context.Context, c check.Caller, whose privacy.Selector, page privacy.Page) (
	*privacy.Export, error) {
	h.hold(c)
	return h.archive.Export(ctx, c, whose, page)
}

func (h *hoarder) CheckBatch(ctx context.Context, c check.Caller, items []check.Item, once *check.Once) (
	[]check.Answer, error) {
	h.hold(c)
	return h.checker.CheckBatch(ctx, c, items, once)
}

func (h *hoarder) EventsAfter(ctx context.Context, account string, after int64, limit int) ([]webhook.Event, error) {
	h.hold(check.Caller{Account: account})
	return eventLog{}.EventsAfter(ctx, account, after, limit)
}

// One account sends slow requests on many connections, as many as it can. All requests of another account must succeed.
func TestFloodsCostOthersNothing(t *testing.T) {
	t.Parallel()
	const connections, calls = 64, 60
	type testCase struct {
		flood, call string // method, path and body
		share       int    // slots of the flood
	}
	expect.Each(t, map[string]testCase{
		"exports": {"GET " + exportPath + "?ref=" + knownRef + " ", `POST ` + erasePath + ` {"domain":"a.com"}`, 2},
		"batches": {"POST " + batchPath + ` {"checks":[{"domain":"a.com"}]}`,
			`POST ` + batchPath + ` {"checks":[{"domain":"a.com"}]}`, 8},
		"events": {"GET /api/events ", "GET /api/events ", 8},
	}, func(t *testing.T, test testCase) {
		h := &hoarder{holding: newHolding(), account: failKey}
		s := start(t, Config{Privacy: h, Checker: h, Events: h})
		send := func(key, request string) reply {
			words := strings.SplitN(request, " ", 3)
			return s.send(t, words[0], words[1], words[2], "Authorization", "Bearer "+key)
		}
		answers := make(chan int, connections)
		for range connections {
			go func() { answers <- send(failKey, test.flood).status }()
		}
		for range test.share {
			<-h.entered
		}
		for range connections - test.share {
			expect.Equal(t, "a request beyond the share", <-answers, http.StatusServiceUnavailable)
		}
		for i := range calls {
			r := send(goodKey, test.call)
			expect.Must(t, r.status == 200, "call %d of another account: status %d: %s", i+1, r.status, r.body)
		}
		close(h.release)
		for range test.share {
			<-answers
		}
	})
}

// Look-ups of unknown keys from one network must leave room for those from others.
func TestFloodOfUnknownKeys(t *testing.T) {
	t.Parallel()
	s := New(Config{Checker: &checker{}, Keys: keys{}, Public: &public{}})
	var err error
	for err == nil {
		_, err = s.lookups.Take("2001:db8:1::/48")
	}
	for client, want := range map[string]error{"2001:db8:1:2::/64": admission.ErrShare, "2001:db8:2:2::/64": nil} {
		network := internet.Network(netip.MustParsePrefix(client)).String()
		lookedUp := s.lookUp(t.Context(), network, func(context.Context) error { return nil })
		expect.Error(t, "a look-up from "+client, lookedUp, want)
	}
}

// expired is a key store whose memory of goodKey is a little old.
type expired struct{ remembering }

func (k expired) Recall(presented string) (check.Caller, bool, error) {
	caller, _, _ := k.remembering.Recall(presented)
	return caller, false, nil
}

// noNetworks lets no network look up keys.
type noNetworks struct{ boundless }

func (noNetworks) TakeNetwork(netip.Prefix) error { return admission.ErrBusy }

// A client with many connections is not refused when its key is not remembered, as after the host's start.
func TestConnectionsOfOneKeyShareItsLookUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lookUps, accepted atomic.Int32
		release := make(chan struct{})
		s := New(Config{Checker: &checker{}, Public: &public{}, Keys: keyFunc(func(ctx context.Context, key string) (
			check.Caller, error) {
			lookUps.Add(1)
			<-release
			return keys{}.Authenticate(ctx, key)
		})})
		const connections = 256
		for range connections {
			go func() {
				if caller, err := s.authenticate(t.Context(), withKey(goodKey)); err == nil &&
					caller.Account == goodKey {
					accepted.Add(1)
				}
			}()
		}
		synctest.Wait()
		expect.Equal(t, "look-ups of one key", lookUps.Load(), 1)
		close(release)
		synctest.Wait()
		expect.Equal(t, "accepted requests", accepted.Load(), connections)
	})
}

// remembering is a key store that remembers every key.
type remembering struct{ keyFunc }

func (remembering) Recall(presented string) (check.Caller, bool, error) {
	caller, err := keys{}.Authenticate(context.Background(), presented)
	return caller, true, err
}

func (remembering) Confirm(context.Context, check.Caller) error { return check.ErrUnauthorized }

// Nothing is answered for a remembered key that was revoked.
func TestRevokedKeysThatAreRemembered(t *testing.T) {
	t.Parallel()
	c := &onceChecker{kept: map[string]*check.Once{goodKey + " k": {
		Request: []byte("/api/check\n" + exampleBody), Answer: []byte(`{}`)}}}
	s := start(t, Config{Checker: c, Answers: c, Keys: remembering{noLookups(t)}})
	s.ask(t, goodKey, "POST /api/check", exampleBody, onceHeader, "k").is(t, "a replay", 401)
	s.ask(t, goodKey, "GET /api/events", "").is(t, "events", 401)
	s.ask(t, goodKey, "GET /api/overrides", "").is(t, "overrides", 401)
	s.ask(t, testKey, "POST /api/check", exampleBody).is(t, "a test key", 401)
}

// A remembered key needs no look-up, and so no slot for one. Guesses from a network do not delay its clients whose keys
// were valid a moment ago.
func TestRememberedKeysNeedNoSlot(t *testing.T) {
	t.Parallel()
	for taken, test := range map[string]struct {
		cfg     Config
		unknown error
	}{
		"192.0.2.9/32": {Config{Keys: remembering{noLookups(t)}, MaxLookups: 1}, check.ErrUnauthorized},
		"192.0.2.0/24": {Config{Keys: expired{remembering{keys{}.Authenticate}}, Rates: noNetworks{}, MaxLookups: 2},
			admission.ErrBusy},
	} {
		test.cfg.Checker, test.cfg.Public = &checker{}, &public{}
		s := New(test.cfg)
		expect.Value(s.lookups.Take(taken))(t)
		for key, want := range map[string]error{goodKey: nil, "unknown": test.unknown} {
			expect.Error(t, taken+" "+key, expect.ErrorOf(s.authenticate(t.Context(), withKey(key))), want)
		}
	}
}

// The payment provider's events take slots like keys that are looked up.
func TestProviderEventsTakeSlots(t *testing.T) {
	t.Parallel()
	s := start(t, Config{MaxLookups: 1, ProviderEvent: func(context.Context, []byte, string) error { return nil }})
	release := expect.Value(s.lookups.Take("192.0.2.9/32"))(t)
	s.ask(t, "", "POST "+providerPath, "{}").is(t, "while the slots are taken", 503)
	release()
	s.ask(t, "", "POST "+providerPath, "{}").is(t, "afterwards", 200)
}

func withKey(key string) *fasthttp.RequestCtx {
	var r fasthttp.Request
	r.Header.Set("Authorization", "Bearer "+key)
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&r, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, nil)
	return ctx
}

// A key store whose database does not respond makes no client wait for ever.
func TestFrozenDatabaseGets503(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Keys: keyFunc(func(ctx context.Context, _ string) (check.Caller, error) {
		<-ctx.Done()
		return check.Caller{}, &check.UnavailableError{Part: "database", Err: ctx.Err()}
	})})
	for _, request := range []string{"POST /api/check", "POST " + batchPath, "GET /api/events", "POST " + erasePath} {
		s.ask(t, goodKey, request, `{}`).is(t, request, 503)
	}
}

type exceeded struct{ boundless }

func (exceeded) TakeKey(caller check.Caller) error {
	return &admission.RateError{Rate: admission.Rate{Name: caller.Plan.Name, PerMinute: 1200},
		Until: atCheck.Add(2500 * time.Millisecond)}
}

func (exceeded) TakeCheck(check.Caller) error {
	return &admission.RateError{Rate: admission.Rate{Name: "pro-checks", PerMinute: 1200, Burst: 1600},
		Until: atCheck.Add(2500 * time.Millisecond)}
}

type flooded struct{ boundless }

func (flooded) TakeNetwork(netip.Prefix) error {
	return &admission.RateError{Rate: admission.Rate{Name: "network", PerMinute: 6000, ByAddress: true},
		Until: atCheck.Add(10 * time.Millisecond)}
}

type crowded struct{ *public }

func (crowded) Take(context.Context, netip.Prefix) (time.Time, bool, error) {
	return time.Time{}, false, &admission.RateError{Rate: admission.Rate{Name: "public", PerMinute: 600},
		Until: atCheck.Add(time.Minute)}
}

// TestRateLimits checks what a client is told whose requests come too fast, and that nothing was done before.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	type testCase struct {
		path, key               string
		cfg                     Config
		retry, policy, left, at string
		text                    string
		status                  int
		code                    string
		asked                   int64
	}
	const fast, month, used = "more than 1200 requests a minute", "2026-02-01T00:00:00.000Z", "the monthly quota"
	expect.Each(t, map[string]testCase{
		"check": {"/api/check", goodKey, Config{Rates: exceeded{}}, "3", `"pro-checks";q=1600;w=80`,
			`"pro-checks";r=0;t=3`, "", fast, 503, refusal.Rate, 1},
		"batch": {batchPath, goodKey, Config{Rates: exceeded{}}, "3", `"pro";q=100;w=5`, `"pro";r=0;t=3`, "", fast, 503,
			refusal.Rate, 1},
		"another endpoint": {searchPath, goodKey, Config{Rates: exceeded{}}, "3", `"pro";q=100;w=5`, `"pro";r=0;t=3`,
			"2026-01-15T10:30:02.623Z", fast, 429, refusal.Rate, 1},
		"network": {"/api/check", goodKey, Config{Rates: flooded{}}, "1", `"network";q=500;w=5`, `"network";r=0;t=1`,
			"", "more than 6000 requests a minute", 503, refusal.Rate, 0},
		"everybody without a key": {"/api/check-public", "", Config{Public: crowded{&public{}}}, "60",
			`"public";q=50;w=5`, `"public";r=0;t=60`, "", "more than 600 requests a minute", 503, refusal.Rate, 0},
		"hour": {"/api/check-public", "", Config{Public: &public{}}, "1800", "", `"hour";r=0;t=1800`,
			"2026-01-15T11:00:00.000Z", "the hourly limit", 429, refusal.Hourly, 0},
		"quota": {"/api/check", usedKey, Config{}, "1431000", "", "", month, used, 429, refusal.Quota, 1},
		"quota that is known to be spent": {"/api/check", spentKey, Config{Rates: exceeded{}}, "1431000", "", "", month,
			used, 429, refusal.Quota, 1},
	}, func(t *testing.T, test testCase) {
		by := t.Name()[len("TestRateLimits/"):]
		var asked atomic.Int64
		test.cfg.Keys = keyFunc(func(ctx context.Context, key string) (check.Caller, error) {
			asked.Add(1)
			return keys{}.Authenticate(ctx, key)
		})
		var route atomic.Value
		test.cfg.Answered = func(name string, _ int, _ time.Duration) { route.Store(name) }
		s := start(t, test.cfg)
		r := s.ask(t, test.key, "POST "+test.path, exampleBody)
		r.is(t, "answer", test.status, test.text)
		expect.Equal(t, "counts as limited", route.Load() == RouteLimited, test.status == 503)
		got := []string{r.header.Get("Retry-After"), r.header.Get("RateLimit-Policy"), r.header.Get("RateLimit"),
			r.failure(t).ResetAt, r.failure(t).Code}
		expect.NoDiff(t, "headers", []string{test.retry, test.policy, test.left, test.at, test.code}, got)
		expect.Equal(t, "keys were looked up", asked.Load(), test.asked)
		expect.That(t, len(s.checker.requests()) == 0 || by == "quota", "checks were made")
		through := s.ask(t, test.key, "POST "+test.path, exampleBody, "X-Forwarded-For", "198.51.100.7")
		byAddress := by == "network" || by == "hour"
		expect.That(t, strings.Contains(through.body, "ASSAY_TRUSTED_PROXIES") == byAddress, "through a proxy: %s",
			through.body)
	})
}
