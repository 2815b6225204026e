package server

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/installation"
	"assay/host/internal/internet"
	"assay/host/internal/maintenance"
	"assay/host/store"
)

// rates limits how often requests come, together with the other hosts.
type rates struct {
	limiter *admission.Limiter
	limits  map[string]int
	quotas  map[string]int // by plan
	uses    admission.Uses // of all hosts
	log     *slog.Logger
}

func newRates(limits map[string]int, uses admission.Uses, log *slog.Logger) *rates {
	quotas := map[string]int{}
	for _, p := range check.Plans() {
		quotas[p.Name] = p.Quota
	}
	return &rates{limiter: admission.NewLimiter(time.Now), limits: limits, quotas: quotas,
		uses: uses, log: log}
}

// maxBurst is how many checks of an account may come at once (contract section 8).
const maxBurst = 1500

// TakeCheck implements api.Rates. The bucket of checks holds the account's quota and a few more, which are then refused
// because of the quota, not of the rate.
func (r *rates) TakeCheck(caller check.Caller) error {
	rate := r.rate(caller)
	rate.Name += "-checks"
	rate.Burst = min(caller.Plan.Quota, maxBurst) + rate.PerMinute/12
	return r.limiter.Take("checks "+caller.Key, rate)
}

// TakeKey implements api.Rates.
func (r *rates) TakeKey(caller check.Caller) error {
	return r.limiter.Take("key "+caller.Key, r.rate(caller))
}

// rate returns the rate of a key. An account whose quota exceeds its plan's has a proportionally higher rate.
func (r *rates) rate(caller check.Caller) admission.Rate {
	limit := r.limits[caller.Plan.Name]
	if usual := r.quotas[caller.Plan.Name]; usual > 0 && caller.Plan.Quota > usual {
		limit = int(min(float64(limit)*float64(caller.Plan.Quota)/float64(usual), installation.MaxRate))
	}
	return admission.Rate{Name: caller.Plan.Name, PerMinute: limit}
}

// TakeNetwork implements api.Rates.
func (r *rates) TakeNetwork(client netip.Prefix) error {
	return r.limiter.Take("network "+internet.Network(client).String(),
		admission.Rate{Name: installation.NetworkRate, PerMinute: r.limits[installation.NetworkRate], ByAddress: true})
}

// takePublic counts a check without a key. Each network has its own rate, so that it cannot use up the rate of another,
// however many networks there are.
func (r *rates) takePublic(client netip.Prefix) error {
	return r.limiter.Take("public "+internet.Network(client).String(),
		admission.Rate{Name: installation.PublicRate, PerMinute: r.limits[installation.PublicRate], ByAddress: true})
}

// settleInterval is how often hosts exchange the uses that they accepted.
const settleInterval = time.Second

// Run settles with the other hosts until ctx ends.
func (r *rates) Run(ctx context.Context) {
	failed := false
	for maintenance.Pause(ctx, settleInterval) {
		work, cancel := context.WithTimeout(ctx, settleInterval)
		err := r.limiter.Settle(work, r.uses)
		cancel()
		if err != nil && !failed && ctx.Err() == nil {
			r.log.Warn("rates are not shared between hosts; each host limits alone", "error", err)
		}
		failed = err != nil
	}
}

// publicLimit limits checks without a key. It implements api.Public.
type publicLimit struct {
	store *store.Store
	rates *rates
}

// Take implements api.Public. A check beyond its address's hourly number uses up nothing of its network's rate.
func (p publicLimit) Take(ctx context.Context, client netip.Prefix) (time.Time, bool, error) {
	if until, spent := p.store.PublicSpent(client); spent {
		return until, false, nil
	}
	if err := p.rates.takePublic(client); err != nil {
		return time.Time{}, false, err
	}
	return p.store.TakePublic(ctx, client)
}

// GiveBack implements api.Public.
func (p publicLimit) GiveBack(ctx context.Context, client netip.Prefix) error {
	return p.store.GiveBack(ctx, client)
}

// Caller implements api.Public.
func (p publicLimit) Caller() check.Caller { return p.store.PublicCaller() }
