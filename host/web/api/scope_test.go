package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/registry/expect"
	"assay/sdk"
)

// limitedKeys accepts keys by their limits. A nil entry is a key that has expired, or of a suspended account.
type limitedKeys map[string]*apikey.Limits

func (k limitedKeys) Authenticate(_ context.Context, presented string) (check.Caller, error) {
	limits, known := k[presented]
	switch {
	case !known:
		return check.Caller{}, check.ErrUnauthorized
	case presented == "suspended":
		return check.Caller{}, check.ErrSuspended
	case limits == nil:
		return check.Caller{}, check.ErrExpired
	}
	plan := check.Plan{Name: "pro", Privacy: true}
	return check.Caller{Account: goodKey, Key: presented, Plan: plan, Limits: *limits}, nil
}

// TestEveryEndpointNeedsItsScope calls each documented endpoint with a key of each scope. An endpoint takes a key only
// if it has exactly the scope that the document names; TestEveryRouteIsDocumented finds routes that the document lacks.
func TestEveryEndpointNeedsItsScope(t *testing.T) {
	t.Parallel()
	doc, _ := loadDocument(t)
	every := limitedKeys{"key-all": {}, "key-test": {Test: true}}
	for _, scope := range apikey.Scopes() {
		every["key-"+string(scope)] = &apikey.Limits{Scopes: []apikey.Scope{scope}}
	}
	s := start(t, Config{Keys: every})
	at, needed := strings.NewReplacer("{ref}", knownRef), map[apikey.Scope]bool{}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			name := method + " " + path
			if security := operation.Security; security == nil || len(*security) == 0 {
				status := s.send(t, method, at.Replace(path), "{}").status
				expect.That(t, status != http.StatusUnauthorized, "%s needs a key, unlike the document says", name)
				continue
			}
			names := (*operation.Security)[0]["key"]
			if len(names) != 1 || !slices.Contains(apikey.Scopes(), apikey.Scope(names[0])) {
				t.Errorf("%s is documented with the scopes %q, want one that exists", name, names)
				continue
			}
			scope := apikey.Scope(names[0])
			needed[scope] = true
			for key, limits := range every {
				r := s.send(t, method, at.Replace(path), "{}", "Authorization", "Bearer "+key)
				r.wellBehaved(t)
				switch permitted := limits.Permits(scope); {
				case permitted && (r.status == http.StatusForbidden || r.status == http.StatusUnauthorized):
					t.Errorf("%s with %s: status %d: %s", name, key, r.status, r.body)
				case !permitted && (r.status != http.StatusForbidden || !strings.Contains(r.body, " scope "+names[0])):
					t.Errorf("%s with %s: status %d, want 403 with the scope %s: %s", name, key, r.status, scope,
						r.body)
				}
			}
		}
	}
	expect.That(t, len(needed) == len(apikey.Scopes()), "only the scopes %v are needed anywhere",
		slices.Sorted(maps.Keys(needed)))
	expect.Equal(t, "checks made without a field", len(s.checker.requests()), 0)
}

// A handler on a route that was registered without a scope gets no caller.
func TestRouteWithoutScopeTakesNoKey(t *testing.T) {
	t.Parallel()
	s, ctx := New(Config{}), &fasthttp.RequestCtx{}
	s.begin(ctx)
	status, _ := answerTo(s.permit(ctx, apikey.Limits{}))
	expect.That(t, status == http.StatusForbidden, "status %d", status)
}

func TestLimitsOfKeys(t *testing.T) {
	t.Parallel()
	networks := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	s := start(t, Config{TrustedProxies: prefixes("127.0.0.0/8"), Keys: limitedKeys{
		"expired": nil, "suspended": nil,
		"networks": {Networks: networks},
		"both":     {Networks: networks, Scopes: []apikey.Scope{apikey.ScopeEvents, apikey.ScopePrivacy}},
		"scopes":   {Scopes: []apikey.Scope{apikey.ScopeEvents, apikey.ScopePrivacy}},
		"test":     {Test: true},
	}})
	const denied = "the key's allow list does not permit requests from "
	const noScope = "the key does not have the scope check, which the endpoint needs; it has events and privacy"
	type testCase struct {
		key, from string
		status    int
		text      string
	}
	expect.Each(t, map[string]testCase{
		"an expired key": {"expired", "203.0.113.9", 401, "the API key has expired"},
		"a suspended account": {"suspended", "203.0.113.9", 403,
			"the account is suspended; write to the operator of this service"},
		"IPv4 in the list":             {"networks", "203.0.113.9", 200, ""},
		"IPv6 written as IPv4":         {"networks", "::ffff:203.0.113.9", 200, ""},
		"behind another trusted proxy": {"networks", "203.0.113.9, 127.0.0.2", 200, ""},
		"IPv4 not in the list":         {"networks", "203.0.112.9", 403, denied + "203.0.112.9"},
		"IPv6 not in the list":         {"networks", "2001:db9::1", 403, denied + "2001:db9::1"},
		"a forged first hop":           {"networks", "203.0.113.9, 198.51.100.1", 403, denied + "198.51.100.1"},
		"no forwarding header":         {"networks", "", 403, denied + "127.0.0.1"},
		"neither address nor scope":    {"both", "198.51.100.1", 403, denied + "198.51.100.1"},
		"no scope":                     {"both", "203.0.113.9", 403, noScope},
		"no scope, any address":        {"scopes", "198.51.100.1", 403, noScope},
	}, func(t *testing.T, c testCase) {
		headers := []string{"Authorization", "Bearer " + c.key}
		if c.from != "" {
			headers = append(headers, "X-Forwarded-For", c.from)
		}
		r := s.send(t, "POST", "/api/check", exampleBody, headers...)
		r.is(t, "answer", c.status)
		expect.Equal(t, "text", r.failure(t).Error, c.text)
	})
	s.ask(t, "test", "GET /api/events", "").is(t, "a test key for events", 403,
		"a test key can only check; the endpoint needs a key with the scope events")
	t.Cleanup(func() {
		expect.Equal(t, "the log contains an address", strings.Contains(s.log.String(), "198.51.100.1"), false)
	})
}

