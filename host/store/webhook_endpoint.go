package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// Endpoint is an account's webhook receiver.
type Endpoint struct {
	bun.BaseModel `bun:"table:webhook_endpoints,alias:w" json:"-"`

	AccountID    string    `bun:",pk" json:"account"`
	URL          string    `json:"url"`
	SealedSecret []byte    `json:"-"`
	CreatedAt    time.Time `bun:",nullzero,default:now()" json:"created_at"`

	State          string     `bun:",scanonly" json:"state"` // enabled or disabled
	DisabledAt     *time.Time `json:"disabled_at"`
	DisabledReason *string    `json:"disabled_reason"` // failing: every attempt has failed for DisableAfter
	// every attempt since then has failed; null: the last one succeeded, or there was none
	FailingSince *time.Time `json:"failing_since"`

	// Of the events that are still listed, by state.
	Pending   int `bun:",scanonly" json:"pending"`
	Delivered int `bun:",scanonly" json:"delivered"`
	Failed    int `bun:",scanonly" json:"failed"`

	// when the last replaced secret stops signing; null: none does
	OldSecretUntil *time.Time `bun:",scanonly" json:"old_secret_until"`
}

// SecretOverlap is how long a replaced secret signs beside the new one, so that a receiver can change over.
const SecretOverlap = 24 * time.Hour

// oldSecrets is how many replaced secrets may sign beside the current one: enough to rotate again after a slip, few
// enough for a header.
const oldSecrets = 2

// DisableAfter is for how long every attempt of an endpoint fails before it is disabled, as Svix has it. Failures are
// of one series as long as no two are further apart than sameSeries: an endpoint that gets an event a week must not be
// disabled by its second.
const (
	DisableAfter = 5 * 24 * time.Hour
	sameSeries   = 3 * 24 * time.Hour // longer than a weekend
)

// Errors of endpoints.
var (
	ErrPlanWithoutWebhooks = errors.New("the account's plan includes no webhooks") // spec section 8
	ErrNoEndpoint          = errors.New("the account has no webhook endpoint")
	ErrEndpointDisabled    = errors.New("the webhook endpoint is disabled: enable it first")
)

// SetEndpoint sets where an account's events go and returns the secret that signs them, the only time that it can be
// seen. What was set before is replaced whole, secrets included. Errors: billing.ErrNoAccount, ErrPlanWithoutWebhooks.
func (s *Store) SetEndpoint(ctx context.Context, accountID, url string) (secret string, err error) {
	plan, err := s.accountPlan(ctx, accountID)
	if err != nil {
		return "", fmt.Errorf("setting webhook endpoint: %w", err)
	}
	if !plan.Webhooks {
		return "", fmt.Errorf("setting webhook endpoint: %w", ErrPlanWithoutWebhooks)
	}
	secret = newSecret()
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		e := Endpoint{AccountID: accountID, URL: url, SealedSecret: s.keys.Seal([]byte(secret),
			endpointContext(accountID))}
		_, err := tx.NewInsert().Model(&e).On("CONFLICT (account_id) DO UPDATE").
			Set("url = EXCLUDED.url, sealed_secret = EXCLUDED.sealed_secret, created_at = now()").Set(enabled).Exec(ctx)
		if err != nil {
			return err
		}
		_, err = tx.NewRaw("DELETE FROM webhook_old_secrets WHERE account_id = ?", accountID).Exec(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("setting webhook endpoint: %w", err)
	}
	return secret, nil
}

// newSecret returns a secret in the form of Standard Webhooks.
func newSecret() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return "whsec_" + base64.StdEncoding.EncodeToString(raw)
}

// MoveEndpoint changes the URL and keeps the secret. Events that wait go to the new one. Another URL is enabled: what
// failed was the old one. Error: ErrNoEndpoint.
func (s *Store) MoveEndpoint(ctx context.Context, accountID, url string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewUpdate().Model((*Endpoint)(nil)).Set("url = ?",
			url).Set(enabled).Where("account_id = ? AND url <> ?", accountID, url).Exec(ctx)
		if err != nil {
			return err
		}
		return endpointExists(ctx, tx, accountID)
	})
	if err != nil {
		return fmt.Errorf("moving webhook endpoint: %w", err)
	}
	return nil
}

// enabled sets what an endpoint has failed back to nothing.
const enabled = "failing_since = NULL, failed_at = NULL, disabled_at = NULL, disabled_reason = NULL"

