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
	"golang.org/x/time/rate"

	"assay/host/check"
)

// Stripe is the provider that uses Stripe's hosted checkout. Its fields must not change after the first call.
type Stripe struct {
	Tax  bool   // Stripe computes VAT, which is added to the prices
	Note string // shown above the button of the checkout, in Markdown, such as a link to the terms

	client *stripe.Client
	test   bool
	secret string // signs the events of the webhook endpoint
}

var (
	_ Provider = (*Stripe)(nil)
	_ Portal   = (*Stripe)(nil)
	_ Events   = (*Stripe)(nil)
	_ Pages    = (*Stripe)(nil)
)

// stripeTimeout limits one attempt of a call; the caller's context limits all attempts together.
const stripeTimeout = 20 * time.Second

// stripeRate is the maximum number of calls that a host makes in a second; further calls wait. Stripe refuses more than
// 25 in test mode, so a visitor who begins checkouts or reloads pages could otherwise delay the reading of payments.
const stripeRate = 20

// paced sends calls at a limited rate.
type paced struct{ *rate.Limiter }

func (p *paced) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.Wait(r.Context()); err != nil {
		return nil, err
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Keys of a subscription's metadata.
const (
	metaCheckout = "assay_checkout" // the id of its checkout
	// The plan that is served until the end of the current period, and that end: the price in Stripe is already that of
	// the cheaper plan that follows. Stripe's schedules would do the same, but keep the customer from cancelling.
	metaKeeps = "assay_keeps"
	metaThen  = "assay_then" // the plan of the account after the subscription has ended
)

// NewStripe returns a provider with an API key and the signing secret of its webhook endpoint. url replaces the API's
// base URL in tests, which are not paced; "" is Stripe's own.
func NewStripe(key, secret, url string) *Stripe {
	cfg := &stripe.BackendConfig{
		HTTPClient: &http.Client{Timeout: stripeTimeout,
			Transport: &paced{rate.NewLimiter(stripeRate, stripeRate)}},
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull}, // the default writes to standard output
		MaxNetworkRetries: stripe.Int64(2),
		EnableTelemetry:   stripe.Bool(false),
	}
	if url != "" {
		cfg.URL, cfg.HTTPClient.Transport = stripe.String(url), nil
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

// Checkout implements Provider. Repeated calls for a checkout return the same page. Its customer is created first,
// because Stripe's report of a declined card refers to the checkout only by its customer.
func (s *Stripe) Checkout(ctx context.Context, c Checkout, returnTo, cancelTo string) (Page, error) {
	offer, ok := OfferOf(c.Plan)
	if !ok {
		return Page{}, ErrNoPlan
	}
	price, err := s.price(ctx, offer)
	if err != nil {
		return Page{}, err
	}
	customer := &stripe.CustomerCreateParams{Metadata: map[string]string{metaCheckout: c.ID}}
	customer.SetIdempotencyKey("customer-" + c.ID)
	created, err := s.client.V1Customers.Create(ctx, customer)
	if err != nil {
		return Page{}, stripeError("creating the customer", err)
	}
	p := &stripe.CheckoutSessionCreateParams{
		Customer: stripe.String(created.ID),
		Mode:     stripe.String(stripe.CheckoutSessionModeSubscription),
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
	if s.Tax {
		p.AutomaticTax = &stripe.CheckoutSessionCreateAutomaticTaxParams{Enabled: stripe.Bool(true)}
		p.TaxIDCollection = &stripe.CheckoutSessionCreateTaxIDCollectionParams{Enabled: stripe.Bool(true)}
		p.CustomerUpdate = &stripe.CheckoutSessionCreateCustomerUpdateParams{ // keeps what the customer enters
			Address: stripe.String("auto"), Name: stripe.String("auto")}
		p.BillingAddressCollection = stripe.String(stripe.CheckoutSessionBillingAddressCollectionRequired)
	}
	if s.Note != "" {
		p.CustomText = &stripe.CheckoutSessionCreateCustomTextParams{
			Submit: &stripe.CheckoutSessionCreateCustomTextSubmitParams{Message: stripe.String(s.Note)}}
	}
	p.SetIdempotencyKey("checkout-" + c.ID)
	session, err := s.client.V1CheckoutSessions.Create(ctx, p)
	if err != nil {
		return Page{}, stripeError("opening Stripe's checkout", err)
	}
	return Page{session.ID, session.URL, created.ID}, nil
}

// Paid implements Pages.
func (s *Stripe) Paid(ctx context.Context, page string) (string, error) {
	session, err := s.client.V1CheckoutSessions.Retrieve(ctx, page, nil)
	if isStripeError(err, stripe.ErrorCodeResourceMissing) { // it belongs to another Stripe account
		return "", nil
	}
	if err != nil {
		return "", stripeError("reading Stripe's checkout", err)
	}
	if session.Status != stripe.CheckoutSessionStatusComplete || session.Subscription == nil {
		return "", nil
	}
	return session.Subscription.ID, nil
}

// Close implements Pages. Stripe refuses to expire a session that is no longer open.
func (s *Stripe) Close(ctx context.Context, page string) (string, error) {
	_, err := s.client.V1CheckoutSessions.Expire(ctx, page, nil)
	if err == nil {
		return "", nil
	}
	if refused, ok := errors.AsType[*stripe.Error](err); ok && refused.HTTPStatusCode < http.StatusInternalServerError {
		return s.Paid(ctx, page)
	}
	return "", stripeError("closing Stripe's checkout", err)
}

// price returns Stripe's id of an offer's price, and creates the price if it does not exist.
func (s *Stripe) price(ctx context.Context, o check.Plan) (string, error) {
	key := fmt.Sprintf("assay_%s_%d", o.Name, o.Cents) // planOf reads the plan from it
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
		// VAT, if any, is added to the price.
		TaxBehavior: stripe.String(stripe.PriceTaxBehaviorExclusive),
		Recurring: &stripe.PriceCreateRecurringParams{
			Interval: stripe.String(stripe.PriceRecurringIntervalMonth),
		},
		ProductData: &stripe.PriceCreateProductDataParams{Name: stripe.String("Assay " + o.Name)},
	}
	params.SetIdempotencyKey("price-" + key)
	created, err := s.client.V1Prices.Create(ctx, params)
	if err != nil {
		return "", stripeError("creating the price", err)
	}
	return created.ID, nil
}

// Read implements Provider.
func (s *Stripe) Read(ctx context.Context, stored Subscription) (Subscription, error) {
	current, err := s.client.V1Subscriptions.Retrieve(ctx, stored.ID, nil)
	if isStripeError(err, stripe.ErrorCodeResourceMissing) {
		return Subscription{}, nil
	}
	if err != nil {
		return Subscription{}, stripeError("reading the subscription", err)
	}
	return s.subscription(current), nil
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

// Refund implements Provider. It ignores refusals because a subscription or payment is already cancelled or refunded.
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

// ErrSignature means that an event is not signed by the provider, or that its signature is too old.
var ErrSignature = errors.New("the event's signature is missing, wrong or too old")

// Event implements Events.
func (s *Stripe) Event(body []byte, signature string) (Event, error) {
	if s.secret == "" {
		return Event{}, fmt.Errorf("%w: no signing secret is set", ErrSignature)
	}
	e, err := webhook.ConstructEventWithOptions(body, signature, s.secret,
		webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	if err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if e.Data == nil {
		return Event{}, errors.New("the event has no data")
	}
	if e.Type == stripe.EventTypeChargeFailed {
		return declined(e.Data.Raw)
	}
	var object struct {
		Object       string
		ID           string
		Subscription any // an id, unless the whole subscription was requested from Stripe
	}
	if err := json.Unmarshal(e.Data.Raw, &object); err != nil {
		return Event{}, fmt.Errorf("reading the event's object: %w", err)
	}
	switch object.Object {
	case "subscription":
		return Event{Subscription: object.ID}, nil
	case "checkout.session":
		id, _ := object.Subscription.(string)
		return Event{Subscription: id}, nil
	}
	return Event{}, nil
}

// declined reads a charge that failed. A charge without a customer does not belong to a checkout.
func declined(raw []byte) (Event, error) {
	var charge stripe.Charge
	if err := json.Unmarshal(raw, &charge); err != nil {
		return Event{}, fmt.Errorf("reading the event's charge: %w", err)
	}
	if charge.Customer == nil || charge.ID == "" {
		return Event{}, nil
	}
	d := &Decline{ID: charge.ID, Customer: charge.Customer.ID, At: time.Unix(charge.Created, 0).UTC()}
	if details := charge.PaymentMethodDetails; details != nil && details.Card != nil {
		d.Card = details.Card.Fingerprint
	}
	return Event{Decline: d}, nil
}

// subscription converts a subscription of the API.
func (s *Stripe) subscription(current *stripe.Subscription) Subscription {
	out := Subscription{ID: current.ID, Provider: s.Name(), Checkout: current.Metadata[metaCheckout],
		Plan: planOf(current), Status: statusOf(current.Status)}
	if current.Customer != nil {
		out.Customer = current.Customer.ID
	}
	if current.Items != nil && len(current.Items.Data) > 0 {
		item := current.Items.Data[0]
		out.item = item.ID
		var kept string
		var until int64
		_, err := fmt.Sscanf(current.Metadata[metaKeeps], "%s until %d", &kept, &until)
		if err == nil && item.CurrentPeriodEnd <= until {
			out.Plan, out.NextPlan = kept, out.Plan
		}
		out.PaidUntil = time.Unix(item.CurrentPeriodEnd, 0).UTC()
		if out.Status != Active && out.Status != Canceled { // Stripe begins the next period before it is paid
			out.PaidUntil = time.Unix(item.CurrentPeriodStart, 0).UTC()
		}
	}
	ends := current.CancelAt
	if out.Status == Canceled {
		ends = current.EndedAt
	}
	if ends != 0 {
		out.EndsAt, out.NextPlan = time.Unix(ends, 0).UTC(), current.Metadata[metaThen]
	}
	return out
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

func isStripeError(err error, code stripe.ErrorCode) bool {
	var known *stripe.Error
	return errors.As(err, &known) && known.Code == code
}

// stripeError reports the status and code of an API error, but not its message, which can quote the request.
func stripeError(doing string, err error) error {
	if known, ok := errors.AsType[*stripe.Error](err); ok {
		return fmt.Errorf("%s: Stripe responded %d %s (request %s): %w", doing, known.HTTPStatusCode, known.Code,
			known.RequestID, ErrUnavailable)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
}