// A use is noted if the key may be used and no check is recorded.
func TestUsesOfKeysAreNoted(t *testing.T) {
	t.Parallel()
	used := make(chan string, 10)
	s := start(t, Config{Keys: limitedKeys{"all": {}, "test": {Test: true},
		"events": {Scopes: []apikey.Scope{apikey.ScopeEvents}}}, Used: func(c check.Caller) { used <- c.Key }})
	for _, c := range []struct {
		key, method, path string
		noted             bool
	}{
		{"all", "POST", "/api/check", false},
		{"all", "GET", "/api/events", true},
		{"events", "GET", "/api/events", true},
		{"events", "POST", "/api/check", false},
		{"test", "POST", "/api/check", true},
		{"test", "GET", "/api/events", false},
		{"unknown", "GET", "/api/events", false},
	} {
		s.send(t, c.method, c.path, exampleBody, "Authorization", "Bearer "+c.key)
		if noted := len(used) == 1 && <-used == c.key; noted != c.noted || len(used) != 0 {
			t.Errorf("%s %s with the key %s: noted %t, want %t", c.method, c.path, c.key, noted, c.noted)
		}
	}
}

// The answers to test keys count neither as an endpoint's nor as refusals: alerts compare these with the host's load.
func TestTestKeysDoNotCountAsLoad(t *testing.T) {
	t.Parallel()
	answered, refused := make(chan string, 10), make(chan string, 10)
	s := start(t, Config{Keys: limitedKeys{"test": {Test: true}}, Checker: unavailable{},
		Answered: func(route string, status int, _ time.Duration) { answered <- fmt.Sprint(route, " ", status) },
		Refused:  func(reason string) { refused <- reason }})
	s.send(t, "POST", "/api/check", `{"domain":"unavailable.test"}`, "Authorization", "Bearer test").
		is(t, "unavailable.test", 503)
	expect.Equal(t, "counted as", <-answered, "test 503")
	s.send(t, "POST", "/api/check", "{}")
	expect.Equal(t, "without a key, counted as", <-answered, "/api/check 401")
	expect.Equal(t, "refusals", len(refused), 0)
	log := s.log.String()
	expect.That(t, strings.Contains(log, `"level":"INFO","msg":"request"`) && !strings.Contains(log, "WARN"),
		"logged:\n%s", log)
}

// unavailable answers as a check does for the test value unavailable.test.
type unavailable struct{ Checker }

func (unavailable) Spent(check.Caller) error { return nil }

func (unavailable) Check(context.Context, check.Request) (*check.Decision, error) {
	return nil, &check.UnavailableError{Part: "test", Err: errors.New("a test key asked for this")}
}

// Every route and every threat of layers is documented.
func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	doc, _ := loadDocument(t)
	var documented, routed []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	s, places := New(Config{}), strings.NewReplacer(":ref", "{ref}", ":id", "{id}", ":chain", "{chain}", "*", "{path}")
	for _, r := range s.app.GetRoutes() {
		if r.Method != http.MethodHead { // registered with GET
			routed = append(routed, r.Method+" "+places.Replace(r.Path))
		}
	}
	slices.Sort(documented)
	slices.Sort(routed)
	expect.NoDiff(t, "documented and routed", documented, routed)
	expect.Equal(t, "paths with an Allow", len(s.allow), doc.Paths.Len())
	expect.Equal(t, "documented threats", fmt.Sprint(doc.Components.Schemas["Threat"].Value.Enum),
		fmt.Sprint(sdk.Threats()))
}
