package server

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
	"assay/host/facts/feed"
	"assay/host/installation"
	"assay/host/lineup/fleet"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/console"
	"assay/host/web/operator"
	"assay/registry"
)

const (
	stateTimeout = 900 * time.Millisecond // for reading the database's state, so that the page appears within a second
	stateAge     = 2 * time.Second        // how long a reading is reused
)

// observer gathers the state of a host for the operator's page.
type observer struct {
	*host
	version   string
	began     time.Time
	address   net.Addr         // for customers
	signs     bool             // this host can read the operator's key
	testing   bool             // the test checkout is in force
	forwarded func() time.Time // when a request last arrived through an untrusted proxy

	mu   sync.Mutex // held while the database is read
	last reading
}

// newOperatorPage returns the operator's page.
func newOperatorPage(h *host) (http.Handler, error) {
	look, err := console.Look()
	if err != nil {
		return nil, err
	}
	o := &observer{host: h, version: installation.VersionLine(), began: time.Now(), address: h.listener.Addr(),
		signs: h.trusted.Operator != nil, testing: h.desk.billing.Provider.Test(), forwarded: h.server.Forwarded}
	return operator.New(operator.Config{Token: h.cfg.OperatorToken, State: o.state,
		Client: func(r *http.Request) netip.Prefix {
			return h.server.ClientOf(r.RemoteAddr, r.Header.Values("X-Forwarded-For"))
		},
		Reviews: h.store,
		Explain: func(ctx context.Context, account, ref string, e entity.Entity) (*decision.Explanation, error) {
			return h.desk.explainer.Explain(ctx, check.Caller{Account: account}, ref, e)
		},
		Look: look, Logger: h.log, Now: time.Now})
}

// reading is the state of the database.
type reading struct {
	at       time.Time
	hosts    []fleet.Host
	webhooks store.WebhookBacklog
	graph    store.GraphBacklog
	lists    []feed.Subscription
	imported int // lists, including subscribed ones
	chains   []store.ChainState
	reviews  operator.ReviewQueue
	unknown  map[operator.Part]string
}

// state returns the state for the page.
func (o *observer) state(ctx context.Context) *operator.State {
	r := o.read(ctx)
	audited := o.keeper.Status()
	gate := o.scoring.gate
	s := &operator.State{
		At: time.Now(), Host: o.name, Version: o.version, Unknown: r.unknown,
		Lineup: o.lineup(),
		Queues: operator.Queues{
			Checks: gate.InProgress(), Wait: gate.Wait(), Target: installation.CheckTarget,
			Ledger: o.metrics.LedgerQueue(),
			Graph:  operator.GraphQueue{Checks: r.graph.Checks, Oldest: r.graph.Oldest, More: r.graph.Clipped},
			Webhooks: operator.WebhookQueue{Pending: r.webhooks.Pending, Due: r.webhooks.Due,
				Retried: r.webhooks.Retried, Late: r.webhooks.Late, More: r.webhooks.Clipped,
				Failing: r.webhooks.Failing, Disabled: r.webhooks.Disabled},
			Lists: map[string]int{}, Reviews: r.reviews,
		},
	}
	for _, l := range r.lists {
		s.Queues.Lists[string(l.State(o.store.Now()))]++
	}
	for _, h := range r.hosts {
		host := operator.Host{Name: h.Name, This: h.ID == o.id, Seen: h.Unseen, Silent: h.Silent(),
			Since: h.StartedAt, Activation: h.Activation, Revision: h.Revision, Refused: h.Refused,
			Problem: h.Problem, Canary: h.Canary}
		if host.This {
			host.Version = o.version
		}
		s.Hosts = append(s.Hosts, host)
	}
	for _, c := range r.chains {
		signed := audited.Signed[c.Chain]
		s.Audit.Chains = append(s.Audit.Chains, operator.Chain{Number: c.Chain, Records: c.Records, At: c.At,
			Signed: signed.Seq, SignAt: signed.At, Damage: c.Damage})
	}
	o.warn(s, r, audited)
	return s
}

