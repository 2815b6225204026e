package server

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

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
	// eventSlots is how many requests for events, feedback, overrides and exports of checks run at once, and downloads
	// on the dashboard.
	eventSlots      = 16
	requestInterval = 2 * time.Second // between two polls for privacy requests in the background
)

// desk is what customers are served with, apart from checks, through the API and on pages.
type desk struct {
	billing   *billing.Billing
	explainer *decision.Explainer
	feedback  *feedback.Desk
	rates     *rates
	public    publicLimit
	slots     *admission.Shares
	pages     *console.Console
}

func openDesk(_ context.Context, h *host) (part, error) {
	limits, err := h.cfg.RateLimits()
	if err != nil {
		return part{}, err
	}
	s := h.scoring
	d := &desk{billing: newBilling(h.store, h.cfg), rates: newRates(limits, h.store, h.log),
		slots: admission.NewShares(eventSlots)}
	d.public = publicLimit{h.store, d.rates}
	d.explainer = &decision.Explainer{Records: h.store, Scorer: s.checker, Collector: h.lookups,
		Past: lineup.NewPast(h.follower), Turn: s.gate.Spare, Logger: h.log}
	d.feedback = &feedback.Desk{Store: h.store, Scorer: s.checker}
	requests := &privacy.Runner{Queue: h.store, Every: requestInterval, Logger: h.log,
		Late: func() time.Duration { _, _, late := h.ledger.Pace(); return late }}
	if d.pages, err = newConsole(h, d); err != nil {
		return part{}, err
	}
	h.desk = d
	return part{
		Run: []func(context.Context){requests.Run, d.rates.Run, d.pages.Run},
		Jobs: jobs{localJobs: {{Name: "refund second subscriptions", Every: jobInterval, Run: d.billing.RefundDue},
			{Name: "tell owners of webhooks and reviews", Every: time.Minute, Run: d.pages.TellOwners}}},
	}, nil
}

// newBilling returns billing through Stripe, through the test checkout, or without paid plans.
func newBilling(s *store.Store, cfg *installation.Config) *billing.Billing {
	trial := billing.TestCheckout{Now: time.Now, Page: console.TestCheckoutPath}
	var provider billing.Provider = &billing.Closed{TestCheckout: trial}
	switch {
	case cfg.StripeKey != "":
		provider = billing.NewStripe(cfg.StripeKey, cfg.StripeWebhookSecret, cfg.StripeURL)
	case cfg.TestMode():
		provider = &trial
	}
	return &billing.Billing{Accounts: s, Provider: provider, Now: time.Now}
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
		Downloads: d.slots,
		Receipts:  auditlog.Receipts{Store: h.store, Signer: h.store.Signer()},
		Webhook:   parseWebhook,
		// The server does not exist yet.
		Client: func(r *fasthttp.RequestCtx) netip.Prefix { return h.server.Client(r) },
		Shared: func(r *fasthttp.RequestCtx) bool { return h.server.Shared(r) },
		URL:    strings.TrimSuffix(h.cfg.URL, "/"),
		Logger: h.log, Now: time.Now, Outage: store.IsOutage,
		HTTPS:           h.cfg.TLSCert != "",
		SecurityContact: h.cfg.SecurityContact,
	})
}

// providerEvents returns the handler of the payment provider's events, or nil if the provider sends none.
func (h *host) providerEvents() func(context.Context, []byte, string) error {
	payments := h.desk.billing
	if _, ok := payments.Provider.(billing.Events); !ok {
		return nil
	}
	return func(ctx context.Context, body []byte, signature string) error {
		err := payments.Receive(ctx, body, signature)
		if errors.Is(err, billing.ErrSignature) {
			h.log.Warn("payment event refused", "error", err)
			return &entity.InvalidError{Field: "Stripe-Signature", Reason: "is missing, wrong or too old"}
		}
		return err
	}
}
