package main

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/admission"
	"assay/host/auditlog"
	"assay/host/billing"
	"assay/host/check"
	"assay/host/console"
	"assay/host/decision"
	"assay/host/entity"
	"assay/host/feedback"
	"assay/host/mail"
	"assay/host/store"
	"assay/host/webhook"
)

// newBilling returns billing through Stripe, through the test checkout, or without paid plans.
func (b *backend) newBilling(cfg *Config) *billing.Billing {
	trial := billing.TestCheckout{Now: time.Now, Page: console.TestCheckoutPath}
	var provider billing.Provider = &billing.Closed{TestCheckout: trial}
	switch {
	case cfg.StripeKey != "":
		provider = billing.NewStripe(cfg.StripeKey, cfg.StripeWebhookSecret, cfg.StripeURL)
	case cfg.testMode():
		provider = &trial
	}
	return &billing.Billing{Accounts: b.store, Provider: provider, Now: time.Now}
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
func (b *backend) newConsole(
	cfg *Config, payments *billing.Billing, checker *check.Checker, explainer *decision.Explainer,
	reports *feedback.Desk, public publicLimit, downloads *admission.Shares, from clients, log *slog.Logger,
) (*console.Console, error) {
	allow, err := cfg.webhookAllow()
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
		Store: b.store, Billing: payments, Checker: checker, Public: public, Sealer: b.keys,
		Explainer: explainer, Feedback: reports, Downloads: downloads,
		Receipts: auditlog.Receipts{Store: b.store, Signer: b.store.Signer()},
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
