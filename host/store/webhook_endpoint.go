package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"time"

	"github.com/uptrace/bun"

	"assay/host/customer/webhook"
)

// Failures of an endpoint belong to one series if consecutive ones are at most maxFailureGap apart. Otherwise an
// endpoint that receives one event a week could be disabled by its second failure. The gap is longer than a weekend.
const (
	maxFailureGap = 3 * 24 * time.Hour
	// failed_at is updated at most this often, so that concurrent failures rarely wait for the endpoint's row
	failureInterval = time.Minute
)

// SetEndpoint sets an account's endpoint and returns a new signing secret, which cannot be retrieved later. An existing
// endpoint is replaced, including its secrets. It fails with billing.ErrNoAccount or webhook.ErrPlanWithoutWebhooks.
func (s *Store) SetEndpoint(ctx context.Context, accountID, url string) (secret string, err error) {
	plan, err := s.accountPlan(ctx, accountID)
	if err == nil && !plan.Webhooks {
		err = webhook.ErrPlanWithoutWebhooks
	}
	secret = newSecret()
	if err == nil { // the plan may change meanwhile
		err = s.require(ctx, webhook.ErrPlanWithoutWebhooks, "SELECT set_endpoint(?account, ?url, ?secret, ?plans)",
			withTerms(named{"account": accountID, "url": url,
				"secret": s.keys.Seal([]byte(secret), endpointContext(accountID))}))
	}
	return secret, wrap(err, "setting webhook endpoint")
}

// newSecret returns a random secret in the format of Standard Webhooks.
func newSecret() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return "whsec_" + base64.StdEncoding.EncodeToString(raw)
}

// MoveEndpoint changes an endpoint's URL and keeps its secrets. Pending events go to the new URL. A different URL
// enables the endpoint, because it was the old one that failed. It fails with webhook.ErrNoEndpoint.
func (s *Store) MoveEndpoint(ctx context.Context, accountID, url string) error {
	err := again(func() error {
		_, err := query(s.db, "move_endpoint", named{"account": accountID, "url": url}).Exec(ctx)
		return err
	})
	if err == nil {
		err = endpointExists(ctx, s.db, accountID)
	}
	return wrap(err, "moving webhook endpoint")
}

// EnableEndpoint enables a disabled endpoint. Events that failed while it was disabled are not resent; ResendFailed
// does that. It fails with webhook.ErrNoEndpoint.
func (s *Store) EnableEndpoint(ctx context.Context, accountID string) error {
	err := again(func() error {
		result, err := query(s.db, "enable_endpoint", named{"account": accountID}).Exec(ctx)
		return oneRow(result, err, webhook.ErrNoEndpoint)
	})
	return wrap(err, "enabling webhook endpoint")
}

// endpointExists returns webhook.ErrNoEndpoint if the account has no endpoint.
func endpointExists(ctx context.Context, db bun.IDB, accountID string) error {
	found, err := db.NewSelect().Table("webhook_endpoints").Where("account_id = ?", accountID).Exists(ctx)
	if err == nil && !found {
		return webhook.ErrNoEndpoint
	}
	return err
}

// RotateSecret creates a new secret and returns it; it cannot be retrieved later. It begins to sign after switchIn, and
// the replaced secret ends then. With 0 the new one signs at once, as required after a leak. It fails with
// webhook.ErrNoEndpoint.
func (s *Store) RotateSecret(ctx context.Context, accountID string, switchIn time.Duration) (secret string, err error) {
	secret = newSecret()
	err = s.require(ctx, webhook.ErrNoEndpoint, "SELECT rotate_secret(?account, ?secret, ?switch * interval "+
		"'1 microsecond')", named{"account": accountID, "switch": switchIn.Microseconds(),
		"secret": s.keys.Seal([]byte(secret), endpointContext(accountID))})
	return secret, wrap(err, "rotating webhook secret")
}

// SwitchSecret lets the newest secret of an account's endpoint sign from now on, and ends the one before.
func (s *Store) SwitchSecret(ctx context.Context, accountID string) error {
	_, err := s.db.NewRaw("DELETE FROM webhook_old_secrets WHERE account_id = ?", accountID).Exec(ctx)
	return withOutage(wrap(err, "switching webhook secret"))
}

// RemoveEndpoint removes an account's endpoint. Its pending events fail, and all stored payloads are deleted. It fails
// with webhook.ErrNoEndpoint.
func (s *Store) RemoveEndpoint(ctx context.Context, accountID string) error {
	return wrap(s.require(ctx, webhook.ErrNoEndpoint, "SELECT remove_endpoint(?account)", named{"account": accountID}),
		"removing webhook endpoint")
}

// discardEvents returns a query that deletes the payloads of events that can never be sent, and fails those that are
// pending. The caller adds the condition that selects the events.
func discardEvents(tx bun.IDB) *bun.UpdateQuery {
	return tx.NewUpdate().Table("webhook_events").
		Set("sealed_payload = NULL, state = 'failed', next_attempt_at = NULL, leased_until = NULL").
		Set("settled_at = least(settled_at, now())"). // Citus accepts no now() within coalesce
		Where("sealed_payload IS NOT NULL")
}

// Endpoints lists the endpoint of an account, or all endpoints if accountID is empty.
func (s *Store) Endpoints(ctx context.Context, accountID string) ([]webhook.Endpoint, error) {
	endpoints := []webhook.Endpoint{}
	err := query(s.db, "list_endpoints", named{"account": accountID}).Scan(ctx, &endpoints)
	return endpoints, wrap(err, "listing webhook endpoints")
}

// Notices returns the notices about endpoints that their owners have not received. EndNotice ends one.
func (s *Store) Notices(ctx context.Context) (notices []webhook.Notice, err error) {
	err = s.db.NewRaw(`SELECT account_id, notice = 'disabled' AS disabled FROM webhook_endpoints
		WHERE notice IS NOT NULL`).Scan(ctx, &notices)
	return notices, withOutage(wrap(err, "reading notices about webhooks"))
}

// EndNotice ends a notice, unless another one for the owner has replaced it.
func (s *Store) EndNotice(ctx context.Context, n webhook.Notice) error {
	_, err := s.db.NewRaw(`UPDATE webhook_endpoints SET notice = NULL
		WHERE account_id = ? AND (notice = 'disabled') = ?`, n.AccountID, n.Disabled).Exec(ctx)
	return withOutage(wrap(err, "ending a notice about a webhook"))
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
