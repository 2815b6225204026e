// Package server is one running host: it opens the parts, wires them, serves, and closes them again.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"assay/host/access/admission"
	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/facts"
	"assay/host/facts/feed"
	"assay/host/installation"
	"assay/host/internal/maintenance"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/demotion"
	"assay/host/lineup/replay"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
	"assay/host/web/api"
	"assay/registry"
)

// ErrStopped is returned by a command that was interrupted. It is not reported.
var ErrStopped = errors.New("stopped")

// gcPercent is how much a host allocates between garbage collections, relative to its live heap: twice the default,
// which halves the processor time of collections.
const gcPercent = 200

// Options are the parts of a host that no setting names.
type Options struct {
	LedgerBatch  int            // maximum number of checks recorded in one transaction
	ThirdParties []facts.Source // further sources of facts
}

// Run serves until ctx ends. It closes what it opens in reverse order.
func Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal, options Options) (err error) {
	var closers []func() error
	defer func() {
		for _, closer := range slices.Backward(closers) {
			err = errors.Join(err, closer())
		}
		if err == nil && ctx.Err() != nil {
			err = ErrStopped
		}
	}()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := cfg.MakeDataDir(); err != nil {
		return err
	}
	log, logFile, err := telemetry.OpenLog(cfg.Path("logs"), t.Err)
	if err != nil {
		return err
	}
	closers = append(closers, logFile.Close, func() error { log.Info("stopped"); return nil })

	certificate, err := openCertificate(cfg, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", cfg.Listen, err)
	}
	closers = append(closers, closeOnce(listener))
	operators, err := listenAdmin(ctx, cfg, listener.Addr(), log)
	if err != nil {
		return err
	}
	if operators != nil {
		closers = append(closers, closeOnce(operators))
	}

	b, modules, err := openAndBuild(ctx, cfg, t, log)
	if err != nil {
		return err
	}
	closers = append(closers, b.Close)
	id := newHostID()
	leave, err := succeed(ctx, b, cfg, id)
	if err != nil {
		return err
	}
	closers = append(closers, leave)
	memory, err := lineup.OpenMemory(cfg.MemoryPath())
	if err != nil {
		return err
	}
	trusted, err := b.OpenAuthority(ctx, cfg, memory, true)
	if err != nil {
		return err
	}
	if err := b.Store.Signer().Ready(audit.Checkpoints | audit.Records); err != nil {
		return err
	}
	// An altered database must not keep this host from continuing with the activation that it ran last.
	installed := b.Install(ctx, trusted, modules, log)

	metrics := telemetry.NewMetrics()
	metrics.WatchBuild(installation.Version, installation.Revision(installation.BuildSettings()))
	metrics.WatchDatabase(b.Store.PoolStats)
	box, live := b.OpenSandbox(cfg, log), &check.Live{}
	follower := lineup.NewFollower(&trusted.Verifier, b.Store, box, live, log)
	if err := errors.Join(installed, follower.Follow(ctx)); err != nil {
		if follower.State().Revision == 0 {
			return err
		}
		log.Error("the last activation was refused; continuing with the one that this host ran", "error", err)
	}
	closers = append(closers, func() error { follower.Close(); return nil })
	metrics.WatchLineup(follower)

	allow, err := cfg.WebhookNetworks()
	if err != nil {
		return err
	}
	delivery, err := openDelivery(b, webhook.Config{Allow: allow, Resolver: receiverResolver(cfg), Logger: log,
		Observed: metrics.AttemptEnded})
	if err != nil {
		return err
	}
	closers = append(closers, delivery.close)
	metrics.WatchDelivery(delivery.InFlight)

	graph := b.Store.NewProjection(store.ProjectionConfig{OnApplied: metrics.GraphApplied})
	answered, err := store.OpenAnswered(cfg.Path("answered"))
	if err != nil {
		return err
	}
	ledger, err := b.Store.NewLedger(store.LedgerConfig{Batch: options.LedgerBatch, OnEvents: delivery.Hint,
		Answered: answered, Host: hostName(listener.Addr().String()),
		OnBatch: func(size int, took time.Duration, queued int) {
			metrics.BatchDone(size, took, queued)
			graph.Hint()
		}})
	if err != nil {
		return err
	}
	closers = append(closers, ledger.Close)
	// Compare before the first answer. If the database does not respond, each batch still compares.
	if err := ledger.Compare(ctx); err != nil {
		log.Warn("comparing the audit chains with what was answered failed", "error", err)
	}

	overrides := override.NewIndex(b.Store, b.Store.OverrideKeys(), b.Store.Now, log)
	collector, err := b.OpenLookups(ctx, cfg, log, options.ThirdParties...)
	if err != nil {
		return err
	}
	closers = append(closers, collector.Close)
	subscriber := NewSubscriber(b, cfg, log)
	subscriber.Fetched, subscriber.Observed = metrics.ListFetched, func(lists []feed.Subscription) {
		observeLists(metrics, lists)
	}
	signer := b.Store.Signer()
	witnesses, err := cfg.Witnesses()
	if err != nil {
		return err
	}
	submitter := auditlog.NewSubmitter(b.Store, signer, witnesses, log)
	metrics.WatchWitnesses(submitter.Names(), submitter.Waiting)
	degraded := degradations{
		{submitter.Contradicted, contradictionRemedy}, {submitter.Delayed, witnessRemedy},
		{follower.Degraded, lineupRemedy}, {collector.Problems, dnsRemedy}, {subscriber.Degraded, listsRemedy},
		{func() []string { return ignoredOverrides(overrides) }, overridesRemedy},
		{certificate.Degraded, certificateRemedy}, {func() []string { return KeyElsewhere(signer) }, keyRemedy},
	}
	metrics.WatchDegraded(degraded.list, collector.Problems)
	metrics.WatchOverrides(overrides.Size, overrides.Ignored)

	recent := replay.NewRing(replay.DefaultChecks, replay.DefaultBytes)

	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	closers = append(closers, func() error { stopBackground(); running.Wait(); return nil })
	running.Go(func() { b.Store.Watch(background) })
	running.Go(func() { ledger.Guard(background) })
	running.Go(func() { follower.Run(background) })
	gate := admission.NewGate(admission.Config{Processors: runtime.GOMAXPROCS(0), Target: installation.CheckTarget,
		BatchTarget: installation.BatchTarget, Recording: ledger.Pace})
	metrics.WatchGate(gate.InProgress, gate.Wait)
	preparer := &lineup.Preparer{Candidates: b.Store, Follower: follower, Host: id, Log: log,
		Measure: func(ctx context.Context, candidate *check.Lineup) (any, error) {
			return recent.Report(ctx, live, candidate, gate.Spare)
		}}
	running.Go(func() { preparer.Run(background) })
	tally := &replay.Tally{}
	shadow := newShadow(collector, gate, metrics, tally)
	running.Go(func() { shadow.Run(background) })
	name := hostName(listener.Addr().String())
	steps := newSteps(b, trusted, name)
	watch := newWatch(live, collector, gate, steps, metrics, log)
	running.Go(func() { watch.Run(background) })
	pulse := newPulse(b, preparer.Host, name, follower, watch, log)
	pulse.Shadow = tally.JSON
	metrics.WatchFleet(follower, pulse.Alive)
	running.Go(func() { pulse.Run(background) })
	layers := demotion.NewWatch()
	running.Go(func() { demote(background, layers.Found(), steps, metrics, log) })
	local := []maintenance.Job{
		{Name: "return unused memory", Every: 2 * time.Minute, Run: follower.Trim},
		{Name: "forget old checks", Every: time.Minute, Run: recent.Trim},
		{Name: "verify the DNS servers", Every: installation.CanaryInterval, Run: collector.VerifyDNS},
		{Name: "rotate the log file", Every: jobInterval, Run: func(context.Context) error {
			return logFile.RotateIfDue(time.Now())
		}},
	}
	if certificate != nil {
		metrics.WatchCertificate(certificate.Expiry)
		local = append(local, maintenance.Job{Name: "read the TLS certificate", Every: certificateInterval,
			Run: certificate.Refresh})
	}
	queues := readQueues(b, metrics.WatchQueues())
	keeper := &auditlog.Keeper{Store: b.Store, Signer: signer, Trust: trusted.Trust, Dir: cfg.CheckpointDir(),
		Logger: log, Covered: metrics.CheckpointStored}
	metrics.WatchAudit(func() int { return len(keeper.Status().Problems) + len(submitter.Contradicted()) })
	running.Go(func() { submitter.Run(background) })
	running.Go(func() { keeper.Run(background) })
	payments := newBilling(b, cfg)
	local = append(local, maintenance.Job{Name: "refund second subscriptions", Every: jobInterval,
		Run: payments.RefundDue})
	for _, jobs := range append(jobs(b, keeper), local, queues) {
		running.Go(func() { maintenance.Run(background, log, jobs) })
	}
	running.Go(func() { delivery.Run(background) })
	running.Go(func() { graph.Run(background) })
	requests := &privacy.Runner{Queue: b.Store, Every: requestInterval, Logger: log,
		Late: func() time.Duration { _, _, late := ledger.Pace(); return late }}
	running.Go(func() { requests.Run(background) })
	running.Go(func() { subscriber.Run(background) })
	running.Go(func() {
		b.Store.Listen(background, func(topic store.Topic) {
			if subject, ok := topic.Erased(); ok {
				recent.Erase(subject)
			}
			switch topic {
			case store.TopicKeys:
				b.Store.ForgetCallers()
			case store.TopicFeeds:
				collector.Similar.Hint()
			case store.TopicLineup:
				follower.LineupChanged()
			case store.TopicPlugins:
				follower.PluginsPublished()
			case store.TopicCandidates:
				preparer.CandidatesChanged()
			case store.TopicOverrides:
				overrides.Hint()
			}
		})
	})

	checker := installation.NewChecker(live, ledger, &telemetry.Observer{Metrics: metrics, Logger: log})
	checker.Collector, checker.Gate, checker.BatchDeadline = collector, gate, installation.BatchTimeout
	checker.Memory, checker.Shadow, checker.Trial = memories{recent, layers}, shadow, watch
	checker.Overrides = overrides

	proxies, err := cfg.Proxies()
	if err != nil {
		return err
	}
	explainer := &decision.Explainer{Records: b.Store, Scorer: checker, Collector: collector,
		Past: lineup.NewPast(follower), Turn: gate.Spare, Logger: log}
	ready := readiness{b.Store, follower, collector.Similar, overrides}
	var server *api.Server
	limits, err := cfg.RateLimits()
	if err != nil {
		return err
	}
	rates := newRates(limits)
	running.Go(func() { rates.run(background, b.Store, log) })
	public := publicLimit{b.Store, rates}
	reports := &feedback.Desk{Store: b.Store, Scorer: checker}
	slots := admission.NewShares(eventSlots)
	pages, err := newConsole(b, cfg, payments, checker, explainer, reports, public, slots, clients{
		address: func(r *fasthttp.RequestCtx) netip.Prefix { return server.Client(r) },
		shared:  func(r *fasthttp.RequestCtx) bool { return server.Shared(r) },
	}, log)
	if err != nil {
		return err
	}
	running.Go(func() { pages.Run(background) })
	server = api.New(api.Config{
		Checker:        checker,
		Keys:           b.Store,
		Public:         public,
		Rates:          rates,
		Answers:        ledger,
		Door:           gate,
		Refused:        metrics.CheckRefused,
		Answered:       metrics.RequestAnswered,
		Used:           b.Store.NoteUse,
		Events:         EventFeed{b.Store},
		EventSlots:     slots,
		Privacy:        b.Store,
		Decisions:      b.Store,
		Explainer:      explainer,
		Feedback:       reports,
		Overrides:      b.Store,
		AuditLog:       auditlog.Files{Store: b.Store},
		Receipts:       auditlog.Receipts{Store: b.Store, Signer: keeper.Signer},
		Outage:         store.IsOutage,
		Ready:          ready.err,
		ProviderEvent:  providerEvents(payments, log),
		Pages:          pages.Handler(),
		TLS:            certificate.Config(),
		HTTPS:          cfg.TLSCert != "" || strings.HasPrefix(cfg.URL, "https://"),
		TrustedProxies: proxies,
		Logger:         log,
		Version:        installation.Version,
	})
	metrics.WatchServer(server.Load)
	metrics.WatchReady(func() bool { return ready.err() == nil && !server.Draining() })
	page, err := newOperatorPage(&observer{
		cfg: cfg, id: id, name: name, version: installation.VersionLine(), address: listener.Addr(), began: time.Now(),
		signs: trusted.Operator != nil, testing: payments.Provider.Test(), store: b.Store, follower: follower,
		gate: gate, metrics: metrics, keeper: keeper, forwarded: server.Forwarded, ready: ready.problems,
		degraded: degraded,
	}, b.Keys.Operators, log)
	if err != nil {
		return err
	}
	served := make(chan error, 2)
	closers = append(closers, serveAdmin(operators, admin.Config{
		Metrics: metrics.Handler(), Operator: page, Ready: ready.problems, Degraded: degraded.list,
		Draining: server.Draining, Version: installation.Version, Logger: log,
	}, served))
	go func() { served <- server.Serve(listener) }()
	leaving := &exit{server: server, log: log, terminal: t}
	closers = append(closers, leaving.finish)

	// Until overrides and lists have been read, checks are refused and the host is not ready. Run tries again after a
	// failure.
	if err := overrides.Load(ctx); err != nil {
		log.Warn("reading overrides failed", "error", err)
	}
	running.Go(func() { overrides.Run(background) })
	if err := collector.Similar.Load(ctx); err != nil {
		log.Warn("reading the imported lists failed", "error", err)
	}
	running.Go(func() { collector.Similar.Run(background) })
	if err := greet(ctx, cfg, t, b, listener.Addr(), operators); err != nil {
		return err
	}
	log.Info("ready", "address", listener.Addr().String(), "version", installation.Version)
	notifyReady(log)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		notifyStopping(log, cfg.DrainTime(t))
		leaving.drain(cfg.DrainTime(t))
		return nil
	}
}

