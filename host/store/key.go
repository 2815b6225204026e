package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/apikey"
	"assay/host/billing"
	"assay/host/check"
)

// keyRow is a row of api_keys.
type keyRow struct {
	bun.BaseModel `bun:"table:api_keys,alias:key"`

	ID         string `bun:",pk"`
	AccountID  string
	Name       string
	Hash       []byte
	Hint       string
	State      apikey.State `bun:",nullzero,default:'valid'"`
	CreatedAt  time.Time    `bun:",nullzero,default:now()"`
	EndedAt    *time.Time
	ExpiresAt  *time.Time
	LastUsedAt *time.Time
	Plan       string `bun:",scanonly"`
	Used       int    `bun:",scanonly"`
}

// key converts the row. A rotated key counts as revoked once it has expired.
func (k *keyRow) key(now time.Time) apikey.Key {
	out := apikey.Key{
		ID: k.ID, Account: k.AccountID, Name: k.Name, Hint: k.Hint, State: k.State, CreatedAt: k.CreatedAt,
		EndedAt: k.EndedAt, ExpiresAt: k.ExpiresAt, LastUsedAt: k.LastUsedAt, Plan: k.Plan, Used: k.Used,
	}
	if k.State == apikey.Valid && !k.signsIn(now) {
		out.State, out.EndedAt = apikey.Revoked, k.ExpiresAt
	}
	return out
}

// CreateKey issues a key to an account. The monthly quota is shared by all keys of the account. It fails with
// billing.ErrNoAccount, billing.ErrSubscriptionEnded or apikey.ErrTooMany.
func (s *Store) CreateKey(ctx context.Context, accountID, name string) (issued apikey.Issued, err error) {
	plan, err := s.accountPlan(ctx, accountID)
	if err != nil {
		return apikey.Issued{}, fmt.Errorf("creating key: %w", err)
	}
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		if ok, err := keysEnabled(ctx, tx, accountID); err != nil {
			return err
		} else if !ok {
			return billing.ErrSubscriptionEnded
		}
		issued, err = s.addKey(ctx, tx, accountID, name)
		return err
	})
	if err != nil {
		return apikey.Issued{}, fmt.Errorf("creating key: %w", err)
	}
	issued.Plan = plan.Name
	return issued, nil
}

// lockAccount locks the head of the account's chain. Every change to an account's keys, plan and subscriptions holds
// this lock, so what the transaction reads of them stays valid until it ends.
func lockAccount(ctx context.Context, tx bun.Tx, accountID string) error {
	_, err := lockHeads(ctx, tx, tx.NewSelect().Table("accounts").Column("chain").Where("id = ?", accountID))
	return err
}

// addKey issues another key to a locked account. It fails with apikey.ErrTooMany.
func (s *Store) addKey(ctx context.Context, tx bun.Tx, accountID, name string) (apikey.Issued, error) {
	n, err := tx.NewSelect().Model((*keyRow)(nil)).Where("account_id = ? AND state = 'valid'", accountID).
		Where("expires_at IS NULL OR expires_at > ?", s.now()).Count(ctx)
	if err != nil {
		return apikey.Issued{}, err
	}
	if n >= apikey.MaxPerAccount {
		return apikey.Issued{}, apikey.ErrTooMany
	}
	secret, k, err := generateKey(accountID, name)
	if err != nil {
		return apikey.Issued{}, err
	}
	_, err = tx.NewInsert().Model(k).Exec(ctx)
	return apikey.Issued{Secret: secret, ID: k.ID, Account: accountID}, err
}

// generateKey returns a new key and its row.
func generateKey(account, name string) (secret string, k *keyRow, err error) {
	secret = apikey.New()
	hash, ok := apikey.Parse(secret)
	if !ok {
		return "", nil, errors.New("the new key does not parse")
	}
	return secret, &keyRow{ID: "key_" + ulid.Make().String(), AccountID: account, Name: name, Hash: hash[:],
		Hint: apikey.Hint(secret)}, nil
}

