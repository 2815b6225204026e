package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/store"
	"assay/host/web/console"
	"assay/host/web/mail"
)

// newBilling returns billing through Stripe, through the test checkout, or without paid plans.
func newBilling(b *installation.Backend, cfg *installation.Config) *billing.Billing {
	trial := billing.TestCheckout{Now: time.Now, Page: console.TestCheckoutPath}
	var provider billing.Provider = &billing.Closed{TestCheckout: trial}
	switch {
	case cfg.StripeKey != "":
		provider = billing.NewStripe(cfg.StripeKey, cfg.StripeWebhookSecret, cfg.StripeURL)
	case cfg.TestMode():
		provider = &trial
	}
	return &billing.Billing{Accounts: b.Store, Provider: provider, Now: time.Now}
}

// clients gives the pages information about a request's client that only the server has; see console.Config.
type clients struct {
	address func(*fasthttp.RequestCtx) netip.Prefix
	shared  func(*fasthttp.RequestCtx) bool
}

// eventSlots is how many requests for events, feedback, overrides and exports of checks run at once, and downloads on
// the dashboard.
const eventSlots = 16

// newConsole returns the pages.
func newConsole(b *installation.Backend,
	cfg *installation.Config, payments *billing.Billing, checker *check.Checker, explainer *decision.Explainer,
	reports *feedback.Desk, public publicLimit, downloads *admission.Shares, from clients, log *slog.Logger,
) (*console.Console, error) {
	allow, err := cfg.WebhookNetworks()
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
	if cfg.SMTPURL != "" {
		if sender, err = mail.New(cfg.SMTPURL); err != nil {
			return nil, err
		}
	}
	return console.New(console.Config{
		Mail:  sender,
		Store: b.Store, Billing: payments, Checker: checker, Public: public, Sealer: b.Keys,
		Explainer: explainer, Feedback: reports, Downloads: downloads,
		Receipts: auditlog.Receipts{Store: b.Store, Signer: b.Store.Signer()},
		Webhook:  parseWebhook, Client: from.address, Shared: from.shared, URL: strings.TrimSuffix(cfg.URL, "/"),
		Logger: log, Now: time.Now, Outage: store.IsOutage, HTTPS: cfg.TLSCert != "",
		SecurityContact: cfg.SecurityContact,
	})
}

// providerEvents returns the handler of the payment provider's events, or nil if the provider sends none.
func providerEvents(payments *billing.Billing, log *slog.Logger) func(context.Context, []byte, string) error {
	if _, ok := payments.Provider.(billing.Events); !ok {
		return nil
	}
	return func(ctx context.Context, body []byte, signature string) error {
		err := payments.Receive(ctx, body, signature)
		if errors.Is(err, billing.ErrSignature) {
			log.Warn("payment event refused", "error", err)
			return &entity.InvalidError{Field: "Stripe-Signature", Reason: "is missing, wrong or too old"}
		}
		return err
	}
}
