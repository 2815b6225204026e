package main

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

	"assay/host/admin"
	"assay/host/admission"
	"assay/host/api"
	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/decision"
	"assay/host/demotion"
	"assay/host/facts"
	"assay/host/feed"
	"assay/host/feedback"
	"assay/host/lineup"
	"assay/host/maintenance"
	"assay/host/override"
	"assay/host/privacy"
	"assay/host/replay"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/webhook"
	"assay/registry"
)

// errStopped is returned by a command that was interrupted. It is not reported.
var errStopped = errors.New("stopped")

// The time limits of a host. Those of a single request are in package api.
const (
	lookupTimeout  = 80 * time.Millisecond  // a DNS answer; later ones are absent
	checkTimeout   = 300 * time.Millisecond // lookups and layers of one check; a check that takes longer is refused
	batchTimeout   = 2 * time.Second        // the same for a batch, whose checks wait for each other
	checkTarget    = 160 * time.Millisecond // a check is refused if its answer would take longer
	batchTarget    = time.Second            // the same for a batch
	drainTimeout   = 10 * time.Second       // requests in progress when the host stops
	stopTimeout    = 20 * time.Second       // stopping Postgres
	canaryInterval = 3 * time.Minute        // between questions that show whether a DNS server is honest
)

// gcPercent is how much a host allocates between garbage collections, relative to its live heap: twice the default,
// which halves the processor time of collections.
const gcPercent = 200

type serveCmd struct {
	LedgerBatch int `default:"256" help:"Maximum number of checks recorded in one database transaction."`

	thirdParties []facts.Source // further sources of facts; tests replay answers through them
}

