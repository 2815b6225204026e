package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/billing"
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
	LastUsedAt *time.Time `bun:",scanonly"`
	Plan       string     `bun:",scanonly"`
	Used       int        `bun:",scanonly"`
	Scopes     []string   `bun:",array"`
	Networks   []string   `bun:",array"`
	Lifetime   *string
	Test       bool
	Suspended  bool `bun:",scanonly"` // the account
}

// limitsOf returns the limits of a key.
func limitsOf(scopes, networks []string, test bool) (limits apikey.Limits, err error) {
	limits.Test = test
	for _, s := range scopes {
		limits.Scopes = append(limits.Scopes, apikey.Scope(s)) // a later release may know it
	}
	if limits.Networks, err = apikey.ParseNetworks(networks); err != nil {
		return limits, fmt.Errorf("reading the limits of a key: %w", err)
	}
	return limits, nil
}

// key converts the row. A key counts as revoked once it has expired.
func (k keyRow) key(now time.Time) (apikey.Key, error) {
	limits, err := limitsOf(k.Scopes, k.Networks, k.Test)
	out := apikey.Key{
		ID: k.ID, Account: k.AccountID, Name: k.Name, Hint: k.Hint, State: k.State, CreatedAt: k.CreatedAt,
		EndedAt: k.EndedAt, ExpiresAt: k.ExpiresAt, LastUsedAt: k.LastUsedAt, Plan: k.Plan, Used: k.Used,
		Limits: limits,
	}
	if k.State == apikey.Valid && k.Suspended {
		out.State = apikey.Suspended
	}
	if k.State == apikey.Valid && k.ExpiresAt != nil && !now.Before(*k.ExpiresAt) {
		out.State, out.EndedAt = apikey.Revoked, k.ExpiresAt
	}
	return out, err
}

// CreateKey is IssueKey for a key without limits.
func (s *Store) CreateKey(ctx context.Context, accountID, name string) (apikey.Issued, error) {
	return s.IssueKey(ctx, accountID, apikey.Wanted{Name: name})
}

// IssueKey issues a key to an account. The monthly quota is shared by all keys of the account. It fails with
// billing.ErrNoAccount, billing.ErrSubscriptionEnded or apikey.ErrTooMany.
func (s *Store) IssueKey(ctx context.Context, accountID string, wanted apikey.Wanted) (apikey.Issued, error) {
	plan, err := s.accountPlan(ctx, accountID)
	var issued apikey.Issued
	if err == nil {
		issued, err = s.addKey(ctx, accountID, wanted, "", time.Time{})
	}
	issued.Plan = plan.Name
	return issued, wrap(err, "creating key")
}

// addKey issues another key to an account. If replaces names a key, the new one gets its name and limits, and that key
// expires at the given time. It fails with apikey.ErrTooMany, apikey.ErrNotFound or billing.ErrSubscriptionEnded.
func (s *Store) addKey(ctx context.Context, accountID string, wanted apikey.Wanted, replaces string,
	expires time.Time) (apikey.Issued, error) {
	secret := apikey.New()
	if wanted.Limits.Test {
		secret = apikey.NewTest()
	}
	k, err := newKeyRow(secret, accountID, wanted.Name)
	if err != nil {
		return apikey.Issued{}, err
	}
	refusal, err := once[string](ctx, s, "SELECT add_key(?key, ?replaces, ?expires, ?max, ?now, ?plans, ?serving)",
		withTerms(named{
			"key": k.insert(wanted), "replaces": replaces, "expires": expires, "max": apikey.MaxPerAccount,
			"now": s.now(),
		}))
	return apikey.Issued{Secret: secret, ID: k.ID, Account: accountID}, errors.Join(err, refusals[refusal])
}

// refusals maps results of database functions, which return "" on success, to errors.
var refusals = map[string]error{
	"no such key":                apikey.ErrNotFound,
	"too many keys":              apikey.ErrTooMany,
	"last key":                   apikey.ErrLast,
	"in use":                     billing.ErrNoReissue,
	"subscribed":                 billing.ErrSubscribed,
	"the subscription has ended": billing.ErrSubscriptionEnded,
}

// withTerms adds the plans and subscription rules that database functions need to their arguments.
func withTerms(args named) named {
	plans := columns{}
	for _, p := range check.Plans() {
		plans[p.Name] = columns{"quota": p.Quota, "webhooks": p.Webhooks, "free": p.Cents == 0}
	}
	args["plans"], args["serving"] = plans.json(), pgdialect.Array(servingStatuses)
	return args
}

// insert returns the columns of a new key.
func (k *keyRow) insert(wanted apikey.Wanted) string {
	l := wanted.Limits
	row := columns{"id": k.ID, "account_id": k.AccountID, "name": k.Name, "hash": k.Hash, "hint": k.Hint,
		"state": apikey.Valid, "scopes": l.Scopes, "networks": l.Networks, "test": l.Test}
	if wanted.Lifetime != 0 {
		row["lifetime"] = fmt.Sprintf("%d microseconds", wanted.Lifetime.Microseconds())
	}
	return row.json()
}

// newKeyRow returns the row of a new key.
func newKeyRow(secret, account, name string) (*keyRow, error) {
	hash, ok := apikey.Parse(secret)
	if !ok {
		return nil, errors.New("the new key does not parse")
	}
	return &keyRow{ID: "key_" + ulid.Make().String(), AccountID: account, Name: name, Hash: hash[:],
		Hint: apikey.Hint(secret)}, nil
}

