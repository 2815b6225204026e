package api

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/registry/expect"
)

// exceeded refuses all keys.
type exceeded struct{ boundless }

func (exceeded) TakeKey(caller check.Caller) error {
	return &admission.RateError{Rate: admission.Rate{Name: caller.Plan.Name, PerMinute: 1200},
		Until: atCheck.Add(2500 * time.Millisecond)}
}

func (exceeded) TakeCheck(check.Caller) error {
	return &admission.RateError{Rate: admission.Rate{Name: "pro-checks", PerMinute: 1200, Burst: 1600},
		Until: atCheck.Add(2500 * time.Millisecond)}
}

// flooded refuses to look up keys.
type flooded struct{ boundless }

func (flooded) TakeNetwork(netip.Prefix) error {
	return &admission.RateError{Rate: admission.Rate{Name: "network", PerMinute: 6000, ByAddress: true},
		Until: atCheck.Add(10 * time.Millisecond)}
}

// countedKeys counts look-ups.
type countedKeys struct {
	keys
	asked atomic.Int64
}

func (k *countedKeys) Authenticate(ctx context.Context, presented string) (check.Caller, error) {
	k.asked.Add(1)
	return k.keys.Authenticate(ctx, presented)
}

// crowded refuses all checks without a key.
type crowded struct{ *public }

func (crowded) Take(context.Context, netip.Prefix) (time.Time, bool, error) {
	return time.Time{}, false, &admission.RateError{Rate: admission.Rate{Name: "public", PerMinute: 600},
		Until: atCheck.Add(time.Minute)}
}

// TestRateLimits checks what a client is told whose requests come too fast, and that nothing was done before. Checks
// get 429 only for the quota and the hourly limit.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, path, key         string
		cfg                     Config
		retry, policy, left, at string
		text                    string
		status                  int
		code                    string
		asked                   int64
	}{
		{"check", "/api/check", goodKey, Config{Rates: exceeded{}}, "3", `"pro-checks";q=1600;w=80`,
			`"pro-checks";r=0;t=3`, "", "more than 1200 requests a minute", 503, codeRate, 1},
		{"batch", batchPath, goodKey, Config{Rates: exceeded{}}, "3", `"pro";q=100;w=5`, `"pro";r=0;t=3`, "",
			"more than 1200 requests a minute", 503, codeRate, 1},
		{"another endpoint", searchPath, goodKey, Config{Rates: exceeded{}}, "3", `"pro";q=100;w=5`, `"pro";r=0;t=3`,
			"2026-01-15T10:30:02.623Z", "more than 1200 requests a minute", 429, codeRate, 1},
		{"network", "/api/check", goodKey, Config{Rates: flooded{}}, "1", `"network";q=500;w=5`,
			`"network";r=0;t=1`, "", "more than 6000 requests a minute", 503, codeRate, 0},
		{"everybody without a key", "/api/check-public", "", Config{Public: crowded{&public{}}}, "60",
			`"public";q=50;w=5`, `"public";r=0;t=60`, "", "more than 600 requests a minute", 503, codeRate, 0},
		{"hour", "/api/check-public", "", Config{Public: &public{}}, "1800", "", `"hour";r=0;t=1800`,
			"2026-01-15T11:00:00.000Z", "the hourly limit", 429, codeHourly, 0},
		{"quota", "/api/check", usedKey, Config{}, "1431000", "", "", "2026-02-01T00:00:00.000Z",
			"the monthly quota", 429, codeQuota, 1},
		{"quota that is known to be spent", "/api/check", spentKey, Config{Rates: exceeded{}}, "1431000", "", "",
			"2026-02-01T00:00:00.000Z", "the monthly quota", 429, codeQuota, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			known := &countedKeys{}
			test.cfg.Keys = known
			s := start(t, test.cfg)
			r := s.ask(t, test.key, "POST "+test.path, exampleBody)
			r.wellBehaved(t)
			got := []string{r.header.Get("Retry-After"), r.header.Get("RateLimit-Policy"), r.header.Get("RateLimit"),
				r.failure(t).ResetAt}
			diff := cmp.Diff([]string{test.retry, test.policy, test.left, test.at}, got)
			expect.That(t, diff == "" && r.status == test.status && strings.Contains(r.body, test.text),
				"status %d: %s\n%s", r.status, r.body, diff)
			expect.Equal(t, "code", r.failure(t).Code, test.code)
			expect.Equal(t, "keys were looked up", known.asked.Load(), test.asked)
			n := len(s.checker.requests())
			expect.That(t, n == 0 || test.name == "quota", "%d checks were made", n)
			through := s.ask(t, test.key, "POST "+test.path, exampleBody, "X-Forwarded-For", "198.51.100.7")
			byAddress := test.name == "network" || test.name == "hour"
			expect.That(t, strings.Contains(through.body, "ASSAY_TRUSTED_PROXIES") == byAddress, "through a proxy: %s",
				through.body)
		})
	}
}
