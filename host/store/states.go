package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"assay/host/customer/billing"
	"assay/migrations"
)

// StoredState is the digest of an account, a key, a lineup and so on as the database has it, see audit.State.
type StoredState struct {
	Type, ID string
	Digest   []byte
}

// Compare orders states by type and ID, and returns -1, 0 or 1.
func (s StoredState) Compare(other StoredState) int {
	return strings.Compare(s.Type+"\x00"+s.ID, other.Type+"\x00"+other.ID)
}

// States returns the stored states, in no particular order.
func (l AuditLog) States(ctx context.Context) (states []StoredState, err error) {
	err = l.db.NewRaw("SELECT type, id, sha256(content) AS digest FROM (?) AS s", bun.Safe(migrations.States)).
		Scan(ctx, &states)
	return states, wrap(err, "reading states")
}

// SetQuota sets the monthly quota of an account until its plan changes. It fails with billing.ErrNoAccount.
func (s *Store) SetQuota(ctx context.Context, accountID string, quota int) error {
	err := s.changeAccount(ctx, "SELECT set_quota(?account, ?quota)", named{"account": accountID, "quota": quota})
	return wrap(err, "setting the quota")
}

// SetStanding suspends an account for a reason, or ends its suspension. While it is suspended, every host refuses its
// keys with check.ErrSuspended, also for checks that are not yet recorded. It fails with billing.ErrNoAccount.
func (s *Store) SetStanding(ctx context.Context, accountID string, suspended bool, reason string) error {
	err := s.changeAccount(ctx, "SELECT set_standing(?account, ?suspended, ?reason)",
		named{"account": accountID, "suspended": suspended, "reason": reason})
	return wrap(err, "setting the standing of an account")
}

// changeAccount calls a function that reports whether the account exists. The account of callers without a key has its
// own limits.
func (s *Store) changeAccount(ctx context.Context, call string, args named) error {
	missing := fmt.Errorf("%w: %s", billing.ErrNoAccount, args["account"])
	if args["account"] == publicAccount {
		return missing
	}
	return s.require(ctx, missing, call, args)
}