// openAndBuild opens the database and builds the layers concurrently. These are the two longest steps of a first start.
func openAndBuild(
	ctx context.Context, cfg *installation.Config, t *terminal.Terminal, log *slog.Logger,
) (b *installation.Backend, modules []registry.Module, err error) {
	if _, err := cfg.CreateInstallation(); err != nil { // which both need
		return nil, nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		modules, err = installation.BuiltInLayers(gctx, cfg, t)
		return err
	})
	g.Go(func() (err error) {
		b, err = installation.Open(gctx, cfg, t, log, store.CreateSchema)
		return err
	})
	if err := g.Wait(); err != nil {
		if b != nil {
			err = errors.Join(err, b.Close())
		}
		return nil, nil, err
	}
	return b, modules, nil
}

// NewSubscriber returns a subscriber that stores lists in the database.
func NewSubscriber(b *installation.Backend, cfg *installation.Config, log *slog.Logger) *feed.Subscriber {
	return &feed.Subscriber{Store: b.Store, Version: installation.Version, DNS: cfg.ConfiguredResolvers(), Logger: log,
		Now: time.Now}
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

// jobInterval is how often most jobs run. longJobLimit is long enough for jobs that read whole large tables.
const (
	jobInterval     = 10 * time.Minute
	requestInterval = 2 * time.Second // between two polls for privacy requests in the background
	longJobLimit    = 6 * time.Hour
)

// jobs returns the periodic jobs that use the database: first the short ones, of which one runs at a time, and those
// that read whole tables, which must not delay them.
func jobs(b *installation.Backend, keeper *auditlog.Keeper) [][]maintenance.Job {
	return [][]maintenance.Job{{
		{Name: "store the last uses of keys", Every: time.Minute, Run: b.Store.SaveKeyUses, AtStop: true},
		{Name: "create partitions", Every: jobInterval, Run: b.Store.EnsurePartitions, AtStop: true},
		{Name: "prune the limits of the public check", Every: jobInterval, Run: b.Store.PrunePublic, AtStop: true},
		{Name: "prune the limits of requests a minute", Every: jobInterval, Run: b.Store.PruneRates, AtStop: true},
		{Name: "prune webhook events", Every: jobInterval, Run: b.Store.PruneWebhooks, AtStop: true},
		{Name: "prune settlements of batches", Every: jobInterval, Run: b.Store.PruneSettlements},
		{Name: "prune kept answers", Every: jobInterval, Run: b.Store.PruneAnswers, AtStop: true},
		{Name: "prune privacy requests", Every: jobInterval, Run: b.Store.PruneRequests, AtStop: true},
		{Name: "forget hosts that were killed", Every: jobInterval, Run: b.Store.PruneHosts},
		{Name: "prune overrides", Every: jobInterval, Run: b.Store.PruneOverrides, AtStop: true},
		{Name: "prune registrations", Every: jobInterval, Run: b.Store.PruneRegistrations, AtStop: true},
		{Name: "delete expired sessions", Every: jobInterval, Run: b.Store.PruneSignIns, AtStop: true},
		{Name: "end subscriptions", Every: jobInterval, Run: b.Store.EndSubscriptions, AtStop: true},
		{Name: "delete old billing data", Every: jobInterval, Run: b.Store.PruneBilling, AtStop: true},
		{Name: "sign checkpoints", Every: jobInterval, Run: keeper.SignHeads, AtStop: true},
	}, {
		{Name: "tidy checkpoints", Every: time.Hour, Limit: longJobLimit, Run: keeper.Tidy},
		{Name: "prune the reputation graph", Every: 24 * time.Hour, Limit: longJobLimit, Run: b.Store.PruneSightings},
		{Name: "prune the audit log", Every: jobInterval, Limit: longJobLimit, Run: keeper.Prune},
	}}
}

// closeOnce returns a function that closes a listener unless its server has closed it already.
func closeOnce(l net.Listener) func() error {
	return func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}