// EnableEndpoint lets events be sent to an endpoint again. What came while it was disabled is not sent by that:
// ResendFailed does. Error: ErrNoEndpoint.
func (s *Store) EnableEndpoint(ctx context.Context, accountID string) error {
	result, err := s.db.NewUpdate().Model((*Endpoint)(nil)).Set(enabled).Where("account_id = ?", accountID).Exec(ctx)
	if err := oneRow(result, err, ErrNoEndpoint); err != nil {
		return fmt.Errorf("enabling webhook endpoint: %w", err)
	}
	return nil
}

// endpointExists is nil or ErrNoEndpoint.
func endpointExists(ctx context.Context, db bun.IDB, accountID string) error {
	found, err := db.NewSelect().Model((*Endpoint)(nil)).Where("account_id = ?", accountID).Exists(ctx)
	if err == nil && !found {
		return ErrNoEndpoint
	}
	return err
}

// RotateSecret makes a new secret and returns it, the only time that it can be seen. The one that it replaces signs
// beside it for as long as overlap says. With 0 only the new one signs from now on, as is right after a leak. Error:
// ErrNoEndpoint.
func (s *Store) RotateSecret(ctx context.Context, accountID string, overlap time.Duration) (secret string, err error) {
	secret = newSecret()
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var current []byte
		err := tx.NewRaw("SELECT sealed_secret FROM webhook_endpoints WHERE account_id = ? FOR UPDATE",
			accountID).Scan(ctx, &current)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoEndpoint
		}
		if err != nil {
			return err
		}
		keep := 0
		if overlap > 0 {
			keep = oldSecrets
			_, err := tx.NewRaw(`INSERT INTO webhook_old_secrets (account_id, sealed_secret, replaced_at, ends_at)
				VALUES (?, ?, clock_timestamp(), now() + ? * interval '1 microsecond')`, accountID, current, overlap.Microseconds()).Exec(ctx)
			if err != nil {
				return err
			}
		}
		_, err = tx.NewRaw(`DELETE FROM webhook_old_secrets WHERE account_id = ?0 AND replaced_at NOT IN (
			SELECT replaced_at FROM webhook_old_secrets WHERE account_id = ?0 AND ends_at > now() ORDER BY replaced_at DESC LIMIT ?1)`,
			accountID, keep).Exec(ctx)
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model((*Endpoint)(nil)).Set("sealed_secret = ?",
			s.keys.Seal([]byte(secret), endpointContext(accountID))).
			Where("account_id = ?", accountID).Exec(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("rotating webhook secret: %w", err)
	}
	return secret, nil
}

// RemoveEndpoint stops an account's events. Those that wait fail, and every payload that is still held is deleted.
// Error: ErrNoEndpoint.
func (s *Store) RemoveEndpoint(ctx context.Context, accountID string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		result, err := tx.NewDelete().Model((*Endpoint)(nil)).Where("account_id = ?", accountID).Exec(ctx)
		if err := oneRow(result, err, ErrNoEndpoint); err != nil {
			return err
		}
		return abandon(ctx, tx, "account_id = ?", accountID)
	})
	if err != nil {
		return fmt.Errorf("removing webhook endpoint: %w", err)
	}
	return nil
}

// abandon makes events that will never be sent fail, and deletes what is held of them.
func abandon(ctx context.Context, tx bun.IDB, where string, args ...any) error {
	_, err := tx.NewRaw(`UPDATE webhook_events AS e SET sealed_payload = NULL, state = 'failed', next_attempt_at = NULL,
		leased_until = NULL, settled_at = coalesce(settled_at, now()) WHERE sealed_payload IS NOT NULL AND `+where, args...).Exec(ctx)
	return err
}

// Endpoints lists the endpoints with what became of their events: all, or that of one account.
func (s *Store) Endpoints(ctx context.Context, accountID string) ([]Endpoint, error) {
	endpoints := []Endpoint{}
	q := s.db.NewSelect().Model(&endpoints).Column("w.account_id", "w.url", "w.created_at", "w.disabled_at",
		"w.disabled_reason", "w.failing_since").
		ColumnExpr("CASE WHEN w.disabled_at IS NULL THEN 'enabled' ELSE 'disabled' END AS state").
		ColumnExpr("(SELECT max(ends_at) FROM webhook_old_secrets AS o WHERE o.account_id = w.account_id AND ends_at > now()) AS old_secret_until").
		ColumnExpr("n.*").
		Join(`CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'delivered') AS delivered,
			count(*) FILTER (WHERE state = 'failed') AS failed FROM webhook_events AS e WHERE e.account_id = w.account_id) AS n`).
		Order("w.account_id")
	if accountID != "" {
		q = q.Where("w.account_id = ?", accountID)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing webhook endpoints: %w", err)
	}
	return endpoints, nil
}

// oneRow is err, or none when the statement that result is of met no row.
func oneRow(result sql.Result, err, none error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return none
	}
	return err
}
