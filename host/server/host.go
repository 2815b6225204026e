package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"

	"github.com/oklog/ulid/v2"

	"assay/host/auditlog"
	"assay/host/customer/override"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
	"assay/host/web/api"
	"assay/host/web/certificate"
)

// host is one running host.
type host struct {
	cfg      *installation.Config
	options  Options
	terminal *terminal.Terminal
	log      *slog.Logger
	metrics  *telemetry.Metrics
	id       string // in the fleet
	name     string // for people

	parts []part // those that are open

	// What later parts need of earlier ones, in the order in which they are opened.
	certificate *certificate.Pair // nil: plain HTTP
	listener    net.Listener      // for customers
	operators   net.Listener      // for operators; nil: turned off
	database    *database
	store       *store.Store
	witnesses   *auditlog.Submitter
	lineup      *currentLineup
	delivery    *delivery
	ledger      *store.Ledger
	lookups     *lookups
	overrides   *override.Index
	scoring     *scoring
	keeper      *auditlog.Keeper
	desk        *desk
	server      *api.Server
	admin       *adminServer // nil: turned off
	exit        *exit
}

func newHost(cfg *installation.Config, t *terminal.Terminal, options Options) *host {
	h := &host{cfg: cfg, options: options, terminal: t, metrics: telemetry.NewMetrics(),
		id: "host_" + ulid.Make().String()}
	h.metrics.WatchBuild(installation.Version, installation.Revision())
	return h
}

// startOrder lists the functions that open the parts, in the order in which they are called. Each may return nil,
// because the part is turned off. Problems are shown in this order too.
func startOrder() []func(context.Context, *host) (part, error) {
	return []func(context.Context, *host) (part, error){
		openLog,
		openListener, // early, so that a port that is taken costs no time
		openAdminListener,
		openDatabase,
		openSeat,
		openWitnesses,
		openLineup,
		openDelivery,
		openLedger,
		openLookups,
		openLists,
		openOverrides,
		openRenewal,
		openScoring,
		openPreparation,
		openPulse,
		openKeeper,
		openDesk,
	}
}

// add adds an open part, which may be nil.
func (h *host) add(p part) {
	if p == nil {
		return
	}
	h.parts = append(h.parts, p)
	if c, ok := p.(collector); ok {
		c.Collect(h.metrics)
	}
}

// partsOf returns the parts that have the methods of T, in order.
func partsOf[T any](h *host) (all []T) {
	for _, p := range h.parts {
		if t, ok := p.(T); ok {
			all = append(all, t)
		}
	}
	return all
}

// close closes the parts in reverse order.
func (h *host) close() error {
	var errs []error
	for _, c := range slices.Backward(partsOf[closer](h)) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// obstacles returns what keeps the host from answering checks.
func (h *host) obstacles() (all []obstacle) {
	for _, r := range partsOf[requirement](h) {
		all = append(all, r.Obstacles()...)
	}
	return all
}

// notReady is like obstacles, without remedies.
func (h *host) notReady() []admin.Problem {
	var all []admin.Problem
	for _, o := range h.obstacles() {
		all = append(all, o.Problem)
	}
	return all
}

// ready returns the obstacles as one error, or nil if there are none.
func (h *host) ready() error {
	var errs []error
	for _, o := range h.obstacles() {
		errs = append(errs, o.Error())
	}
	return errors.Join(errs...)
}

// problems returns what does not keep the host from answering.
func (h *host) problems() (all []problem) {
	for _, f := range partsOf[fallible](h) {
		all = append(all, f.Problems()...)
	}
	return all
}

// degraded is like problems, without remedies.
func (h *host) degraded() (sentences []string) {
	for _, p := range h.problems() {
		sentences = append(sentences, p.sentence)
	}
	return sentences
}
