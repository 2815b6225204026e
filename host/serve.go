package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"assay/host/api"
	"assay/host/check"
	"assay/host/lineup"
	"assay/host/store"
	"assay/host/webhook"
	"assay/registry"
)

// errStopped ends a command that was interrupted, without an error.
var errStopped = errors.New("stopped")

// The deadlines of a host, all in one place. A request's own are in api.Config.
const (
	factsDeadline    = 80 * time.Millisecond  // for all lookups of one check
	layersDeadline   = 150 * time.Millisecond // for all layers of one check
	drainTimeout     = 10 * time.Second       // for the requests under way at the end
	stopTimeout      = 20 * time.Second       // for Postgres to stop
	maintainEvery    = 10 * time.Minute
	pruneGraphEvery  = 24 * time.Hour
	rotateLogsEvery  = 24 * time.Hour
	readinessTimeout = 2 * time.Second
)

// greeting stands before the host's URL when it is ready.
const greeting = "Assay is ready at "

type serveCmd struct {
	LedgerBatch int `default:"256" help:"Checks that one database transaction may record."`
}

// Run serves until the context ends. Everything is opened in one straight list, and closed in reverse.
func (cmd *serveCmd) Run(ctx context.Context, cfg *Config, t *terminal) (err error) {
	var closers []func() error
	defer func() {
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i]())
		}
		if err == nil && ctx.Err() != nil {
			err = errStopped
		}
	}()
	log, logFile, err := openLog(cfg, t)
	if err != nil {
		return err
	}
	closers = append(closers, logFile.Close)

	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", cfg.Listen, err)
	}
	closers = append(closers, closeOnce(listener))

	b, modules, err := openAndBuild(ctx, cfg, t, log)
	if err != nil {
		return err
	}
	closers = append(closers, b.close)
	if err := b.install(ctx, modules, log); err != nil {
		return err
	}

	m := newMetrics()
	box, live := b.openSandbox(cfg, log), &check.Live{}
	closers = append(closers, box.Close)
	follower := lineup.NewFollower(b.store, box, live, log)
	if err := follower.Follow(ctx); err != nil {
		return err
	}
	closers = append(closers, func() error { follower.Close(); return nil })

	allow, err := cfg.webhookAllow()
	if err != nil {
		return err
	}
	delivery, err := b.openDelivery(webhook.Config{Allow: allow, Resolver: cfg.receiverResolver(), Logger: log,
		Observed: m.attemptEnded})
	if err != nil {
		return err
	}
	closers = append(closers, delivery.close)
	m.watchDelivery(delivery.UnderWay)

	ledger, err := b.store.NewLedger(store.LedgerConfig{Batch: cmd.LedgerBatch, Observed: m.batchDone,
		Events: delivery.Hint})
	if err != nil {
		return err
	}
	closers = append(closers, ledger.Close)

	looked, err := b.openLookups(cfg, log)
	if err != nil {
		return err
	}
	closers = append(closers, looked.close)

	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	closers = append(closers, func() error { stopBackground(); running.Wait(); return nil })
	keeper := &maintenance{store: b.store, keys: b.keys, dir: cfg.path("checkpoints"), log: log, logFile: logFile}
	running.Go(func() { follower.Run(background) })
	running.Go(func() { keeper.run(background) })
	running.Go(func() { delivery.Run(background) })
	running.Go(func() { looked.similar.Run(background) })
	running.Go(func() {
		b.store.Listen(background, func(topic store.Topic) {
			switch topic {
			case store.TopicKeys:
				b.store.ForgetCallers()
			case store.TopicFeeds:
				looked.similar.Hint()
			case store.TopicLineup:
				follower.LineupChanged()
			case store.TopicPlugins:
				follower.PluginsPublished()
			}
		})
	})

	checker := newChecker(live, ledger, &observer{metrics: m, log: log})
	checker.Collector = looked

	proxies, err := cfg.proxies()
	if err != nil {
		return err
	}
	sales := b.newBilling(cfg)
	var server *api.Server
	pages, err := b.newConsole(cfg, sales, checker,
		func(r *fasthttp.RequestCtx) netip.Prefix { return server.Client(r) }, log)
	if err != nil {
		return err
	}
	server = api.New(api.Config{
		Checker:        checker,
		Keys:           b.store,
		Public:         publicLimit{b.store},
		Events:         eventFeed{b.store},
		Privacy:        b.store,
		Ready:          readiness{b.store, follower}.problems,
		Degraded:       follower.Degraded,
		Metrics:        m.handler(follower),
		ProviderEvent:  providerEvents(sales, log),
		Pages:          pages.Handler(),
		TrustedProxies: proxies,
		Logger:         log,
		Version:        version,
	})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	closers = append(closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		return server.Shutdown(ctx)
	})

	if err := cmd.greet(ctx, cfg, t, b, listener.Addr()); err != nil {
		return err
	}
	log.Info("ready", "address", listener.Addr().String(), "version", version)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		t.stage("draining and stopping")
		return nil
	}
}

