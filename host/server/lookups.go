package server

import (
	"context"
	"fmt"

	"assay/host/customer/override"
	"assay/host/facts"
	"assay/host/facts/feed"
	"assay/host/installation"
	"assay/host/store"
	"assay/host/telemetry"
)

// readAgain is the remedy for data that could not be read yet.
const readAgain = "They are read from the database. The host keeps trying, and its log says why it failed."

// openLookups opens the sources of facts, imported lists included.
func openLookups(ctx context.Context, h *host) (part, error) {
	l, err := installation.OpenLookups(ctx, h.cfg, h.store, h.log, h.options.ThirdParties...)
	if err != nil {
		return part{}, err
	}
	h.lookups = l
	return part{
		Collect: func(m *telemetry.Metrics) {
			sources, count := l.Lookups()
			m.WatchLookups(sources, facts.Outcomes[:], count)
		},
		Load: func(ctx context.Context) {
			if err := l.Similar.Load(ctx); err != nil {
				h.log.Warn("reading the imported lists failed", "error", err)
			}
		},
		Run: []func(context.Context){l.Similar.Run},
		Jobs: jobs{localJobs: {
			{Name: "verify the DNS servers", Every: installation.CanaryInterval, Run: l.VerifyDNS},
			{Name: "judge the lookups", Every: facts.JudgeInterval, Run: l.Judge},
		}},
		Changed:   map[store.Topic]func(){store.TopicFeeds: l.Similar.Hint},
		Obstacles: func() []obstacle { return unless("lists", l.Similar.Ready(), readAgain) },
		Problems: []problems{
			{l.FalseDNS,
				"The host does not use the server while it gives false answers. Set `ASSAY_DNS` to another one."},
			{l.Failing, "Checks are answered without these facts, and name the source as silent. Make sure that this " +
				"host reaches the servers of `ASSAY_DNS` (dns, net) and of the registries (rdap)."},
		},
		Close: l.Close,
	}, nil
}

// openLists opens the subscriber, which fetches the subscribed lists.
func openLists(_ context.Context, h *host) (part, error) {
	s := installation.NewSubscriber(h.store, h.cfg, h.log)
	return part{
		Collect: func(m *telemetry.Metrics) {
			s.Fetched, s.Observed = m.ListFetched, func(all []feed.Subscription) { observeLists(m, all) }
		},
		Run: []func(context.Context){s.Run},
		Problems: []problems{{s.Degraded, "`assay feeds status` shows all lists. `assay feeds accept NAME` imports a " +
			"version that is held back."}},
	}, nil
}

// observeLists updates the metrics of the subscribed lists.
func observeLists(m *telemetry.Metrics, lists []feed.Subscription) {
	states := make([]telemetry.ListState, len(lists))
	for i, l := range lists {
		states[i] = telemetry.ListState{Name: l.Name, Entries: l.Entries}
		if l.ConfirmedAt != nil {
			states[i].Confirmed = *l.ConfirmedAt
		}
	}
	m.ListsObserved(states)
}

// openOverrides opens the verdicts set in advance.
func openOverrides(_ context.Context, h *host) (part, error) {
	o := override.NewIndex(h.store, h.store.OverrideKeys(), h.store.Now, h.log)
	h.overrides = o
	return part{
		Collect: func(m *telemetry.Metrics) { m.WatchOverrides(o.Size, o.Ignored) },
		Load: func(ctx context.Context) {
			if err := o.Load(ctx); err != nil {
				h.log.Warn("reading overrides failed", "error", err)
			}
		},
		Run:       []func(context.Context){o.Run},
		Changed:   map[store.Topic]func(){store.TopicOverrides: o.Hint},
		Obstacles: func() []obstacle { return unless("overrides", o.Ready(), readAgain) },
		Problems: []problems{{func() []string { return ignoredOverrides(o) },
			"`assay audit verify` says which records were altered. Remove these overrides and set them again."}},
	}, nil
}

// ignoredOverrides returns a sentence if overrides are ignored.
func ignoredOverrides(overrides *override.Index) []string {
	ids := overrides.Ignored()
	if len(ids) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d overrides are ignored, because their rows were altered: see assay overrides list",
		len(ids))}
}
