package hosttest

import (
	"encoding/json"
	"testing"
	"time"
)

const StripeSecret = "whsec_of_the_tests"

// StripeEvent is an event sent by Stripe.
type StripeEvent struct {
	ID, kind string
	at       time.Time
	object   map[string]any
}

func (e StripeEvent) Body(t *testing.T) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"id": e.ID, "object": "event", "type": e.kind, "created": e.at.Unix(),
		"data": map[string]any{"object": e.object},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}