// read returns the database's state. Requests that arrive meanwhile share the reading.
func (o *observer) read(ctx context.Context) reading {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.last.at) < stateAge {
		return o.last
	}
	// The next request reuses the reading, so it does not end with this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	r := reading{unknown: map[operator.Part]string{}}
	failed := func(part operator.Part, err error) {
		switch {
		case err == nil:
		case store.IsOutage(err):
			r.unknown[part] = "the database does not respond"
		default:
			r.unknown[part] = err.Error()
		}
	}
	var err error
	r.hosts, err = o.store.Hosts(ctx)
	failed(operator.Hosts, err)
	r.webhooks, err = o.store.WebhookBacklog(ctx)
	failed(operator.Webhooks, err)
	r.graph, err = o.store.GraphBacklog(ctx)
	failed(operator.Graph, err)
	r.lists, err = o.store.Subscriptions(ctx)
	if err == nil {
		var imported []feed.List
		imported, err = o.store.Feeds(ctx)
		r.imported = max(len(imported), len(r.lists))
	}
	failed(operator.Lists, err)
	r.chains, err = o.store.ChainStates(ctx)
	failed(operator.Chains, err)
	r.reviews.Open, r.reviews.Oldest, err = o.store.ReviewBacklog(ctx)
	failed(operator.Contests, err)
	r.at = time.Now()
	o.last = r
	return r
}

// lineup returns the lineup that the host runs, with the calls of its layers.
func (o *observer) lineup() operator.Lineup {
	a, manifests := o.follower.InForce()
	l := operator.Lineup{Activation: a.Number, Revision: a.Lineup.Revision, Author: a.Author, Reason: a.Reason,
		Since: a.At, Weights: check.WeightMeans}
	if a.Canary != nil {
		l.Canary = &operator.Canary{Revision: a.Canary.Revision, Share: a.Canary.Share,
			Limit: a.Canary.Limit.String()}
	}
	uses, shadowUses := o.metrics.LayerUses(), o.metrics.ShadowUses()
	for _, item := range a.Document.Layers {
		layer := layerOf(item, manifests[item.Digest])
		switch item.Runs() {
		case registry.ModeLive:
			use(&layer, uses[layer.Name])
		case registry.ModeShadow:
			use(&layer, shadowUses[layer.Name])
			l.Shadow = &operator.Shadow{}
		}
		l.Layers = append(l.Layers, layer)
	}
	if l.Shadow != nil {
		l.Shadow.Checks, l.Shadow.Changed, l.Shadow.LeftOut = o.metrics.ShadowChecks()
	}
	return l
}

// layerOf returns a layer without its calls. Without a manifest, because the layer is off, it has the weights of all
// types.
func layerOf(item registry.LineupLayer, m registry.Manifest) operator.Layer {
	name, version, _ := item.Ref()
	layer := operator.Layer{Name: name, Version: version, Mode: item.Runs(), Required: item.Required,
		Budget: cmp.Or(item.Fuel, m.BudgetFuel), Weights: map[string]float64{}}
	types := m.Entities
	if m.Name == "" {
		types = []string{"domain", "email", "phone", "iban"}
	}
	for _, t := range types {
		layer.Weights[t] = item.Weight.For(t)
	}
	return layer
}

// use adds the calls of a layer, which may be nil.
func use(layer *operator.Layer, u *telemetry.LayerUse) {
	if u == nil {
		return
	}
	for outcome, n := range u.Outcomes {
		switch outcome {
		case "scored":
			layer.Scored = n
		case "abstained":
			layer.Abstained = n
		default:
			if layer.Failed == nil {
				layer.Failed = map[string]uint64{}
			}
			layer.Failed[outcome] = n
		}
	}
	layer.FuelMean, layer.FuelP99 = u.FuelMean, u.FuelP99
	if layer.Budget > 0 {
		layer.FuelP99 = math.Min(layer.FuelP99, float64(layer.Budget)) // no call uses more
	}
	if math.IsInf(layer.FuelP99, 0) {
		layer.FuelP99 = 0
	}
}

// sentence returns a text as the beginning of a sentence.
func sentence(text string) string {
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}