// RotateKey issues a replacement for a key, which keeps working until the overlap has passed. It fails with
// apikey.ErrNotFound or apikey.ErrTooMany.
func (s *Store) RotateKey(ctx context.Context, accountID, id string,
	overlap time.Duration) (issued apikey.Issued, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		var name string
		err := tx.NewSelect().Model((*keyRow)(nil)).Column("name").
			Where("id = ? AND account_id = ? AND state = 'valid'", id, accountID).
			Where("expires_at IS NULL OR expires_at > ?", s.now()).Scan(ctx, &name)
		if errors.Is(err, sql.ErrNoRows) {
			return apikey.ErrNotFound
		}
		if err != nil {
			return err
		}
		if issued, err = s.addKey(ctx, tx, accountID, name); err != nil {
			return err
		}
		// A key that is rotated twice expires at the earlier time.
		_, err = tx.NewUpdate().Model((*keyRow)(nil)).
			Set("expires_at = least(expires_at, ?)", s.now().Add(overlap)).Where("id = ?", id).Exec(ctx)
		if err != nil {
			return err
		}
		return notify(ctx, tx, TopicKeys)
	})
	if err != nil {
		return apikey.Issued{}, fmt.Errorf("rotating key %s: %w", id, err)
	}
	return issued, nil
}

//go:embed sql/keys.sql
var keysQuery string

// Keys lists the keys of an account, or all keys if accountID is empty, newest first.
func (s *Store) Keys(ctx context.Context, accountID string) ([]apikey.Key, error) {
	var rows []keyRow
	now := s.now()
	err := s.db.NewRaw(keysQuery, named{"account": accountID, "month": period(now)}).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	keys := make([]apikey.Key, len(rows))
	for i := range rows {
		keys[i] = rows[i].key(now)
	}
	return keys, nil
}

// RevokeKey ends a key, effective on every host: checks that are not yet recorded fail. It fails with
// apikey.ErrNotFound.
func (s *Store) RevokeKey(ctx context.Context, id string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error { return revokeKey(ctx, tx, id) })
	if err != nil {
		return fmt.Errorf("revoking key %s: %w", id, err)
	}
	return nil
}

func revokeKey(ctx context.Context, tx bun.Tx, id string) error {
	// Holding the head lock rules out batches that read the key as valid and have not committed yet.
	chain := tx.NewSelect().TableExpr("api_keys AS k").Join("JOIN accounts AS a ON a.id = k.account_id").
		Column("a.chain").Where("k.id = ?", id)
	if _, err := lockHeads(ctx, tx, chain); err != nil {
		return err
	}
	result, err := tx.NewUpdate().Model((*keyRow)(nil)).Set("state = 'revoked'").Set("ended_at = now()").
		Where("id = ? AND state = 'valid'", id).Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(apikey.ErrNotFound, err)
	}
	return notify(ctx, tx, TopicKeys)
}

//go:embed sql/caller_by_key.sql
var callerByKey string

// Authenticate returns the caller that a key belongs to. A malformed or mistyped key costs no query. Results are cached
// for a few seconds, which is harmless because the transaction that records a check validates the key again. It fails
// with check.ErrUnauthorized, with a *check.UnavailableError if the database does not respond, or with another error.
func (s *Store) Authenticate(ctx context.Context, presented string) (check.Caller, error) {
	if caller, known, err := s.Recall(presented); known {
		return caller, err
	}
	hash, _ := apikey.Parse(presented)
	var row struct {
		ID, AccountID, Plan string
		State               apikey.State
		Quota               int
		ExpiresAt           time.Time
	}
	err := s.db.NewRaw(callerByKey, named{"hash": hash[:]}).Scan(ctx, &row)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return check.Caller{}, withOutage(fmt.Errorf("looking up key: %w", err))
	}
	plan, ok := check.PlanNamed(row.Plan)
	if err != nil || row.State != apikey.Valid || !ok || (!row.ExpiresAt.IsZero() && !s.now().Before(row.ExpiresAt)) {
		s.callers.put(hash, check.Caller{}, s.now())
		return check.Caller{}, check.ErrUnauthorized
	}
	plan.Quota = row.Quota
	caller := check.Caller{Account: row.AccountID, Key: row.ID, Plan: plan}
	s.callers.put(hash, caller, s.now())
	return caller, nil
}

