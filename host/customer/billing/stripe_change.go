package billing

import (
	"context"
	"fmt"

	"github.com/stripe/stripe-go/v85"

	"assay/host/check"
)

// Due implements Provider.
func (s *Stripe) Due(ctx context.Context, stored Subscription, o check.Plan) (int64, error) {
	now, price, err := s.readWithPrice(ctx, stored, o)
	if err != nil {
		return 0, err
	}
	preview, err := s.client.V1Invoices.CreatePreview(ctx, &stripe.InvoiceCreatePreviewParams{
		Subscription: stripe.String(now.ID),
		SubscriptionDetails: &stripe.InvoiceCreatePreviewSubscriptionDetailsParams{
			Items: []*stripe.InvoiceCreatePreviewSubscriptionDetailsItemParams{
				{ID: stripe.String(now.item), Price: stripe.String(price)},
			},
			BillingCycleAnchorNow: stripe.Bool(true),
			ProrationBehavior:     stripe.String("always_invoice"),
		},
	})
	if err != nil {
		return 0, stripeError("computing the amount due", err)
	}
	return preview.AmountDue, nil
}

// readWithPrice reads a subscription, and Stripe's id of an offer's price.
func (s *Stripe) readWithPrice(ctx context.Context, stored Subscription, o check.Plan) (Subscription, string, error) {
	now, err := s.Read(ctx, stored)
	if err != nil || o.Cents == 0 {
		return now, "", err
	}
	price, err := s.price(ctx, o)
	return now, price, err
}

// Change implements Provider.
func (s *Stripe) Change(ctx context.Context, stored Subscription, o check.Plan) (Subscription, error) {
	now, price, err := s.readWithPrice(ctx, stored, o)
	reverts := o.Name == now.Plan
	ends := !now.EndsAt.IsZero()
	switch {
	case err != nil || reverts && !ends && now.NextPlan == "": // the call may be a repeated one
		return now, err
	case o.Cents == 0:
		return s.endWithPeriod(ctx, now, o.Name)
	case !reverts && now.Status != Active:
		return now, ErrDue
	case now.raises(o) && !ends && now.NextPlan != "":
		// Credit the rest of the plan that was paid, not of the cheaper one that would follow.
		paid, _ := OfferOf(now.Plan)
		if now, err = s.Change(ctx, now, paid); err != nil {
			return now, err
		}
	}
	p := &stripe.SubscriptionUpdateParams{
		Items: []*stripe.SubscriptionUpdateItemParams{{ID: &now.item, Price: &price}},
	}
	if now.raises(o) {
		// A new period begins. Otherwise a day of a larger plan in each month would buy the whole month's quota.
		p.BillingCycleAnchorNow, p.ProrationBehavior = stripe.Bool(true), stripe.String("always_invoice")
		p.PaymentBehavior = stripe.String("pending_if_incomplete")
		p.AddExpand("latest_invoice")
		paid, err := s.update(ctx, now, p)
		if err != nil || !ends {
			return paid, err
		}
		return s.Change(ctx, paid, o) // reverts the cancellation, which stays if the card is declined
	}
	keeps := ""
	if !reverts {
		keeps = fmt.Sprintf("%s until %d", now.Plan, now.PaidUntil.Unix())
	}
	p.ProrationBehavior, p.CancelAtPeriodEnd = stripe.String("none"), stripe.Bool(false)
	p.Metadata = map[string]string{metaKeeps: keeps, metaThen: ""}
	return s.update(ctx, now, p)
}

// Cancel implements Provider.
func (s *Stripe) Cancel(ctx context.Context, stored Subscription) (Subscription, error) {
	now, err := s.Read(ctx, stored)
	if err != nil {
		return now, err
	}
	return s.endWithPeriod(ctx, now, "")
}

// endWithPeriod ends a subscription at the end of the paid period, which may have passed.
func (s *Stripe) endWithPeriod(ctx context.Context, now Subscription, then string) (Subscription, error) {
	ending, err := s.update(ctx, now, &stripe.SubscriptionUpdateParams{CancelAtPeriodEnd: stripe.Bool(true),
		Metadata: map[string]string{metaThen: then}})
	if err != nil || now.Status == Active {
		return ending, err
	}
	ended, err := s.client.V1Subscriptions.Cancel(ctx, now.ID, nil) // Stripe would keep charging for the unpaid period
	if err != nil {
		return now, stripeError("ending the subscription", err)
	}
	return s.subscription(ended), nil
}

func (s *Stripe) update(ctx context.Context, now Subscription, p *stripe.SubscriptionUpdateParams) (
	Subscription, error) {
	changed, err := s.client.V1Subscriptions.Update(ctx, now.ID, p)
	if err != nil {
		return now, stripeError("changing the subscription", err)
	}
	if changed.PendingUpdate != nil && p.PaymentBehavior != nil { // Stripe drops it unless its invoice is paid in a day
		unpaid := &UnpaidError{}
		if changed.LatestInvoice != nil {
			unpaid.URL = changed.LatestInvoice.HostedInvoiceURL
		}
		return now, unpaid
	}
	return s.subscription(changed), nil
}

// Customers is implemented by providers that ask customers for an e-mail address.
type Customers interface {
	// CustomerAddress returns the e-mail address of a customer.
	CustomerAddress(ctx context.Context, customer string) (string, error)
	// CustomersOf returns the ids of the customers with an e-mail address.
	CustomersOf(ctx context.Context, address string) ([]string, error)
}

// CustomerAddress implements Customers.
func (s *Stripe) CustomerAddress(ctx context.Context, customer string) (string, error) {
	found, err := s.client.V1Customers.Retrieve(ctx, customer, nil)
	if err != nil {
		return "", stripeError("reading a customer", err)
	}
	return found.Email, nil
}

// CustomersOf implements Customers.
func (s *Stripe) CustomersOf(ctx context.Context, address string) (ids []string, err error) {
	const most = 10
	params := &stripe.CustomerListParams{Email: stripe.String(address)}
	params.Limit = stripe.Int64(most)
	for found, err := range s.client.V1Customers.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, stripeError("finding customers", err)
		}
		if ids = append(ids, found.ID); len(ids) == most {
			break
		}
	}
	return ids, nil
}
