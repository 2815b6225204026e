package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"

	"github.com/oklog/ulid/v2"

	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/customer/webhook"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
	"assay/host/web/api"
	"assay/host/web/certificate"
	"assay/registry"
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

	parts     []part        // open parts
	listening chan struct{} // closed when the host receives notifications of changes in the database

	// Results of earlier parts that later parts need, in the order in which they are opened.
	seat        *seat
	certificate *certificate.Pair // nil: plain HTTP
	listener    net.Listener      // for customers
	operators   net.Listener      // for operators; nil: turned off
	backend     *installation.Backend
	modules     []registry.Module // the built-in layers
	store       *store.Store
	witnesses   *auditlog.Submitter
	trusted     *installation.Authority
	live        *check.Live
	follower    *lineup.Follower
	deliverer   *webhook.Deliverer
	ledger      *store.Ledger
	lookups     *installation.Lookups
	overrides   *override.Index
	scoring     *scoring
	keeper      *auditlog.Keeper
	desk        *desk
	server      *api.Server
	admin       *admin.Server // nil: turned off
	exit        *exit
}

func newHost(cfg *installation.Config, t *terminal.Terminal, options Options) *host {
	h := &host{cfg: cfg, options: options, terminal: t, metrics: telemetry.NewMetrics(),
		id: "host_" + ulid.Make().String(), listening: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
	h.metrics.WatchBuild(installation.Version, installation.Revision())
	return h
}

// startOrder lists the functions that open the parts, in the order in which they are called. Problems are shown in this
// order too.
func startOrder() []func(context.Context, *host) (part, error) {
	return []func(context.Context, *host) (part, error){
		openLog,
		openListener, // early, so that a port that is taken costs no time
		openAdminListener,
		openSeat,
		openDatabase,
		noteHost,
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

// add adds an open part.
func (h *host) add(p part) {
	h.parts = append(h.parts, p)
	if p.Collect != nil {
		p.Collect(h.metrics)
	}
}

// close closes the parts in reverse order.
func (h *host) close() error {
	var errs []error
	for _, p := range slices.Backward(h.parts) {
		if p.Close != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// obstacles returns what keeps the host from answering checks.
func (h *host) obstacles() (all []obstacle) {
	for _, p := range h.parts {
		if p.Obstacles != nil {
			all = append(all, p.Obstacles()...)
		}
	}
	return all
}

// notReady is like obstacles, without remedies.
func (h *host) notReady() (all []admin.Problem) {
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

// degraded returns a sentence for each problem that does not keep the host from answering.
func (h *host) degraded() (sentences []string) {
	h.problems(func(sentence, _ string) { sentences = append(sentences, sentence) })
	return sentences
}

// problems calls f with each problem that does not keep the host from answering, and its remedy.
func (h *host) problems(f func(sentence, remedy string)) {
	for _, part := range h.parts {
		for _, p := range part.Problems {
			for _, sentence := range p.sentences() {
				f(sentence, p.remedy)
			}
		}
	}
}