// Recall is Authenticate without a query. known is false if the key is not cached.
func (s *Store) Recall(presented string) (caller check.Caller, known bool, err error) {
	hash, ok := apikey.Parse(presented)
	if !ok {
		return check.Caller{}, true, check.ErrUnauthorized
	}
	caller, known = s.callers.get(hash, s.now())
	if known && caller.Key == "" {
		return check.Caller{}, true, check.ErrUnauthorized
	}
	return caller, known, nil
}

// SignIn returns the key that a user presents to sign in to the dashboard. It accepts valid keys, and keys that ended
// with their subscription, so that the user can choose a plan again. It fails with check.ErrUnauthorized.
func (s *Store) SignIn(ctx context.Context, presented string) (apikey.Key, error) {
	hash, ok := apikey.Parse(strings.TrimSpace(presented))
	if !ok {
		return apikey.Key{}, check.ErrUnauthorized
	}
	var k keyRow
	err := s.db.NewSelect().Model(&k).Where("hash = ?", hash[:]).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && !k.signsIn(s.now())) {
		return apikey.Key{}, check.ErrUnauthorized
	}
	if err != nil {
		return apikey.Key{}, fmt.Errorf("looking up key: %w", err)
	}
	return k.key(s.now()), nil
}

// signsIn reports whether the key can open the dashboard.
func (k *keyRow) signsIn(now time.Time) bool {
	return k.State != apikey.Revoked && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// SessionPlan returns the plan of the account of a dashboard session, which was opened with keyID. It fails with
// apikey.ErrNotFound if that key can no longer sign in.
func (s *Store) SessionPlan(ctx context.Context, accountID, keyID string) (check.Plan, error) {
	var k keyRow
	err := s.db.NewSelect().Model(&k).Where("id = ? AND account_id = ?", keyID, accountID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && !k.signsIn(s.now())) {
		return check.Plan{}, apikey.ErrNotFound
	}
	if err != nil {
		return check.Plan{}, fmt.Errorf("looking up session: %w", err)
	}
	return s.accountPlan(ctx, accountID)
}

// RevokeAccountKey ends a key of an account, except the last one that can sign in. It fails with apikey.ErrLast, or
// with apikey.ErrNotFound, also for another account's key.
func (s *Store) RevokeAccountKey(ctx context.Context, accountID, id string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		var valid []string
		err := tx.NewSelect().Model((*keyRow)(nil)).Column("id").Where("account_id = ? AND state = 'valid'", accountID).
			Where("expires_at IS NULL OR id = ?", id).Scan(ctx, &valid)
		if err != nil {
			return err
		}
		if !slices.Contains(valid, id) {
			return apikey.ErrNotFound
		}
		if len(valid) == 1 {
			return apikey.ErrLast
		}
		return revokeKey(ctx, tx, id)
	})
	if err != nil {
		return fmt.Errorf("revoking key %s: %w", id, err)
	}
	return nil
}

// ForgetCallers clears the cache of Authenticate, after keys or plans have changed.
func (s *Store) ForgetCallers() { s.callers.clear() }

// callerCache caches callers by key hash. An empty caller means that the key is not valid.
type callerCache struct {
	mu      sync.Mutex
	entries map[apikey.Hash]cachedCaller
}

type cachedCaller struct {
	check.Caller
	until time.Time
}

const (
	cacheValid   = 5 * time.Second
	cacheInvalid = time.Second
	maxCached    = 20_000 // the cache is cleared beyond this, so that random keys cannot fill the memory
)

func (c *callerCache) get(hash apikey.Hash, now time.Time) (check.Caller, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[hash]
	return e.Caller, ok && now.Before(e.until)
}

func (c *callerCache) put(hash apikey.Hash, caller check.Caller, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxCached {
		c.entries = map[apikey.Hash]cachedCaller{}
	}
	keep := cacheValid
	if caller.Key == "" {
		keep = cacheInvalid
	}
	c.entries[hash] = cachedCaller{caller, now.Add(keep)}
}

func (c *callerCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
}
