package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/host/webhook"
)

// maxOldSecrets is how many replaced secrets may sign alongside the current one: enough to rotate again after a
// mistake, few enough for one header.
const maxOldSecrets = 2

// Failures of an endpoint belong to one series if consecutive ones are at most maxFailureGap apart. Otherwise an
// endpoint that receives one event a week could be disabled by its second failure. The gap is longer than a weekend.
const (
	maxFailureGap = 3 * 24 * time.Hour
	// failed_at is updated at most this often, so that concurrent failures rarely wait for the endpoint's row
	failureInterval = time.Minute
)

//go:embed sql/set_endpoint.sql
var setEndpoint string

// SetEndpoint sets an account's endpoint and returns a new signing secret, which cannot be retrieved later. An existing
// endpoint is replaced, including its secrets. It fails with billing.ErrNoAccount or webhook.ErrPlanWithoutWebhooks.
func (s *Store) SetEndpoint(ctx context.Context, accountID, url string) (secret string, err error) {
	plan, err := s.accountPlan(ctx, accountID)
	if err != nil {
		return "", fmt.Errorf("setting webhook endpoint: %w", err)
	}
	if !plan.Webhooks {
		return "", fmt.Errorf("setting webhook endpoint: %w", webhook.ErrPlanWithoutWebhooks)
	}
	secret = newSecret()
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		sealed := s.keys.Seal([]byte(secret), endpointContext(accountID))
		_, err := tx.NewRaw(setEndpoint, named{"account": accountID, "url": url, "sealed_secret": sealed}).Exec(ctx)
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

// newSecret returns a random secret in the format of Standard Webhooks.
func newSecret() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return "whsec_" + base64.StdEncoding.EncodeToString(raw)
}

//go:embed sql/move_endpoint.sql
var moveEndpoint string

// MoveEndpoint changes an endpoint's URL and keeps its secrets. Pending events go to the new URL. A different URL
// enables the endpoint, because it was the old one that failed. It fails with webhook.ErrNoEndpoint.
func (s *Store) MoveEndpoint(ctx context.Context, accountID, url string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewRaw(moveEndpoint, named{"account": accountID, "url": url}).Exec(ctx)
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

//go:embed sql/enable_endpoint.sql
var enableEndpoint string

// EnableEndpoint enables a disabled endpoint. Events that failed while it was disabled are not resent; ResendFailed
// does that. It fails with webhook.ErrNoEndpoint.
func (s *Store) EnableEndpoint(ctx context.Context, accountID string) error {
	result, err := s.db.NewRaw(enableEndpoint, named{"account": accountID}).Exec(ctx)
	if err := oneRow(result, err, webhook.ErrNoEndpoint); err != nil {
		return fmt.Errorf("enabling webhook endpoint: %w", err)
	}
	return nil
}

// endpointExists returns webhook.ErrNoEndpoint if the account has no endpoint.
func endpointExists(ctx context.Context, db bun.IDB, accountID string) error {
	found, err := db.NewSelect().Table("webhook_endpoints").Where("account_id = ?", accountID).Exists(ctx)
	if err == nil && !found {
		return webhook.ErrNoEndpoint
	}
	return err
}

// RotateSecret creates a new secret and returns it; it cannot be retrieved later. The replaced secret continues to sign
// for overlap. With an overlap of 0 only the new secret signs, as required after a leak. It fails with
// webhook.ErrNoEndpoint.
func (s *Store) RotateSecret(ctx context.Context, accountID string, overlap time.Duration) (secret string, err error) {
	secret = newSecret()
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var current []byte
		err := tx.NewRaw("SELECT sealed_secret FROM webhook_endpoints WHERE account_id = ? FOR UPDATE", accountID).
			Scan(ctx, &current)
		if errors.Is(err, sql.ErrNoRows) {
			return webhook.ErrNoEndpoint
		}
		if err != nil {
			return err
		}
		keep := 0
		if overlap > 0 {
			keep = maxOldSecrets
			_, err := tx.NewRaw(`INSERT INTO webhook_old_secrets (account_id, sealed_secret, replaced_at, ends_at)
				VALUES (?, ?, clock_timestamp(), now() + ? * interval '1 microsecond')`,
				accountID, current, overlap.Microseconds()).Exec(ctx)
			if err != nil {
				return err
			}
		}
		_, err = tx.NewRaw(`DELETE FROM webhook_old_secrets WHERE account_id = ?account AND replaced_at NOT IN (
			SELECT replaced_at FROM webhook_old_secrets WHERE account_id = ?account AND ends_at > now()
			ORDER BY replaced_at DESC LIMIT ?keep)`, named{"account": accountID, "keep": keep}).Exec(ctx)
		if err != nil {
			return err
		}
		_, err = tx.NewRaw("UPDATE webhook_endpoints SET sealed_secret = ? WHERE account_id = ?",
			s.keys.Seal([]byte(secret), endpointContext(accountID)), accountID).Exec(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("rotating webhook secret: %w", err)
	}
	return secret, nil
}

// RemoveEndpoint removes an account's endpoint. Its pending events fail, and all stored payloads are deleted. It fails
// with webhook.ErrNoEndpoint.
func (s *Store) RemoveEndpoint(ctx context.Context, accountID string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		found, err := deleteEndpoint(ctx, tx, accountID)
		if err == nil && !found {
			return webhook.ErrNoEndpoint
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("removing webhook endpoint: %w", err)
	}
	return nil
}

// deleteEndpoint deletes an account's endpoint, discards its events, and reports whether there was an endpoint.
func deleteEndpoint(ctx context.Context, tx bun.IDB, accountID string) (found bool, err error) {
	result, err := tx.NewRaw("DELETE FROM webhook_endpoints WHERE account_id = ?", accountID).Exec(ctx)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, err
	}
	_, err = discardEvents(tx).Where("account_id = ?", accountID).Exec(ctx)
	return n > 0, err
}

// discardEvents returns a query that deletes the payloads of events that can never be sent, and fails those that are
// pending. The caller adds the condition that selects the events.
func discardEvents(tx bun.IDB) *bun.UpdateQuery {
	return tx.NewUpdate().Table("webhook_events").
		Set("sealed_payload = NULL, state = 'failed', next_attempt_at = NULL, leased_until = NULL").
		Set("settled_at = least(settled_at, now())"). // Citus accepts no now() within coalesce
		Where("sealed_payload IS NOT NULL")
}

//go:embed sql/list_endpoints.sql
var listEndpoints string

// Endpoints lists the endpoint of an account, or all endpoints if accountID is empty.
func (s *Store) Endpoints(ctx context.Context, accountID string) ([]webhook.Endpoint, error) {
	endpoints := []webhook.Endpoint{}
	if err := s.db.NewRaw(listEndpoints, named{"account": accountID}).Scan(ctx, &endpoints); err != nil {
		return nil, fmt.Errorf("listing webhook endpoints: %w", err)
	}
	return endpoints, nil
}

// oneRow returns err, or none if the statement affected no row.
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
