package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/admission"
	"assay/host/check"
	"assay/host/internet"
	"assay/host/store"
)

// The rates in addition to those of the plans, in requests a minute.
const (
	publicRate  = "public"  // all checks without a key
	networkRate = "network" // look-ups of keys for one network, which is a /24 or a /48
)

// defaultRates are the limits in requests a minute, of a key by its plan and of everybody without one.
var defaultRates = map[string]int{"free": 120, "starter": 300, "pro": 1200, publicRate: 600, networkRate: 6000}

// publicShare is the number of networks that it takes to use up the rate of checks without a key.
const publicShare = 5

// rates returns the requests a minute by name; 0 means no limit.
func (c *Config) rates() (map[string]int, error) {
	all := maps.Clone(defaultRates)
	if len(c.Rates) == 1 && c.Rates[0] == off {
		clear(all)
		return all, nil
	}
	var errs []error
	for _, text := range c.Rates {
		name, number, ok := strings.Cut(text, "=")
		if _, known := all[name]; !known || !ok {
			errs = append(errs, fmt.Errorf("ASSAY_RATES: %q is neither off nor of the form NAME=NUMBER; names are %s",
				text, strings.Join(slices.Sorted(maps.Keys(defaultRates)), ", ")))
			continue
		}
		n, err := strconv.Atoi(number)
		switch {
		case number == off:
			n = 0
		case err != nil || n < 1 || n > maxRate:
			errs = append(errs, fmt.Errorf("ASSAY_RATES: %q: the requests a minute must be off or from 1 to %d", text,
				maxRate))
		}
		all[name] = n
	}
	return all, errors.Join(errs...)
}

// maxRate bounds a rate, also one that grew with the quota.
const maxRate = 1_000_000_000

// rates limits how often requests come, together with the other hosts.
type rates struct {
	limiter *admission.Limiter
	limits  map[string]int
	quotas  map[string]int // by plan
}

func newRates(limits map[string]int) *rates {
	quotas := map[string]int{}
	for _, p := range check.Plans() {
		quotas[p.Name] = p.Quota
	}
	return &rates{limiter: admission.NewLimiter(time.Now), limits: limits, quotas: quotas}
}

// TakeKey implements api.Rates. An account whose quota exceeds its plan's has a rate that is higher in proportion.
func (r *rates) TakeKey(caller check.Caller) error {
	limit := r.limits[caller.Plan.Name]
	if usual := r.quotas[caller.Plan.Name]; usual > 0 && caller.Plan.Quota > usual {
		limit = int(min(float64(limit)*float64(caller.Plan.Quota)/float64(usual), maxRate))
	}
	return r.limiter.Take("key "+caller.Key, admission.Rate{Name: caller.Plan.Name, PerMinute: limit})
}

// TakeNetwork implements api.Rates.
func (r *rates) TakeNetwork(client netip.Prefix) error {
	return r.limiter.Take("network "+internet.Network(client).String(),
		admission.Rate{Name: networkRate, PerMinute: r.limits[networkRate], ByAddress: true})
}

// takePublic counts a check without a key. A network gets only a share of the rate.
func (r *rates) takePublic(client netip.Prefix) error {
	limit := r.limits[publicRate]
	share := admission.Rate{Name: "public-network", PerMinute: (limit + publicShare - 1) / publicShare, ByAddress: true}
	if err := r.limiter.Take("public "+internet.Network(client).String(), share); err != nil {
		return err
	}
	return r.limiter.Take("public", admission.Rate{Name: publicRate, PerMinute: limit})
}

// settleInterval is how often hosts exchange the uses that they accepted.
const settleInterval = time.Second

// run settles with the other hosts until ctx ends.
func (r *rates) run(ctx context.Context, uses admission.Uses, log *slog.Logger) {
	ticker := time.NewTicker(settleInterval)
	defer ticker.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		work, cancel := context.WithTimeout(ctx, settleInterval)
		err := r.limiter.Settle(work, uses)
		cancel()
		if err != nil && !failed && ctx.Err() == nil {
			log.Warn("rates are not shared between hosts; each host limits alone", "error", err)
		}
		failed = err != nil
	}
}

// publicLimit limits checks without a key. It implements api.Public.
type publicLimit struct {
	store *store.Store
	rates *rates
}

// Take implements api.Public.
func (p publicLimit) Take(ctx context.Context, client netip.Prefix) (time.Time, bool, error) {
	if err := p.rates.takePublic(client); err != nil {
		return time.Time{}, false, err
	}
	return p.store.TakePublic(ctx, client)
}

// Caller implements api.Public.
func (p publicLimit) Caller() check.Caller { return p.store.PublicCaller() }
