package api

import (
	"cmp"
	"log/slog"
	"net/netip"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/internal/internet"
)

func (cfg *Config) setDefaults() {
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	if cfg.Outage == nil {
		cfg.Outage = func(error) bool { return false }
	}
	if cfg.Door == nil {
		cfg.Door = open{}
	}
	if cfg.Rates == nil {
		cfg.Rates = boundless{}
	}
	if cfg.Answered == nil {
		cfg.Answered = func(string, int, time.Duration) {}
	}
	if cfg.Used == nil {
		cfg.Used = func(check.Caller) {}
	}
	if cfg.PageError == nil {
		cfg.PageError = func(*fasthttp.RequestCtx) string { return "" }
	}
	if cfg.Refused == nil {
		cfg.Refused = func(string) {}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	cfg.CheckTimeout = cmp.Or(cfg.CheckTimeout, 900*time.Millisecond)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, 5*time.Second)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 10*time.Second)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 30*time.Second)
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, 8192)
	cfg.MaxHandshakes = cmp.Or(cfg.MaxHandshakes, 1024)
	cfg.MaxLookups = cmp.Or(cfg.MaxLookups, 64)
	cfg.MaxBatches = cmp.Or(cfg.MaxBatches, 16)
	cfg.MaxPrivacy = cmp.Or(cfg.MaxPrivacy, 4)
	cfg.MaxEvents = cmp.Or(cfg.MaxEvents, 16)
	cfg.Downloads = cmp.Or(cfg.Downloads, admission.NewShares(16))
	trusted := make([]netip.Prefix, len(cfg.TrustedProxies))
	for i, p := range cfg.TrustedProxies {
		trusted[i] = internet.Unmap(p)
	}
	cfg.TrustedProxies = trusted
}

// open is a door that admits everything.
type open struct{}

func (open) Admits(string, int) error { return nil }

// boundless are rates without limits.
type boundless struct{}

func (boundless) TakeCheck(check.Caller) error   { return nil }
func (boundless) TakeKey(check.Caller) error     { return nil }
func (boundless) TakeNetwork(netip.Prefix) error { return nil }
