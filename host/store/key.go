package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/apikey"
	"assay/host/check"
)

// Key is what is known of an API key. The key itself is not among it.
type Key struct {
	bun.BaseModel `bun:"table:api_keys" json:"-"`

	ID        string `bun:",pk" json:"id"`
	AccountID string `json:"account"`
	Name      string `json:"name"`
	Hash      []byte `json:"-"`
	Hint      string `json:"hint"`
	// valid, revoked (listed so once a rotation's overlap has passed) or cancelled
	State     string     `bun:",nullzero,default:'valid'" json:"state"`
	CreatedAt time.Time  `bun:",nullzero,default:now()" json:"created_at"`
	EndedAt   *time.Time `json:"ended_at"`
	// ExpiresAt is when a key that was rotated ends.
	ExpiresAt  *time.Time `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // to the minute
	Plan       string     `bun:",scanonly" json:"plan"`
	Used       int        `bun:",scanonly" json:"used_this_month"` // by the whole account
}

// Issued is a new key, the only time that it can be seen.
type Issued struct {
	Secret  string `json:"key"`
	ID      string `json:"id"`
	Account string `json:"account"`
	Plan    string `json:"plan"`
}

// mostKeys is how many keys of an account may work at once, those included that only work until a rotation's overlap
// ends.
const mostKeys = 20

// Errors of keys.
var (
	ErrNoKey       = errors.New("there is no such valid key") // also for another account's
	ErrEnded       = errors.New("the account's subscription has ended: choose a plan first")
	ErrTooManyKeys = fmt.Errorf("an account has %d keys at most: revoke one first", mostKeys)
	ErrLastKey     = errors.New("this is the account's only key, and without one nobody can sign in: create another first")
)

// CreateKey issues a key to an account. The month's quota is the account's, whichever of its keys is used. Errors:
// ErrNoAccount, ErrEnded, ErrTooManyKeys.
func (s *Store) CreateKey(ctx context.Context, accountID, name string) (issued Issued, err error) {
	plan, err := s.accountPlan(ctx, accountID)
	if err != nil {
		return Issued{}, fmt.Errorf("creating key: %w", err)
	}
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		if ok, err := served(ctx, tx, accountID); err != nil {
			return err
		} else if !ok {
			return ErrEnded
		}
		issued, err = s.addKey(ctx, tx, accountID, name)
		return err
	})
	if err != nil {
		return Issued{}, fmt.Errorf("creating key: %w", err)
	}
	issued.Plan = plan.Name
	return issued, nil
}

// lockAccount takes the head of an account's chain. Behind it, keys begin and end and subscriptions settle: what is
// read then stays so until the transaction ends.
func lockAccount(ctx context.Context, tx bun.Tx, accountID string) error {
	_, err := lockHeads(ctx, tx, tx.NewSelect().Table("accounts").Column("chain").Where("id = ?", accountID))
	return err
}

// addKey issues one more key to a locked account. Error: ErrTooManyKeys.
func (s *Store) addKey(ctx context.Context, tx bun.Tx, accountID, name string) (Issued, error) {
	n, err := tx.NewSelect().Model((*Key)(nil)).Where("account_id = ? AND state = 'valid'", accountID).
		Where("expires_at IS NULL OR expires_at > ?", s.now()).Count(ctx)
	if err != nil {
		return Issued{}, err
	}
	if n >= mostKeys {
		return Issued{}, ErrTooManyKeys
	}
	secret, k, err := mintKey(accountID, name)
	if err != nil {
		return Issued{}, err
	}
	_, err = tx.NewInsert().Model(k).Exec(ctx)
	return Issued{Secret: secret, ID: k.ID, Account: accountID}, err
}

// mintKey returns a new key and the row that is kept of it.
func mintKey(account, name string) (secret string, k *Key, err error) {
	secret = apikey.New()
	hash, ok := apikey.Parse(secret)
	if !ok {
		return "", nil, errors.New("the new key does not parse")
	}
	return secret, &Key{ID: "key_" + ulid.Make().String(), AccountID: account, Name: name, Hash: hash[:],
		Hint: apikey.Hint(secret)}, nil
}

// RotateKey issues a key in place of one that works on until the overlap has passed. Errors: ErrNoKey, ErrTooManyKeys.
func (s *Store) RotateKey(ctx context.Context, accountID, id string, overlap time.Duration) (issued Issued, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		var name string
		err := tx.NewSelect().Model((*Key)(nil)).Column("name").Where("id = ? AND account_id = ? AND state = 'valid'",
			id, accountID).
			Where("expires_at IS NULL OR expires_at > ?", s.now()).Scan(ctx, &name)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoKey
		}
		if err != nil {
			return err
		}
		if issued, err = s.addKey(ctx, tx, accountID, name); err != nil {
			return err
		}
		// Rotated twice, it ends at the earlier of the two times.
		_, err = tx.NewUpdate().Model((*Key)(nil)).Set("expires_at = least(expires_at, ?)",
			s.now().Add(overlap)).Where("id = ?", id).Exec(ctx)
		if err != nil {
			return err
		}
		return notify(ctx, tx, TopicKeys)
	})
	if err != nil {
		return Issued{}, fmt.Errorf("rotating key %s: %w", id, err)
	}
	return issued, nil
}

// Keys lists keys, newest first: all, or those of one account.
func (s *Store) Keys(ctx context.Context, accountID string) ([]Key, error) {
	keys := []Key{}
	q := s.db.NewSelect().Model(&keys).ColumnExpr("key.*, a.plan, coalesce(u.used, 0) AS used").
		Join("JOIN accounts AS a ON a.id = key.account_id").
		Join("LEFT JOIN quota_usage AS u ON u.account_id = a.id AND u.period = ?", period(s.now())).
		Order("key.id DESC")
	if accountID != "" {
		q = q.Where("key.account_id = ?", accountID)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	for i := range keys {
		if k := &keys[i]; k.State == "valid" && !k.signsIn(s.now()) {
			k.State, k.EndedAt = "revoked", k.ExpiresAt
		}
	}
	return keys, nil
}

// RevokeKey ends a key. No check that has not been recorded yet will be answered with it, on any host. Error: ErrNoKey.
func (s *Store) RevokeKey(ctx context.Context, id string) error {
	return s.endKey(ctx, id, "revoked")
}

func (s *Store) endKey(ctx context.Context, id, state string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error { return endKey(ctx, tx, id, state) })
	if err != nil {
		return fmt.Errorf("ending key %s: %w", id, err)
	}
	return nil
}

func endKey(ctx context.Context, tx bun.Tx, id, state string) error {
	// Behind the head's lock no batch is left that has read the key as valid and not yet committed.
	chain := tx.NewSelect().TableExpr("api_keys AS k").Join("JOIN accounts AS a ON a.id = k.account_id").
		Column("a.chain").Where("k.id = ?", id)
	if _, err := lockHeads(ctx, tx, chain); err != nil {
		return err
	}
	result, err := tx.NewUpdate().Model((*Key)(nil)).Set("state = ?", state).Set("ended_at = now()").
		Where("id = ? AND state = 'valid'", id).Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrNoKey, err)
	}
	return notify(ctx, tx, TopicKeys)
}

// Authenticate returns who presents a key. A malformed or mistyped one costs no query; others are remembered for a few
// seconds, which is harmless: whether the key is valid is decided again in the transaction that records the check.
// Errors: check.ErrUnauthorized, or the database's.
func (s *Store) Authenticate(ctx context.Context, presented string) (check.Caller, error) {
	hash, ok := apikey.Parse(presented)
	if !ok {
		return check.Caller{}, check.ErrUnauthorized
	}
	if caller, known := s.callers.get(hash, s.now()); known {
		if caller.Key == "" {
			return check.Caller{}, check.ErrUnauthorized
		}
		return caller, nil
	}
	var row struct {
		ID, AccountID, State, Plan string
		Quota                      int
		ExpiresAt                  time.Time
	}
	err := s.db.NewRaw(`SELECT k.id, k.account_id, k.state, a.plan, a.quota, k.expires_at
		FROM api_keys AS k JOIN accounts AS a ON a.id = k.account_id WHERE k.hash = ?`, hash[:]).Scan(ctx, &row)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return check.Caller{}, fmt.Errorf("looking up key: %w", err)
	}
	plan, ok := check.PlanNamed(row.Plan)
	if err != nil || row.State != "valid" || !ok || (!row.ExpiresAt.IsZero() && !s.now().Before(row.ExpiresAt)) {
		s.callers.put(hash, check.Caller{}, s.now())
		return check.Caller{}, check.ErrUnauthorized
	}
	plan.Quota = row.Quota
	caller := check.Caller{Account: row.AccountID, Key: row.ID, Plan: plan}
	s.callers.put(hash, caller, s.now())
	return caller, nil
}

// SignIn returns the key that somebody presents to sign in to the dashboard: one that works, or that ended with its
// subscription, so that a plan can be chosen again. Error: check.ErrUnauthorized.
func (s *Store) SignIn(ctx context.Context, presented string) (Key, error) {
	hash, ok := apikey.Parse(strings.TrimSpace(presented))
	if !ok {
		return Key{}, check.ErrUnauthorized
	}
	var k Key
	err := s.db.NewSelect().Model(&k).Where("hash = ?", hash[:]).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && !k.signsIn(s.now())) {
		return Key{}, check.ErrUnauthorized
	}
	if err != nil {
		return Key{}, fmt.Errorf("looking up key: %w", err)
	}
	return k, nil
}

func (k *Key) signsIn(now time.Time) bool {
	return k.State != "revoked" && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// SessionPlan returns the plan of an account whose dashboard is open by one of its keys. Error: ErrNoKey, once the key
// may no longer sign in.
func (s *Store) SessionPlan(ctx context.Context, accountID, keyID string) (check.Plan, error) {
	var k Key
	err := s.db.NewSelect().Model(&k).Where("id = ? AND account_id = ?", keyID, accountID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && !k.signsIn(s.now())) {
		return check.Plan{}, ErrNoKey
	}
	if err != nil {
		return check.Plan{}, fmt.Errorf("looking up session: %w", err)
	}
	return s.accountPlan(ctx, accountID)
}

// RevokeAccountKey ends a key of an account, unless nobody could sign in any more. Errors: ErrNoKey, also for another
// account's; ErrLastKey.
func (s *Store) RevokeAccountKey(ctx context.Context, accountID, id string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		var valid []string
		err := tx.NewSelect().Model((*Key)(nil)).Column("id").Where("account_id = ? AND state = 'valid'", accountID).
			Where("expires_at IS NULL OR id = ?", id).Scan(ctx, &valid)
		if err != nil {
			return err
		}
		if !slices.Contains(valid, id) {
			return ErrNoKey
		}
		if len(valid) == 1 {
			return ErrLastKey
		}
		return endKey(ctx, tx, id, "revoked")
	})
	if err != nil {
		return fmt.Errorf("ending key %s: %w", id, err)
	}
	return nil
}

// ForgetCallers drops what Authenticate remembers: keys or plans have changed.
func (s *Store) ForgetCallers() { s.callers.clear() }

// callerCache remembers callers by key hash: known ones, and as an empty caller unknown ones.
type callerCache struct {
	mu      sync.Mutex
	entries map[apikey.Hash]rememberedCaller
}

type rememberedCaller struct {
	check.Caller
	until time.Time
}

const (
	rememberValid   = 5 * time.Second
	rememberUnknown = time.Second
	rememberMost    = 20_000 // entries; more, and all are forgotten: random keys must not fill the memory
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
	if c.entries == nil || len(c.entries) >= rememberMost {
		c.entries = map[apikey.Hash]rememberedCaller{}
	}
	keep := rememberValid
	if caller.Key == "" {
		keep = rememberUnknown
	}
	c.entries[hash] = rememberedCaller{caller, now.Add(keep)}
}

func (c *callerCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
}
