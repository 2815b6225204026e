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

// TestRateLimits checks what a client is told whose requests come too fast, and that nothing was done before.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, path, key         string
		cfg                     Config
		retry, policy, left, at string
		text                    string
		asked                   int64
	}{
		{"key", "/api/check", goodKey, Config{Rates: exceeded{}}, "3", `"pro";q=1200;w=60`, `"pro";r=0;t=3`,
			"2026-01-15T10:30:02.623Z", "more than 1200 requests a minute", 1},
		{"batch", batchPath, goodKey, Config{Rates: exceeded{}}, "3", `"pro";q=1200;w=60`, `"pro";r=0;t=3`,
			"2026-01-15T10:30:02.623Z", "more than 1200 requests a minute", 1},
		{"network", "/api/check", goodKey, Config{Rates: flooded{}}, "1", `"network";q=6000;w=60`,
			`"network";r=0;t=1`, "2026-01-15T10:30:00.133Z", "more than 6000 requests a minute", 0},
		{"everybody without a key", "/api/check-public", "", Config{Public: crowded{&public{}}}, "60",
			`"public";q=600;w=60`, `"public";r=0;t=60`, "2026-01-15T10:31:00.123Z",
			"more than 600 requests a minute", 0},
		{"hour", "/api/check-public", "", Config{Public: &public{}}, "1800", "", `"hour";r=0;t=1800`,
			"2026-01-15T11:00:00.000Z", "the hourly limit", 0},
		{"quota", "/api/check", usedKey, Config{}, "1431000", "", "", "2026-02-01T00:00:00.000Z",
			"the monthly quota", 1},
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
			expect.That(t, diff == "" && r.status == 429 && strings.Contains(r.body, test.text), "status %d: %s\n%s",
				r.status, r.body, diff)
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