// RotateKey issues a replacement with the same name, limits and lifetime for a key, which keeps working until the
// overlap has passed, or until it would have expired. An empty accountID matches any account. It fails with
// apikey.ErrNotFound or apikey.ErrTooMany.
func (s *Store) RotateKey(ctx context.Context, accountID, id string, overlap time.Duration) (apikey.Issued, error) {
	var old struct {
		AccountID, Plan string
		Test            bool
	}
	err := s.db.NewRaw(rotatedKeyQuery, named{"key": id, "account": accountID}).Scan(ctx, &old)
	err = orElse(err, apikey.ErrNotFound)
	var issued apikey.Issued
	if err == nil {
		// The database takes the limits from the replaced key. Only the form of the new key depends on them here.
		wanted := apikey.Wanted{Limits: apikey.Limits{Test: old.Test}}
		issued, err = s.addKey(ctx, old.AccountID, wanted, id, s.now().Add(overlap))
	}
	issued.Plan = old.Plan
	return issued, wrap(err, "rotating key %s", id)
}

const rotatedKeyQuery = `SELECT k.account_id, a.plan, k.test
	FROM api_keys AS k JOIN accounts AS a ON a.id = k.account_id
	WHERE k.id = ?key AND (?account = '' OR k.account_id = ?account)`

// Keys lists the keys of an account, or all keys if accountID is empty, newest first.
func (s *Store) Keys(ctx context.Context, accountID string) ([]apikey.Key, error) {
	var rows []keyRow
	now := s.now()
	err := query(s.db, "keys", named{"account": accountID}).Scan(ctx, &rows)
	keys, err := convert(rows, err, func(k keyRow) (apikey.Key, error) { return k.key(now) })
	return keys, wrap(err, "listing keys")
}

// RevokeKey ends a key, effective on every host: checks that are not yet recorded fail. It fails with
// apikey.ErrNotFound.
func (s *Store) RevokeKey(ctx context.Context, id string) error { return s.revokeKey(ctx, id, "") }

func (s *Store) revokeKey(ctx context.Context, id, accountID string) error {
	refusal, err := once[string](ctx, s, "SELECT revoke_key(?key, ?account)", named{"key": id, "account": accountID})
	return wrap(errors.Join(err, refusals[refusal]), "revoking key %s", id)
}

// Authenticate returns the caller that a key belongs to. A malformed or mistyped key costs no query. Results are cached
// for a few seconds, which is harmless because the transaction that records a check validates the key again, as Confirm
// does. It fails with check.ErrUnauthorized, check.ErrExpired, check.ErrSuspended, with a *check.UnavailableError if
// the database does not respond, or with another error.
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
		Scopes, Networks    []string `bun:",array"`
		Test, Suspended     bool
	}
	now := s.now()
	err := query(s.db, "caller_by_key", named{"hash": hash[:]}).Scan(ctx, &row)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return check.Caller{}, withOutage(fmt.Errorf("looking up key: %w", err))
	}
	plan, ok := check.PlanNamed(row.Plan)
	found := cachedCaller{until: now.Add(cacheInvalid)}
	switch {
	case err != nil || row.State != apikey.Valid || !ok:
		found.err = check.ErrUnauthorized
	case row.Suspended:
		found.err = check.ErrSuspended
	case !row.ExpiresAt.IsZero() && !now.Before(row.ExpiresAt):
		found.err = check.ErrExpired
	default:
		limits, err := limitsOf(row.Scopes, row.Networks, row.Test)
		if err != nil {
			return check.Caller{}, err
		}
		plan.Quota = row.Quota
		found.Caller = check.Caller{Account: row.AccountID, Key: row.ID, Plan: plan, Limits: limits}
		found.until = now.Add(cacheValid)
		if ends := row.ExpiresAt; !ends.IsZero() && ends.Before(found.until) {
			found.until = ends
		}
	}
	s.callers.Put(hash, found, 0)
	return found.Caller, found.err
}

// Confirm reads the caller's key again. It fails with check.ErrUnauthorized or check.ErrSuspended.
func (s *Store) Confirm(ctx context.Context, caller check.Caller) error {
	_, err := s.findRequester(ctx, s.db, caller)
	return withOutage(wrap(err, "confirming key"))
}

// Recall is Authenticate without a query. known is false if the key is not cached. It then returns the caller if the
// key was valid a moment ago.
func (s *Store) Recall(presented string) (caller check.Caller, known bool, err error) {
	hash, ok := apikey.Parse(presented)
	if !ok {
		return check.Caller{}, true, check.ErrUnauthorized
	}
	found, known := s.callers.Get(hash)
	if !known || !s.now().Before(found.until) {
		return found.Caller, false, nil
	}
	return found.Caller, true, found.err
}

// RevokeAccountKey ends a key of an account, except the last one that does not expire. It fails with apikey.ErrLast, or
// with apikey.ErrNotFound, also for another account's key.
func (s *Store) RevokeAccountKey(ctx context.Context, accountID, id string) error {
	if accountID == "" {
		return fmt.Errorf("revoking key %s: %w", id, apikey.ErrNotFound)
	}
	return s.revokeKey(ctx, id, accountID)
}

// ForgetCallers clears the cache of Authenticate, after keys or plans have changed.
func (s *Store) ForgetCallers() { s.callers.Clear() }

// cachedCaller is the cached outcome of authenticating a key.
type cachedCaller struct {
	check.Caller
	err   error // check.ErrUnauthorized, check.ErrExpired, check.ErrSuspended, or nil
	until time.Time
}

const (
	cacheValid   = 5 * time.Second
	cacheInvalid = time.Second
	maxCached    = 20_000 // so that random keys cannot exhaust memory
)
