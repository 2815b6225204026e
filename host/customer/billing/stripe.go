package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"
)

// Stripe is the provider that uses Stripe's hosted checkout.
type Stripe struct {
	client *stripe.Client
	test   bool
	secret string // signs the events of the webhook endpoint
}

var (
	_ Provider = (*Stripe)(nil)
	_ Portal   = (*Stripe)(nil)
	_ Events   = (*Stripe)(nil)
)

// stripeTimeout limits one attempt of a call; the caller's context limits all attempts together.
const stripeTimeout = 20 * time.Second

// metaCheckout is the metadata key under which a subscription stores the id of its checkout.
const metaCheckout = "assay_checkout"

// NewStripe returns a provider with an API key and the signing secret of its webhook endpoint. url replaces the API's
// base URL in tests; "" is Stripe's own.
func NewStripe(key, secret, url string) *Stripe {
	cfg := &stripe.BackendConfig{
		HTTPClient:        &http.Client{Timeout: stripeTimeout},
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull}, // the default writes to standard output
		MaxNetworkRetries: stripe.Int64(2),
		EnableTelemetry:   stripe.Bool(false),
	}
	if url != "" {
		cfg.URL = stripe.String(url)
	}
	return &Stripe{
		client: stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(cfg))),
		test:   strings.HasPrefix(key, "sk_test_") || strings.HasPrefix(key, "rk_test_"),
		secret: secret,
	}
}

// Name implements Provider.
func (*Stripe) Name() string { return "stripe" }

// Test implements Provider.
func (s *Stripe) Test() bool { return s.test }

// Checkout implements Provider. Repeated calls for a checkout return the same page.
func (s *Stripe) Checkout(ctx context.Context, c Checkout, returnTo, cancelTo string) (string, error) {
	offer, ok := OfferOf(c.Plan)
	if !ok {
		return "", ErrNoPlan
	}
	price, err := s.price(ctx, offer)
	if err != nil {
		return "", err
	}
	p := &stripe.CheckoutSessionCreateParams{
		Mode: stripe.String(stripe.CheckoutSessionModeSubscription),
		// Other methods are paid days later, when the customer no longer waits for the key.
		PaymentMethodTypes: []*string{stripe.String("card")},
		ClientReferenceID:  stripe.String(c.ID),
		SuccessURL:         stripe.String(returnTo),
		CancelURL:          stripe.String(cancelTo),
		LineItems: []*stripe.CheckoutSessionCreateLineItemParams{
			{Price: stripe.String(price), Quantity: stripe.Int64(1)},
		},
		SubscriptionData: &stripe.CheckoutSessionCreateSubscriptionDataParams{
			Metadata: map[string]string{metaCheckout: c.ID},
		},
	}
	p.SetIdempotencyKey("checkout-" + c.ID)
	session, err := s.client.V1CheckoutSessions.Create(ctx, p)
	if err != nil {
		return "", stripeError("opening Stripe's checkout", err)
	}
	return session.URL, nil
}

// lookupKey returns the lookup key of a plan's price in Stripe, from which planOf reads the plan.
func lookupKey(plan string, cents int64) string { return fmt.Sprintf("assay_%s_%d", plan, cents) }

// price returns Stripe's id of an offer's price, and creates the price if it does not exist.
func (s *Stripe) price(ctx context.Context, o Offer) (string, error) {
	key := lookupKey(o.Plan.Name, o.Cents)
	existing := &stripe.PriceListParams{LookupKeys: stripe.StringSlice([]string{key}), Active: stripe.Bool(true)}
	for p, err := range s.client.V1Prices.List(ctx, existing).All(ctx) {
		if err != nil {
			return "", stripeError("looking up the price", err)
		}
		return p.ID, nil
	}
	params := &stripe.PriceCreateParams{
		Currency:   stripe.String(stripe.CurrencyEUR),
		UnitAmount: stripe.Int64(o.Cents),
		LookupKey:  stripe.String(key),
		Recurring: &stripe.PriceCreateRecurringParams{
			Interval: stripe.String(stripe.PriceRecurringIntervalMonth),
		},
		ProductData: &stripe.PriceCreateProductDataParams{Name: stripe.String("Assay " + o.Plan.Name)},
	}
	params.SetIdempotencyKey("price-" + key)
	created, err := s.client.V1Prices.Create(ctx, params)
	if err != nil {
		return "", stripeError("creating the price", err)
	}
	return created.ID, nil
}

