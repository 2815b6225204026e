package billing

import (
	"context"

	"github.com/stripe/stripe-go/v85"
)

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