// openAndBuild opens the database while the layers are built: the two longest steps of a first start.
func openAndBuild(ctx context.Context, cfg *Config, t *terminal, log *slog.Logger) (b *backend,
	modules []registry.Module, err error) {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		modules, err = buildLayers(gctx, cfg, t)
		return err
	})
	g.Go(func() (err error) {
		b, err = openBackend(gctx, cfg, t, log)
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

// greet prints where the host is and how to try it. On the private database a demo key is made once and kept beside it.
func (cmd *serveCmd) greet(ctx context.Context, cfg *Config, t *terminal, b *backend, addr net.Addr) error {
	url := "http://" + addr.String()
	t.printf("\n%s%s\n\n", greeting, url)
	if b.cluster == nil {
		t.printf("  Create a key with: assay keys create --plan pro\n\n")
		return nil
	}
	key, err := demoKey(ctx, cfg, b.store)
	if err != nil {
		return err
	}
	t.printf("  key  %s\n  try  curl -H 'Authorization: Bearer %s' -d '{\"domain\":\"paypa1-secure-login.xyz\"}' %s/api/check\n\n", key, key, url)
	return nil
}

func demoKey(ctx context.Context, cfg *Config, s *store.Store) (string, error) {
	file := cfg.path("demo-key")
	if text, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(text)), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading demo key: %w", err)
	}
	plan, _ := check.PlanNamed("pro")
	issued, err := issueKey(ctx, s, "", plan, "demo")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, []byte(issued.Secret+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keeping demo key: %w", err)
	}
	return issued.Secret, nil
}

// newChecker wires the core.
func newChecker(live *check.Live, ledger check.Ledger, o check.Observer) *check.Checker {
	return &check.Checker{Live: live, Ledger: ledger, Observer: o, Now: time.Now, FactsDeadline: factsDeadline,
		Deadline: layersDeadline}
}

// publicLimit is the store as api.Public.
type publicLimit struct{ store *store.Store }

func (p publicLimit) Take(ctx context.Context, client netip.Prefix) (time.Time, bool, error) {
	return p.store.TakePublic(ctx, client)
}

func (p publicLimit) Caller() check.Caller { return p.store.PublicCaller() }

// readiness says whether checks can be answered: the database answers and a lineup is in force.
type readiness struct {
	store    *store.Store
	follower *lineup.Follower
}

func (r readiness) problems(ctx context.Context) []api.Problem {
	ctx, cancel := context.WithTimeout(ctx, readinessTimeout)
	defer cancel()
	var problems []api.Problem
	if err := r.store.Ping(ctx); err != nil {
		problems = append(problems, api.Problem{Part: "database", Err: err})
	}
	if r.follower.State().Revision == 0 {
		problems = append(problems, api.Problem{Part: "lineup", Err: check.ErrNoLineup})
	}
	return problems
}

// closeOnce closes a listener that its server may have closed already.
func closeOnce(l net.Listener) func() error {
	return func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}
