package main

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/billing"
	"assay/host/check"
	"assay/host/console"
	"assay/host/entity"
	"assay/host/webhook"
)

// newBilling sells through Stripe when a key is set, else through the built-in test checkout.
func (b *backend) newBilling(cfg *Config) *billing.Billing {
	var provider billing.Provider = &billing.TestCheckout{Now: time.Now, Page: console.TestCheckoutPage}
	if cfg.StripeKey != "" {
		provider = billing.NewStripe(cfg.StripeKey, cfg.StripeWebhookSecret, cfg.StripeURL)
	}
	return &billing.Billing{Accounts: b.store, Provider: provider, Now: time.Now}
}

// newConsole wires the pages. Who a request's client is, the server that they are served by knows.
func (b *backend) newConsole(cfg *Config, sales *billing.Billing, checker *check.Checker,
	client func(*fasthttp.RequestCtx) netip.Prefix, log *slog.Logger) (*console.Console, error) {
	allow, err := cfg.webhookAllow()
	if err != nil {
		return nil, err
	}
	guard, err := webhook.NewGuard(allow)
	if err != nil {
		return nil, err
	}
	judge := func(text string) (string, error) {
		receiver, err := webhook.ParseURL(text)
		if err != nil {
			return "", err
		}
		return receiver, guard.Check(receiver)
	}
	return console.New(console.Config{
		Store: b.store, Billing: sales, Checker: checker, Public: publicLimit{b.store}, Sealer: b.keys, Webhook: judge,
		Client: client, URL: strings.TrimSuffix(cfg.URL, "/"), Logger: log, Now: time.Now,
	})
}

// providerEvents takes what the payment provider tells, where there is one that does.
func providerEvents(sales *billing.Billing, log *slog.Logger) func(context.Context, []byte, string) error {
	if _, ok := sales.Provider.(billing.Events); !ok {
		return nil
	}
	return func(ctx context.Context, body []byte, signature string) error {
		err := sales.Receive(ctx, body, signature)
		if errors.Is(err, billing.ErrSignature) {
			log.Warn("payment event refused", "error", err)
			return &entity.InvalidError{Field: "Stripe-Signature", Reason: "is missing, wrong or too old"}
		}
		return err
	}
}
