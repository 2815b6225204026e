package api

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/check"
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
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	for d, preset := range map[*time.Duration]time.Duration{
		&cfg.Timeout:      5 * time.Second,
		&cfg.CheckTimeout: 900 * time.Millisecond,
		&cfg.ReadTimeout:  5 * time.Second,
		&cfg.WriteTimeout: 10 * time.Second,
		&cfg.IdleTimeout:  30 * time.Second,
	} {
		if *d <= 0 {
			*d = preset
		}
	}
	for n, preset := range map[*int]int{
		&cfg.MaxConnections: 8192, &cfg.MaxHandshakes: 1024, &cfg.MaxLookups: 64,
		&cfg.MaxBatches: 16, &cfg.MaxPrivacy: 4,
	} {
		if *n <= 0 {
			*n = preset
		}
	}
	if cfg.EventSlots == nil {
		cfg.EventSlots = admission.NewShares(16)
	}
	trusted := make([]netip.Prefix, len(cfg.TrustedProxies))
	for i, p := range cfg.TrustedProxies {
		trusted[i] = unmapPrefix(p)
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