// Change implements Provider.
func (s *Stripe) Change(ctx context.Context, sub Subscription, o Offer) (Change, error) {
	price, err := s.price(ctx, o)
	if err != nil {
		return Change{}, err
	}
	current, err := s.client.V1Subscriptions.Retrieve(ctx, sub.ID, nil)
	if err != nil {
		return Change{}, stripeError("reading the subscription", err)
	}
	if current.Items == nil || len(current.Items.Data) == 0 {
		return Change{}, fmt.Errorf("reading the subscription: %s has no item", sub.ID)
	}
	changed, err := s.client.V1Subscriptions.Update(ctx, sub.ID, &stripe.SubscriptionUpdateParams{
		Items: []*stripe.SubscriptionUpdateItemParams{
			{ID: stripe.String(current.Items.Data[0].ID), Price: stripe.String(price)},
		},
		ProrationBehavior: stripe.String("always_invoice"),
	})
	if err != nil {
		return Change{}, stripeError("changing the subscription", err)
	}
	c := s.changed(sub, changed)
	c.Plan = o.Plan.Name
	return c, nil
}

// Portal implements Portal with Stripe's customer portal, which the operator configures in Stripe's dashboard.
func (s *Stripe) Portal(ctx context.Context, sub Subscription, returnTo string) (string, error) {
	session, err := s.client.V1BillingPortalSessions.Create(ctx, &stripe.BillingPortalSessionCreateParams{
		Customer: stripe.String(sub.Customer), ReturnURL: stripe.String(returnTo),
	})
	if err != nil {
		return "", stripeError("opening Stripe's customer portal", err)
	}
	return session.URL, nil
}

// Cancel implements Provider.
func (s *Stripe) Cancel(ctx context.Context, sub Subscription) (Change, error) {
	return s.endAtPeriod(ctx, sub, true)
}

// Resume implements Provider.
func (s *Stripe) Resume(ctx context.Context, sub Subscription) (Change, error) {
	return s.endAtPeriod(ctx, sub, false)
}

// Refund implements Provider. Stripe refuses to cancel a subscription or refund a payment twice, which is then done.
func (s *Stripe) Refund(ctx context.Context, sub Subscription) error {
	_, err := s.client.V1Subscriptions.Cancel(ctx, sub.ID, nil)
	if err != nil && !isStripeError(err, stripe.ErrorCodeResourceMissing) {
		return stripeError("cancelling the second subscription", err)
	}
	invoices := &stripe.InvoiceListParams{Subscription: stripe.String(sub.ID)}
	for invoice, err := range s.client.V1Invoices.List(ctx, invoices).All(ctx) {
		if err != nil {
			return stripeError("listing invoices", err)
		}
		payments := &stripe.InvoicePaymentListParams{Invoice: stripe.String(invoice.ID), Status: stripe.String("paid")}
		for payment, err := range s.client.V1InvoicePayments.List(ctx, payments).All(ctx) {
			if err != nil {
				return stripeError("listing payments", err)
			}
			if payment.Payment == nil || payment.Payment.PaymentIntent == nil {
				continue
			}
			refund := &stripe.RefundCreateParams{
				PaymentIntent: stripe.String(payment.Payment.PaymentIntent.ID),
				Reason:        stripe.String(stripe.RefundReasonDuplicate),
			}
			refund.SetIdempotencyKey("refund-" + payment.ID)
			_, err := s.client.V1Refunds.Create(ctx, refund)
			if err != nil && !isStripeError(err, stripe.ErrorCodeChargeAlreadyRefunded) {
				return stripeError("refunding the second subscription", err)
			}
		}
	}
	return nil
}

func (s *Stripe) endAtPeriod(ctx context.Context, sub Subscription, end bool) (Change, error) {
	changed, err := s.client.V1Subscriptions.Update(ctx, sub.ID,
		&stripe.SubscriptionUpdateParams{CancelAtPeriodEnd: stripe.Bool(end)})
	if err != nil {
		return Change{}, stripeError("changing the subscription", err)
	}
	return s.changed(sub, changed), nil
}

// changed converts an API response into a change. The response has no event id, so the change gets a random one;
// applying the same state again is harmless.
func (s *Stripe) changed(stored Subscription, current *stripe.Subscription) Change {
	return Change{
		Event: "api_" + stripe.NewIdempotencyKey(), At: responseTime(current.LastResponse), Provider: s.Name(),
		Customer: stored.Customer, Subscription: stored.ID, Plan: planOf(current), Status: statusOf(current.Status),
		EndsAt: endOf(current),
	}
}