// Run serves until ctx ends. It closes what it opens in reverse order.
func (cmd *serveCmd) Run(ctx context.Context, cfg *Config, t *terminal) (err error) {
	var closers []func() error
	defer func() {
		for _, closer := range slices.Backward(closers) {
			err = errors.Join(err, closer())
		}
		if err == nil && ctx.Err() != nil {
			err = errStopped
		}
	}()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := cfg.makeDataDir(); err != nil {
		return err
	}
	log, logFile, err := telemetry.OpenLog(cfg.path("logs"), t.err)
	if err != nil {
		return err
	}
	closers = append(closers, logFile.Close, func() error { log.Info("stopped"); return nil })

	certificate, err := cfg.openCertificate(log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", cfg.Listen, err)
	}
	closers = append(closers, closeOnce(listener))
	operators, err := cfg.listenAdmin(ctx, listener.Addr(), log)
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
	closers = append(closers, b.close)
	id := newHostID()
	leave, err := b.succeed(ctx, cfg, id)
	if err != nil {
		return err
	}
	closers = append(closers, leave)
	memory, err := lineup.OpenMemory(cfg.memoryFile())
	if err != nil {
		return err
	}
	trusted, err := b.openAuthority(ctx, cfg, memory, true)
	if err != nil {
		return err
	}
	if err := b.store.Signer().Ready(audit.Checkpoints | audit.Records); err != nil {
		return err
	}
	// An altered database must not keep this host from continuing with the activation that it ran last.
	installed := b.install(ctx, trusted, modules, log)

	metrics := telemetry.NewMetrics()
	metrics.WatchBuild(version, revision(buildSettings()))
	metrics.WatchDatabase(b.store.PoolStats)
	box, live := b.openSandbox(cfg, log), &check.Live{}
	follower := lineup.NewFollower(&trusted.Verifier, b.store, box, live, log)
	if err := errors.Join(installed, follower.Follow(ctx)); err != nil {
		if follower.State().Revision == 0 {
			return err
		}
		log.Error("the last activation was refused; continuing with the one that this host ran", "error", err)
	}
	closers = append(closers, func() error { follower.Close(); return nil })
	metrics.WatchLineup(follower)

	allow, err := cfg.webhookAllow()
	if err != nil {
		return err
	}
	delivery, err := b.openDelivery(webhook.Config{Allow: allow, Resolver: cfg.receiverResolver(), Logger: log,
		Observed: metrics.AttemptEnded})
	if err != nil {
		return err
	}
	closers = append(closers, delivery.close)
	metrics.WatchDelivery(delivery.InFlight)

	graph := b.store.NewProjection(store.ProjectionConfig{OnApplied: metrics.GraphApplied})
	answered, err := store.OpenAnswered(cfg.path("answered"))
	if err != nil {
		return err
	}
	ledger, err := b.store.NewLedger(store.LedgerConfig{Batch: cmd.LedgerBatch, OnEvents: delivery.Hint,
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

	overrides := override.NewIndex(b.store, b.store.OverrideKeys(), b.store.Now, log)
	collector, err := b.openLookups(ctx, cfg, log, cmd.thirdParties...)
	if err != nil {
		return err
	}
	closers = append(closers, collector.close)
	subscriber := b.newSubscriber(cfg, log)
	subscriber.Fetched, subscriber.Observed = metrics.ListFetched, func(lists []feed.Subscription) {
		observeLists(metrics, lists)
	}
	signer := b.store.Signer()
	witnesses, err := cfg.witnesses()
	if err != nil {
		return err
	}
	submitter := auditlog.NewSubmitter(b.store, signer, witnesses, log)
	metrics.WatchWitnesses(submitter.Names(), submitter.Waiting)
	degraded := degradations{
		{submitter.Contradicted, contradictionRemedy}, {submitter.Delayed, witnessRemedy},
		{follower.Degraded, lineupRemedy}, {collector.problems, dnsRemedy}, {subscriber.Degraded, listsRemedy},
		{func() []string { return ignoredOverrides(overrides) }, overridesRemedy},
		{certificate.Degraded, certificateRemedy}, {func() []string { return keyElsewhere(signer) }, keyRemedy},
	}
	metrics.WatchDegraded(degraded.list, collector.problems)
	metrics.WatchOverrides(overrides.Size, overrides.Ignored)

	recent := replay.NewRing(replay.DefaultChecks, replay.DefaultBytes)

	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	closers = append(closers, func() error { stopBackground(); running.Wait(); return nil })
	running.Go(func() { b.store.Watch(background) })
	running.Go(func() { ledger.Guard(background) })
	running.Go(func() { follower.Run(background) })
	gate := admission.NewGate(admission.Config{Processors: runtime.GOMAXPROCS(0), Target: checkTarget,
		BatchTarget: batchTarget, Recording: ledger.Pace})
	metrics.WatchGate(gate.InProgress, gate.Wait)
	preparer := &lineup.Preparer{Candidates: b.store, Follower: follower, Host: id, Log: log,
		Measure: func(ctx context.Context, candidate *check.Lineup) (any, error) {
			return recent.Report(ctx, live, candidate, gate.Spare)
		}}
	running.Go(func() { preparer.Run(background) })
	tally := &replay.Tally{}
	shadow := newShadow(collector, gate, metrics, tally)
	running.Go(func() { shadow.Run(background) })
	name := hostName(listener.Addr().String())
	steps := b.newSteps(trusted, name)
	watch := newWatch(live, collector, gate, steps, metrics, log)
	running.Go(func() { watch.Run(background) })
	pulse := b.newPulse(preparer.Host, name, follower, watch, log)
	pulse.Shadow = tally.JSON
	metrics.WatchFleet(follower, pulse.Alive)
	running.Go(func() { pulse.Run(background) })
	layers := demotion.NewWatch()
	running.Go(func() { demote(background, layers.Found(), steps, metrics, log) })
	local := []maintenance.Job{
		{Name: "return unused memory", Every: 2 * time.Minute, Run: follower.Trim},
		{Name: "forget old checks", Every: time.Minute, Run: recent.Trim},
		{Name: "verify the DNS servers", Every: canaryInterval, Run: collector.verifyDNS},
		{Name: "rotate the log file", Every: jobInterval, Run: func(context.Context) error {
			return logFile.RotateIfDue(time.Now())
		}},
	}
	if certificate != nil {
		metrics.WatchCertificate(certificate.Expiry)
		local = append(local, maintenance.Job{Name: "read the TLS certificate", Every: certificateInterval,
			Run: certificate.Refresh})
	}
	queues := b.readQueues(metrics.WatchQueues())
	keeper := &auditlog.Keeper{Store: b.store, Signer: signer, Trust: trusted.Trust, Dir: cfg.checkpointDir(),
		Logger: log, Covered: metrics.CheckpointStored}
	metrics.WatchAudit(func() int { return len(keeper.Status().Problems) + len(submitter.Contradicted()) })
	running.Go(func() { submitter.Run(background) })
	running.Go(func() { keeper.Run(background) })
	payments := b.newBilling(cfg)
	local = append(local, maintenance.Job{Name: "refund second subscriptions", Every: jobInterval,
		Run: payments.RefundDue})
	for _, jobs := range append(b.jobs(keeper), local, queues) {
		running.Go(func() { maintenance.Run(background, log, jobs) })
	}
	running.Go(func() { delivery.Run(background) })
	running.Go(func() { graph.Run(background) })
	requests := &privacy.Runner{Queue: b.store, Every: requestInterval, Logger: log,
		Late: func() time.Duration { _, _, late := ledger.Pace(); return late }}
	running.Go(func() { requests.Run(background) })
	running.Go(func() { subscriber.Run(background) })
	running.Go(func() {
		b.store.Listen(background, func(topic store.Topic) {
			if subject, ok := topic.Erased(); ok {
				recent.Erase(subject)
			}
			switch topic {
			case store.TopicKeys:
				b.store.ForgetCallers()
			case store.TopicFeeds:
				collector.similar.Hint()
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

	checker := newChecker(live, ledger, &telemetry.Observer{Metrics: metrics, Logger: log})
	checker.Collector, checker.Gate, checker.BatchDeadline = collector, gate, batchTimeout
	checker.Memory, checker.Shadow, checker.Trial = memories{recent, layers}, shadow, watch
	checker.Overrides = overrides

	proxies, err := cfg.proxies()
	if err != nil {
		return err
	}
	explainer := &decision.Explainer{Records: b.store, Scorer: checker, Collector: collector,
		Past: lineup.NewPast(follower), Turn: gate.Spare, Logger: log}
	ready := readiness{b.store, follower, collector.similar, overrides}
	var server *api.Server
	limits, err := cfg.rates()
	if err != nil {
		return err
	}
	rates := newRates(limits)
	running.Go(func() { rates.run(background, b.store, log) })
	public := publicLimit{b.store, rates}
	reports := &feedback.Desk{Store: b.store, Scorer: checker}
	slots := admission.NewShares(eventSlots)
	pages, err := b.newConsole(cfg, payments, checker, explainer, reports, public, slots, clients{
		address: func(r *fasthttp.RequestCtx) netip.Prefix { return server.Client(r) },
		shared:  func(r *fasthttp.RequestCtx) bool { return server.Shared(r) },
	}, log)
	if err != nil {
		return err
	}
	running.Go(func() { pages.Run(background) })
	server = api.New(api.Config{
		Checker:        checker,
		Keys:           b.store,
		Public:         public,
		Rates:          rates,
		Answers:        ledger,
		Door:           gate,
		Refused:        metrics.CheckRefused,
		Answered:       metrics.RequestAnswered,
		Used:           b.store.NoteUse,
		Events:         eventFeed{b.store},
		EventSlots:     slots,
		Privacy:        b.store,
		Decisions:      b.store,
		Explainer:      explainer,
		Feedback:       reports,
		Overrides:      b.store,
		AuditLog:       auditlog.Files{Store: b.store},
		Receipts:       auditlog.Receipts{Store: b.store, Signer: keeper.Signer},
		Outage:         store.IsOutage,
		Ready:          ready.err,
		ProviderEvent:  providerEvents(payments, log),
		Pages:          pages.Handler(),
		TLS:            certificate.Config(),
		HTTPS:          cfg.TLSCert != "" || strings.HasPrefix(cfg.URL, "https://"),
		TrustedProxies: proxies,
		Logger:         log,
		Version:        version,
	})
	metrics.WatchServer(server.Load)
	metrics.WatchReady(func() bool { return ready.err() == nil && !server.Draining() })
	page, err := newOperatorPage(&observer{
		cfg: cfg, id: id, name: name, version: versionLine(), address: listener.Addr(), began: time.Now(),
		signs: trusted.operator != nil, testing: payments.Provider.Test(), store: b.store, follower: follower,
		gate: gate, metrics: metrics, keeper: keeper, forwarded: server.Forwarded, ready: ready.problems,
		degraded: degraded,
	}, b.keys.Operators, log)
	if err != nil {
		return err
	}
	served := make(chan error, 2)
	closers = append(closers, serveAdmin(operators, admin.Config{
		Metrics: metrics.Handler(), Operator: page, Ready: ready.problems, Degraded: degraded.list,
		Draining: server.Draining, Version: version, Logger: log,
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
	if err := collector.similar.Load(ctx); err != nil {
		log.Warn("reading the imported lists failed", "error", err)
	}
	running.Go(func() { collector.similar.Run(background) })
	if err := cmd.greet(ctx, cfg, t, b, listener.Addr(), operators); err != nil {
		return err
	}
	log.Info("ready", "address", listener.Addr().String(), "version", version)
	notifyReady(log)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		notifyStopping(log, cfg.drain(t))
		leaving.drain(cfg.drain(t))
		return nil
	}
}

// openAndBuild opens the database and builds the layers concurrently. These are the two longest steps of a first start.
func openAndBuild(
	ctx context.Context, cfg *Config, t *terminal, log *slog.Logger,
) (b *backend, modules []registry.Module, err error) {
	if _, err := cfg.createInstallation(); err != nil { // which both need
		return nil, nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		modules, err = builtInLayers(gctx, cfg, t)
		return err
	})
	g.Go(func() (err error) {
		b, err = openBackend(gctx, cfg, t, log, store.CreateSchema)
		return err
	})
	if err := g.Wait(); err != nil {
		if b != nil {
			err = errors.Join(err, b.close())
		}
		return nil, nil, err
	}
	return b, modules, nil
}

// newSubscriber returns a subscriber that stores lists in the database.
func (b *backend) newSubscriber(cfg *Config, log *slog.Logger) *feed.Subscriber {
	return &feed.Subscriber{Store: b.store, Version: version, DNS: cfg.configuredResolvers(), Logger: log,
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
func (b *backend) jobs(keeper *auditlog.Keeper) [][]maintenance.Job {
	return [][]maintenance.Job{{
		{Name: "store the last uses of keys", Every: time.Minute, Run: b.store.SaveKeyUses, AtStop: true},
		{Name: "create partitions", Every: jobInterval, Run: b.store.EnsurePartitions, AtStop: true},
		{Name: "prune the limits of the public check", Every: jobInterval, Run: b.store.PrunePublic, AtStop: true},
		{Name: "prune the limits of requests a minute", Every: jobInterval, Run: b.store.PruneRates, AtStop: true},
		{Name: "prune webhook events", Every: jobInterval, Run: b.store.PruneWebhooks, AtStop: true},
		{Name: "prune settlements of batches", Every: jobInterval, Run: b.store.PruneSettlements},
		{Name: "prune kept answers", Every: jobInterval, Run: b.store.PruneAnswers, AtStop: true},
		{Name: "prune privacy requests", Every: jobInterval, Run: b.store.PruneRequests, AtStop: true},
		{Name: "forget hosts that were killed", Every: jobInterval, Run: b.store.PruneHosts},
		{Name: "prune overrides", Every: jobInterval, Run: b.store.PruneOverrides, AtStop: true},
		{Name: "prune registrations", Every: jobInterval, Run: b.store.PruneRegistrations, AtStop: true},
		{Name: "delete expired sessions", Every: jobInterval, Run: b.store.PruneSignIns, AtStop: true},
		{Name: "end subscriptions", Every: jobInterval, Run: b.store.EndSubscriptions, AtStop: true},
		{Name: "delete old billing data", Every: jobInterval, Run: b.store.PruneBilling, AtStop: true},
		{Name: "sign checkpoints", Every: jobInterval, Run: keeper.SignHeads, AtStop: true},
	}, {
		{Name: "tidy checkpoints", Every: time.Hour, Limit: longJobLimit, Run: keeper.Tidy},
		{Name: "prune the reputation graph", Every: 24 * time.Hour, Limit: longJobLimit, Run: b.store.PruneSightings},
		{Name: "prune the audit log", Every: jobInterval, Limit: longJobLimit, Run: keeper.Prune},
	}}
}

// newChecker returns a checker with the time limits of a host.
func newChecker(live *check.Live, ledger check.Ledger, o check.Observer) *check.Checker {
	return &check.Checker{Live: live, Ledger: ledger, Observer: o, Now: time.Now, Deadline: checkTimeout}
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
