package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/billing"
	"assay/host/check"
)

const saltBytes = 32

// account is a row of accounts.
type account struct {
	bun.BaseModel `bun:"table:accounts"`

	ID        string `bun:",pk"`
	Plan      string
	Quota     int
	Salt      []byte
	Chain     int
	CreatedAt time.Time `bun:",nullzero,default:now()"`
}

// publicAccount is the account of all callers without a key.
const publicAccount = "acct_public"

// PublicCaller returns the caller that uses the endpoint without a key.
func (s *Store) PublicCaller() check.Caller {
	return check.Caller{Account: publicAccount, Plan: check.PublicPlan()}
}

func (s *Store) createPublicAccount(ctx context.Context) error {
	a := newAccount(publicAccount, check.PublicPlan())
	if _, err := s.db.NewInsert().Model(a).On("CONFLICT (id) DO NOTHING").Exec(ctx); err != nil {
		return fmt.Errorf("creating the public account: %w", err)
	}
	return nil
}

func newAccount(id string, plan check.Plan) *account {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	return &account{ID: id, Plan: plan.Name, Quota: plan.Quota, Salt: salt}
}

// CreateAccount creates an account with a plan and returns its id.
func (s *Store) CreateAccount(ctx context.Context, plan check.Plan) (string, error) {
	a := newAccount("acct_"+ulid.Make().String(), plan)
	if _, err := s.db.NewInsert().Model(a).Exec(ctx); err != nil {
		return "", fmt.Errorf("creating account: %w", err)
	}
	return a.ID, nil
}

// accountPlan returns the plan of an account, with the account's own quota.
func (s *Store) accountPlan(ctx context.Context, id string) (check.Plan, error) {
	var a account
	err := s.db.NewSelect().Model(&a).Where("id = ?", id).Scan(ctx)
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
