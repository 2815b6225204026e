package server

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"assay/host/access/admission"
	"assay/host/auditlog"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/lineup"
	"assay/host/store"
	"assay/host/web/console"
	"assay/host/web/mail"
)

const (
	// downloadSlots is how many exports of checks run at once, through the API and on the dashboard.
	downloadSlots = 16
	// sessionSlots is how many look-ups of sessions run at once. There are few, because look-ups of keys wait for the
	// same database connections.
	sessionSlots    = 16
	requestInterval = 2 * time.Second // between two polls for privacy requests in the background
)

// desk serves customers, apart from checks, through the API and on pages.
type desk struct {
	billing   *billing.Billing
	explainer *decision.Explainer
	feedback  *feedback.Desk
	rates     *rates
	public    publicLimit
	downloads *admission.Shares
	pages     *console.Console
}

func openDesk(_ context.Context, h *host) (part, error) {
	limits, err := h.cfg.RateLimits()
	if err != nil {
		return part{}, err
	}
	s := h.scoring
	d := &desk{billing: newBilling(h.store, h.cfg), rates: newRates(limits, h.store, h.log),
		downloads: admission.NewShares(downloadSlots)}
	d.public = publicLimit{h.store, d.rates}
	d.explainer = &decision.Explainer{Records: h.store, Scorer: s.checker, Collector: h.lookups,
		Past: lineup.NewPast(h.follower, installation.PastTarget), Turn: s.gate.Spare, Logger: h.log}
	d.feedback = &feedback.Desk{Store: h.store, Scorer: s.checker}
	requests := &privacy.Runner{Queue: h.store, Logger: h.log,
		Every: func() time.Duration { return h.store.Turn(requestInterval) },
		Late:  func() time.Duration { _, _, late := h.ledger.Pace(); return late }}
	if d.pages, err = newConsole(h, d); err != nil {
		return part{}, err
	}
	h.desk = d
	return part{
		Run: []func(context.Context){requests.Run, d.rates.Run, d.pages.Run},
		Jobs: jobs{localJobs: {{Name: "refund second subscriptions", Every: jobInterval, Run: d.billing.RefundDue,
			Shared: true},
			{Name: "read subscriptions whose period is over", Every: jobInterval, Run: d.billing.Refresh,
				Shared: true}}, mailJobs: {{Name: "tell owners of webhooks and reviews", Every: time.Minute,
			Run: d.pages.TellOwners, Shared: h.cfg.SMTPURL != ""}}}, // a host without mail must not take it from others
	}, nil
}

// newBilling returns billing through Stripe, through the test checkout, or without paid plans.
func newBilling(s *store.Store, cfg *installation.Config) *billing.Billing {
	b := &billing.Billing{Accounts: s, Now: time.Now, Provider: &billing.TestCheckout{Now: time.Now,
		Page: console.TestCheckoutPath, Closed: !cfg.TestMode()}}
	if cfg.StripeKey != "" {
		paid := billing.NewStripe(cfg.StripeKey, cfg.StripeWebhookSecret, cfg.StripeURL)
		paid.Tax, paid.Note = cfg.StripeTax, acceptance(cfg)
		b.Provider = paid
	}
	return b
}

// acceptance returns the documents that a customer accepts by paying, in Stripe's Markdown; "" without any.
func acceptance(cfg *installation.Config) (text string) {
	for _, l := range links(cfg) {
		if l.Accepted {
			text = cmp.Or(text, "By paying you accept:") + " [" + l.Name + "](" + l.URL + ")"
		}
	}
	return text
}

// links returns the operator's documents.
func links(cfg *installation.Config) []console.Link {
	all := []console.Link{{Name: "Terms", URL: cfg.Links["terms"], Accepted: true},
		{Name: "Data-processing agreement", URL: cfg.Links["dpa"], Accepted: true},
		{Name: "Imprint", URL: cfg.Links["imprint"]}, {Name: "Support", URL: cfg.Links["support"]},
		{Name: "Status", URL: cfg.Links["status"]}}
	return slices.DeleteFunc(all, func(l console.Link) bool { return l.URL == "" })
}

// newConsole returns the pages.
func newConsole(h *host, d *desk) (*console.Console, error) {
	allow, err := h.cfg.WebhookNetworks()
	if err != nil {
		return nil, err
	}
	guard, err := webhook.NewGuard(allow)
	if err != nil {
		return nil, err
	}
	parseWebhook := func(text string) (string, error) {
		receiver, err := webhook.ParseURL(text)
		if err != nil {
			return "", err
		}
		return receiver, guard.CheckURL(receiver)
	}
	var sender console.Mail
	if h.cfg.SMTPURL != "" {
		if sender, err = mail.New(h.cfg.SMTPURL); err != nil {
			return nil, err
		}
	}
	customers, _ := d.billing.Provider.(billing.Customers)
	return console.New(console.Config{
		Mail:      sender,
		Customers: customers,
		Store:     h.store,
		Billing:   d.billing,
		Checker:   h.scoring.checker,
		Public:    d.public,
		Sealer:    h.backend.Keys,
		Explainer: d.explainer,
		Feedback:  d.feedback,
		Downloads: d.downloads,
		TakeKey:   d.rates.TakeKey,
		LookUps:   admission.NewShares(sessionSlots),
		// A page may use a connection of the pool that requests share for seconds. One connection is left for look-ups
		// of keys, which are short, and a single account gets only half of these slots.
		Pages:    admission.NewShares(h.store.PoolStats().MaxOpenConnections - 1),
		Receipts: auditlog.Receipts{Store: h.store, Signer: h.store.Signer()},
		Webhook:  parseWebhook,
		// The server does not exist yet.
		Client: func(r *fasthttp.RequestCtx) netip.Prefix { return h.server.Client(r) },
		Shared: func(r *fasthttp.RequestCtx) bool { return h.server.Shared(r) },
		URL:    strings.TrimSuffix(h.cfg.URL, "/"),
		Logger: h.log, Now: time.Now, Outage: store.IsOutage,
		HTTPS:           h.cfg.TLSCert != "",
		SecurityContact: h.cfg.SecurityContact,
		Tax:             h.cfg.StripeTax,
		Links:           links(h.cfg),
	})
}

// providerEvents returns the handler of the payment provider's events, or nil if the provider sends none.
func (h *host) providerEvents() func(context.Context, []byte, string) error {
	payments := h.desk.billing
	if _, ok := payments.Provider.(billing.Events); !ok {
		return nil
	}
	warned := rate.Sometimes{Interval: time.Minute} // anyone can send events
	return func(ctx context.Context, body []byte, signature string) error {
		err := payments.Receive(ctx, body, signature)
		if errors.Is(err, billing.ErrSignature) {
			warned.Do(func() { h.log.Warn("payment event refused", "error", err) })
			return &entity.InvalidError{Field: "Stripe-Signature", Reason: "is missing, wrong or too old"}
		}
		return err
	}
}
