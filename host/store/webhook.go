package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/host/check"
)

// eventRow is an event in the outbox.
type eventRow struct {
	bun.BaseModel `bun:"table:webhook_events"`

	Ref           string
	AccountID     string
	Event         string
	SealedPayload []byte
}

// event is the outbox row of a check, if its account has an endpoint and the verdict makes one. Without an endpoint nothing
// is kept: the payload holds the raw entity.
func (s *Store) event(c caller, r check.Record) (row eventRow, ok bool, err error) {
	if !c.Endpoint || !r.Caller.Plan.Webhooks {
		return eventRow{}, false, nil
	}
	name, body, err := r.Decision.Event()
	if err != nil || name == "" {
		return eventRow{}, false, err
	}
	ref := r.Decision.Ref
	return eventRow{Ref: ref, AccountID: c.AccountID, Event: name, SealedPayload: s.keys.Seal(body, "event "+ref)}, true, nil
}

// Endpoint is an account's webhook receiver.
type Endpoint struct {
	bun.BaseModel `bun:"table:webhook_endpoints" json:"-"`

	AccountID    string    `bun:",pk" json:"account"`
	URL          string    `json:"url"`
	SealedSecret []byte    `json:"-"`
	CreatedAt    time.Time `bun:",nullzero,default:now()" json:"created_at"`
}

// ErrPlanWithoutWebhooks means that the account's plan includes no webhooks (spec section 8).
var ErrPlanWithoutWebhooks = errors.New("the account's plan includes no webhooks")

// SetEndpoint sets where an account's events go and returns the secret that signs them, the only time that it can be seen.
// Errors: ErrNoAccount, ErrPlanWithoutWebhooks.
func (s *Store) SetEndpoint(ctx context.Context, accountID, url string) (secret string, err error) {
	plan, err := s.accountPlan(ctx, accountID)
	if err != nil {
		return "", fmt.Errorf("setting webhook endpoint: %w", err)
	}
	if !plan.Webhooks {
		return "", fmt.Errorf("setting webhook endpoint: %w", ErrPlanWithoutWebhooks)
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	secret = "whsec_" + base64.StdEncoding.EncodeToString(raw) // the form of Standard Webhooks
	e := Endpoint{AccountID: accountID, URL: url, SealedSecret: s.keys.Seal([]byte(secret), "endpoint "+accountID)}
	_, err = s.db.NewInsert().Model(&e).On("CONFLICT (account_id) DO UPDATE").
		Set("url = EXCLUDED.url, sealed_secret = EXCLUDED.sealed_secret, created_at = now()").Exec(ctx)
	if err != nil {
		return "", fmt.Errorf("setting webhook endpoint: %w", err)
	}
	return secret, nil
}
