package billing

import (
	"testing"

	"assay/registry/expect"
)

func TestCustomers(t *testing.T) {
	t.Parallel()
	s := NewStripe("sk_test_123", signingSecret, startStripe(t))
	expect.Value(s.CustomerAddress(t.Context(), "cus_1"))(t) // stripe-mock's customer has none
	ids := expect.Value(s.CustomersOf(t.Context(), "jane@example.org"))(t)
	expect.That(t, len(ids) > 0 && ids[0] != "", "customers: %q", ids)
	closed := NewStripe("sk_test_123", signingSecret, "http://127.0.0.1:1")
	_, err := closed.CustomersOf(t.Context(), "jane@example.org")
	expect.Error(t, "without Stripe", err, ErrUnavailable)
}
