package server

import (
	"context"
	"fmt"
	"log/slog"

	"assay/host/customer/override"
	"assay/host/facts/feed"
	"assay/host/installation"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
)

// readAgain is the remedy for what could not be read yet.
const readAgain = "They are read from the database. The host keeps trying, and its log says why it failed."

// lookups are the sources of facts. The imported lists are loaded.
type lookups struct {
	*installation.Lookups
	log *slog.Logger
}

var (
	_ loader      = (*lookups)(nil)
	_ worker      = (*lookups)(nil)
	_ notified    = (*lookups)(nil)
	_ requirement = (*lookups)(nil)
	_ fallible    = (*lookups)(nil)
	_ closer      = (*lookups)(nil)
)

func openLookups(ctx context.Context, h *host) (part, error) {
	opened, err := installation.OpenLookups(ctx, h.cfg, h.store, h.log, h.options.ThirdParties...)
	if err != nil {
		return nil, err
	}
	h.lookups = &lookups{opened, h.log}
	return h.lookups, nil
}

// Load implements loader.
func (l *lookups) Load(ctx context.Context) {
	if err := l.Similar.Load(ctx); err != nil {
		l.log.Warn("reading the imported lists failed", "error", err)
	}
}

// Run implements runner.
func (l *lookups) Run(ctx context.Context) { l.Similar.Run(ctx) }

// Jobs implements worker.
func (l *lookups) Jobs() jobs {
	return jobs{localJobs: {{Name: "verify the DNS servers", Every: installation.CanaryInterval, Run: l.VerifyDNS}}}
}

// Changed implements notified.
func (l *lookups) Changed(topic store.Topic) {
	if topic == store.TopicFeeds {
		l.Similar.Hint()
	}
}

// Obstacles implements requirement.
func (l *lookups) Obstacles() []obstacle {
	if err := l.Similar.Ready(); err != nil {
		return []obstacle{{admin.Problem{Part: "lists", Err: err}, readAgain}}
	}
	return nil
}

// Problems implements fallible.
func (l *lookups) Problems() []problem {
	return problemsOf(l.FalseDNS(),
		"The host does not use the server while it gives false answers. Set `ASSAY_DNS` to another one.")
}

// lists are the subscribed lists, which the host fetches.
type lists struct{ *feed.Subscriber }

var (
	_ collector = lists{}
	_ runner    = lists{}
	_ fallible  = lists{}
)

func openLists(_ context.Context, h *host) (part, error) {
	return lists{installation.NewSubscriber(h.store, h.cfg, h.log)}, nil
}

// Collect implements collector.
func (l lists) Collect(m *telemetry.Metrics) {
	l.Fetched = m.ListFetched
	l.Observed = func(all []feed.Subscription) {
		states := make([]telemetry.ListState, len(all))
		for i, s := range all {
			states[i] = telemetry.ListState{Name: s.Name, Entries: s.Entries}
			if s.ConfirmedAt != nil {
				states[i].Confirmed = *s.ConfirmedAt
			}
		}
		m.ListsObserved(states)
	}
}

// Problems implements fallible.
func (l lists) Problems() []problem {
	return problemsOf(l.Degraded(), "`assay feeds status` shows all lists. `assay feeds accept NAME` imports a version "+
		"that is held back.")
}

// overrides are the verdicts set in advance, which are loaded.
type overrides struct {
	*override.Index
	log *slog.Logger
}

var (
	_ collector   = overrides{}
	_ loader      = overrides{}
	_ notified    = overrides{}
	_ requirement = overrides{}
	_ fallible    = overrides{}
)

func openOverrides(_ context.Context, h *host) (part, error) {
	h.overrides = override.NewIndex(h.store, h.store.OverrideKeys(), h.store.Now, h.log)
	return overrides{h.overrides, h.log}, nil
}

// Collect implements collector.
func (o overrides) Collect(m *telemetry.Metrics) { m.WatchOverrides(o.Size, o.Ignored) }

// Load implements loader.
func (o overrides) Load(ctx context.Context) {
	if err := o.Index.Load(ctx); err != nil {
		o.log.Warn("reading overrides failed", "error", err)
	}
}

// Changed implements notified.
func (o overrides) Changed(topic store.Topic) {
	if topic == store.TopicOverrides {
		o.Hint()
	}
}

// Obstacles implements requirement.
func (o overrides) Obstacles() []obstacle {
	if err := o.Ready(); err != nil {
		return []obstacle{{admin.Problem{Part: "overrides", Err: err}, readAgain}}
	}
	return nil
}

// Problems implements fallible.
func (o overrides) Problems() []problem {
	ids := o.Ignored()
	if len(ids) == 0 {
		return nil
	}
	return []problem{{fmt.Sprintf("%d overrides are ignored, because their rows were altered: see assay overrides list",
		len(ids)),
		"`assay audit verify` says which records were altered. Remove these overrides and set them again."}}
}
