package webhook

import (
	"errors"
	"time"
)

// Endpoint is an account's webhook receiver, with counts of its listed events by state.
type Endpoint struct {
	AccountID string    `json:"account"`
	URL       string    `json:"url"`
	CreatedAt time.Time `json:"created_at"`

	State          string     `json:"state"` // enabled or disabled
	DisabledAt     *time.Time `json:"disabled_at"`
	DisabledReason *string    `json:"disabled_reason"` // failing: every attempt has failed for DisableAfter
	FailingSince   *time.Time `json:"failing_since"`   // null: the last attempt succeeded, or none has been made

	Pending    int `json:"pending"`
	Delivered  int `json:"delivered"`
	Failed     int `json:"failed"`
	Resendable int `json:"resendable"` // failed, with their content

	OldSecretUntil *time.Time `json:"old_secret_until"` // when the new secret begins to sign; null: it signs already
}

// Notice tells the owner of an endpoint that it was disabled, or that it answers again.
type Notice struct {
	AccountID string
	Disabled  bool
}

// SecretOverlap is how long a replaced secret continues to sign, which gives receivers time to switch.
const SecretOverlap = 24 * time.Hour

// DisableAfter is how long every attempt must have failed before an endpoint is disabled. Svix uses the same five days.
const DisableAfter = 5 * 24 * time.Hour

// Errors of endpoints.
var (
	ErrPlanWithoutWebhooks = errors.New("the account's plan does not include webhooks") // contract section 8
	ErrNoEndpoint          = errors.New("the account has no webhook: set its URL first")
	ErrEndpointDisabled    = errors.New("the webhook endpoint is disabled: enable it first")
)