// responseTime returns the time of a response by Stripe's clock, in seconds. Responses are ordered among events by it,
// and this host's clock may be ahead.
func responseTime(r *stripe.APIResponse) time.Time {
	if r != nil {
		if at, err := http.ParseTime(r.Header.Get("Date")); err == nil {
			return at
		}
	}
	return time.Now().Truncate(time.Second)
}

// ErrSignature means that an event is not signed by the provider, or that its signature is too old.
var ErrSignature = errors.New("the event's signature is missing, wrong or too old")

// Event implements Events.
func (s *Stripe) Event(body []byte, signature string) (c Change, ok bool, err error) {
	if s.secret == "" {
		return Change{}, false, fmt.Errorf("%w: no signing secret is set", ErrSignature)
	}
	e, err := webhook.ConstructEventWithOptions(body, signature, s.secret,
		webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	if err != nil {
		return Change{}, false, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	c = Change{Event: e.ID, At: time.Unix(e.Created, 0), Provider: s.Name()}
	if e.ID == "" || e.Data == nil {
		return Change{}, false, errors.New("the event has no id or no data")
	}
	switch e.Type {
	case stripe.EventTypeCheckoutSessionCompleted, stripe.EventTypeCheckoutSessionAsyncPaymentSucceeded:
		var session stripe.CheckoutSession
		if err := json.Unmarshal(e.Data.Raw, &session); err != nil {
			return Change{}, false, fmt.Errorf("reading checkout session: %w", err)
		}
		if session.Subscription == nil || session.PaymentStatus == stripe.CheckoutSessionPaymentStatusUnpaid {
			return Change{}, false, nil // the payment has its own event
		}
		c.Checkout, c.Subscription, c.Status = session.ClientReferenceID, session.Subscription.ID, Active
		if session.Customer != nil {
			c.Customer = session.Customer.ID
		}
		return c, c.Checkout != "" && c.Subscription != "", nil
	case stripe.EventTypeCustomerSubscriptionCreated, stripe.EventTypeCustomerSubscriptionUpdated,
		stripe.EventTypeCustomerSubscriptionDeleted, stripe.EventTypeCustomerSubscriptionPaused,
		stripe.EventTypeCustomerSubscriptionResumed:
		var sub stripe.Subscription
		if err := json.Unmarshal(e.Data.Raw, &sub); err != nil {
			return Change{}, false, fmt.Errorf("reading subscription: %w", err)
		}
		c.Checkout, c.Subscription, c.Plan = sub.Metadata[metaCheckout], sub.ID, planOf(&sub)
		c.Status, c.EndsAt = statusOf(sub.Status), endOf(&sub)
		if sub.Customer != nil {
			c.Customer = sub.Customer.ID
		}
		return c, sub.ID != "", nil
	}
	return Change{}, false, nil
}

// planOf returns the plan of a subscription's price, or "" if the price was not created by this service.
func planOf(sub *stripe.Subscription) string {
	if sub.Items == nil {
		return ""
	}
	for _, item := range sub.Items.Data {
		if item.Price == nil {
			continue
		}
		if rest, ok := strings.CutPrefix(item.Price.LookupKey, "assay_"); ok {
			plan, _, _ := strings.Cut(rest, "_")
			if _, known := OfferOf(plan); known {
				return plan
			}
		}
	}
	return ""
}

// statusOf converts a status. A trial counts as active.
func statusOf(s stripe.SubscriptionStatus) Status {
	switch s {
	case stripe.SubscriptionStatusTrialing:
		return Active
	case stripe.SubscriptionStatusIncompleteExpired:
		return Canceled
	}
	return Status(s)
}

// endOf returns when a subscription is due to end; zero if it is not cancelled or has already ended.
func endOf(s *stripe.Subscription) time.Time {
	if s.CancelAt == 0 || s.Status == stripe.SubscriptionStatusCanceled {
		return time.Time{}
	}
	return time.Unix(s.CancelAt, 0).UTC()
}

func isStripeError(err error, code stripe.ErrorCode) bool {
	var known *stripe.Error
	return errors.As(err, &known) && known.Code == code
}

// stripeError reports the status and code of an API error, but not its message, which can quote the request.
func stripeError(doing string, err error) error {
	var known *stripe.Error
	if errors.As(err, &known) {
		return fmt.Errorf("%s: Stripe responded %d %s (request %s): %w", doing, known.HTTPStatusCode, known.Code,
			known.RequestID, ErrUnavailable)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
}
