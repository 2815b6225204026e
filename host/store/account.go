package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/oklog/ulid/v2"

	"assay/host/check"
	"assay/host/customer/billing"
)

const saltBytes = 32

// account is a new row of accounts.
type account struct {
	ID    string
	Plan  string
	Quota int
	Salt  []byte
	Chain int
}

// accountInfo is the information that the ledger needs to prepare an account's records. Salt and Chain never change.
type accountInfo struct {
	Salt     []byte
	Chain    int
	Endpoint bool // the account had a webhook endpoint; the database knows whether it still has one
}

// maxAccounts bounds the accounts that a ledger caches, so that preparing a record needs no query. The cache may be
// outdated: the database decides.
const maxAccounts = 20_000

// account returns the information about an account that the ledger needs. It fails with check.ErrUnauthorized if the
// account does not exist.
func (l *Ledger) account(ctx context.Context, id string) (accountInfo, error) {
	if a, ok := l.accounts.Get(id); ok {
		return a, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	var a accountInfo
	err := l.store.db.NewRaw(`SELECT a.salt, a.chain, e.account_id IS NOT NULL AS endpoint
		FROM accounts AS a LEFT JOIN webhook_endpoints AS e ON e.account_id = a.id WHERE a.id = ?`, id).Scan(ctx, &a)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return a, check.ErrUnauthorized
	case isOutage(err):
		return a, refused(fmt.Errorf("reading account: %w", err))
	case err != nil:
		return a, fmt.Errorf("reading account: %w", err)
	}
	l.accounts.Put(id, a, 0)
	return a, nil
}

// publicAccount is the account of all callers without a key.
const publicAccount = "acct_public"

// PublicCaller returns the caller that uses the endpoint without a key.
func (s *Store) PublicCaller() check.Caller {
	return check.Caller{Account: publicAccount, Plan: check.PublicPlan()}
}

func (s *Store) createPublicAccount(ctx context.Context) error {
	var exists bool
	err := s.db.NewRaw("SELECT EXISTS (SELECT FROM accounts WHERE id = ?)", publicAccount).Scan(ctx, &exists)
	if err == nil && !exists {
		err = s.insertAccount(ctx, s.newAccount(publicAccount, check.PublicPlan()))
	}
	if err != nil && sqlState(err) != uniqueViolation { // another host was faster
		return fmt.Errorf("creating the public account: %w", err)
	}
	return nil
}

func (s *Store) insertAccount(ctx context.Context, a *account) error {
	_, err := once[string](ctx, s, "SELECT insert_account(?account)", named{"account": a.json()})
	return err
}

// newAccount returns an account on one of the chains that the host's configuration sets. Its chain never changes.
func (s *Store) newAccount(id string, plan check.Plan) *account {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	return &account{ID: id, Plan: plan.Name, Quota: plan.Quota, Salt: salt, Chain: mathrand.IntN(s.newChains)}
}

// json returns the columns of a new account for the database's functions.
func (a *account) json() string {
	return columns{"id": a.ID, "plan": a.Plan, "quota": a.Quota, "salt": a.Salt, "chain": a.Chain}.json()
}

// CreateAccount creates an account with a plan and returns its id.
func (s *Store) CreateAccount(ctx context.Context, plan check.Plan) (string, error) {
	a := s.newAccount("acct_"+ulid.Make().String(), plan)
	err := s.insertAccount(ctx, a)
	return a.ID, wrap(err, "creating account")
}

// RequireAccount fails with billing.ErrNoAccount if id is not empty and no account has it.
func (s *Store) RequireAccount(ctx context.Context, id string) error {
	found, err := s.db.NewSelect().Table("accounts").Where("id = ?", id).Exists(ctx)
	if err == nil && !found && id != "" {
		err = fmt.Errorf("%w: %s", billing.ErrNoAccount, id)
	}
	return err
}

// accountPlan returns the plan of an account, with the account's own quota.
func (s *Store) accountPlan(ctx context.Context, id string) (check.Plan, error) {
	var a account
	err := s.db.NewRaw("SELECT plan, quota FROM accounts WHERE id = ?", id).Scan(ctx, &a)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && id == publicAccount) {
		return check.Plan{}, fmt.Errorf("%w: %s", billing.ErrNoAccount, id)
	}
	if err != nil {
		return check.Plan{}, err
	}
	plan, ok := check.PlanNamed(a.Plan)
	if !ok {
		return check.Plan{}, fmt.Errorf("account %s is on the unknown plan %q", id, a.Plan)
	}
	plan.Quota = a.Quota
	return plan, nil
}
