package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"assay/host/access/signin"
)

// maxOwned limits the accounts for which one request for a link by e-mail gives links.
const maxOwned = 10

// addressMatch returns the keyed hash by which the accounts of an address are found. The case of ASCII letters does not
// matter; that of others does, because in Unicode the letters of another domain can have the same lower case.
func (s *Store) addressMatch(address string) []byte {
	return keyedHash(s.keys.Owner, strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, address))
}

func ownerContext(account string) string { return "owner of " + account }

const (
	ofOwner = `SELECT account_id, sealed_address, usable_at FROM owner_addresses
		WHERE account_id = ? AND recovery = ?`
	linkReturn = " AND expires_at > ? RETURNING account_id, sealed_address"
)

// OwnerAddress returns the confirmed e-mail address of an account's owner, or "".
func (s *Store) OwnerAddress(ctx context.Context, account string) (string, error) {
	row, err := s.addressIn(ctx, ofOwner, account, false)
	return row.text, unlessUnknown(err)
}

// RecoveryAddress returns the recovery address of an account and the time from which it can sign in, or "".
func (s *Store) RecoveryAddress(ctx context.Context, account string) (address string, usableAt time.Time, err error) {
	row, err := s.addressIn(ctx, ofOwner, account, true)
	return row.text, row.UsableAt, unlessUnknown(err)
}

func unlessUnknown(err error) error {
	if errors.Is(err, signin.ErrUnknown) {
		return nil
	}
	return err
}

// addressRow is a row with an e-mail address.
type addressRow struct {
	AccountID     string
	SealedAddress []byte
	UsableAt      time.Time
	text          string
}

// addressIn returns the row that a statement finds or deletes. It fails with signin.ErrUnknown if there is none. A row
// that cannot be opened is not deleted: another host may have its key.
func (s *Store) addressIn(ctx context.Context, statement string, args ...any) (row addressRow, err error) {
	err = transact(ctx, s.db, func(ctx context.Context, tx bun.Tx) error {
		if err := tx.NewRaw(statement, args...).Scan(ctx, &row); err != nil {
			return err
		}
		text, err := s.keys.Open(row.SealedAddress, ownerContext(row.AccountID))
		row.text = string(text)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return row, signin.ErrUnknown
	}
	return row, wrap(withOutage(err), "reading owner's address")
}

// NewAddressLink returns the token of a link that confirms the e-mail address of an account's owner.
func (s *Store) NewAddressLink(ctx context.Context, account, address string) (token string, err error) {
	return s.addLink(ctx, account, s.keys.Seal([]byte(address), ownerContext(account)), false)
}

// NewRecoveryLink returns the token of a link that makes an address the recovery address of an account.
func (s *Store) NewRecoveryLink(ctx context.Context, account, address string) (token string, err error) {
	return s.addLink(ctx, account, s.keys.Seal([]byte(address), ownerContext(account)), true)
}

// ConfirmAddress uses up a link of NewAddressLink, which must be of the account, and stores its address. The account's
// other links end. It returns the address before, or "". It fails with signin.ErrUnknown.
func (s *Store) ConfirmAddress(ctx context.Context, account, token string) (former string, err error) {
	hash, ok := signin.ParseToken(token)
	if !ok {
		return "", signin.ErrUnknown
	}
	row, err := s.addressIn(ctx, `DELETE FROM sign_in_links
		WHERE account_id = ? AND hash = ? AND NOT recovers AND sealed_address IS NOT NULL`+linkReturn, account, hash[:],
		s.now())
	if err == nil {
		former, err = s.OwnerAddress(ctx, account)
	}
	if err == nil {
		err = s.storeAddress(ctx, row, 0)
	}
	if err == nil {
		_, err = s.db.NewRaw("DELETE FROM sign_in_links WHERE account_id = ?", account).Exec(ctx)
	}
	if err != nil {
		return "", withOutage(wrap(err, "confirming owner's address"))
	}
	return former, nil
}

// storeAddress stores the address of an account's owner, or the recovery address, which can sign in after usableIn.
func (s *Store) storeAddress(ctx context.Context, row addressRow, usableIn time.Duration) error {
	_, err := query(s.db, "store_address", named{"account": row.AccountID, "recovery": usableIn > 0,
		"match": s.addressMatch(row.text), "sealed": row.SealedAddress, "now": s.now(),
		"usable": s.now().Add(usableIn)}).Exec(ctx)
	return err
}

// ConfirmRecovery uses up a link of NewRecoveryLink. Its address can sign in after signin.RecoveryWait, unless the
// owner refuses it. It fails with signin.ErrUnknown.
func (s *Store) ConfirmRecovery(ctx context.Context, token string) (account string, err error) {
	hash, ok := signin.ParseToken(token)
	if !ok {
		return "", signin.ErrUnknown
	}
	row, err := s.addressIn(ctx, "DELETE FROM sign_in_links WHERE hash = ? AND recovers"+linkReturn, hash[:], s.now())
	if err == nil {
		err = withOutage(wrap(s.storeAddress(ctx, row, signin.RecoveryWait), "storing recovery address"))
	}
	return row.AccountID, err
}

// RemoveAddress deletes the e-mail address of an account's owner, or the recovery address, and the account's links. It
// returns the address, or "" if there was none.
func (s *Store) RemoveAddress(ctx context.Context, account string, recovery bool) (former string, err error) {
	row, err := s.addressIn(ctx, `DELETE FROM owner_addresses WHERE account_id = ? AND recovery = ?
		RETURNING account_id, sealed_address, usable_at`, account, recovery)
	if err == nil {
		_, err = s.db.NewRaw("DELETE FROM sign_in_links WHERE account_id = ?", account).Exec(ctx)
	}
	return row.text, unlessUnknown(withOutage(wrap(err, "removing owner's address")))
}

// OwnersOf returns the accounts that sign in with an e-mail address, by the address as it was confirmed.
func (s *Store) OwnersOf(ctx context.Context, address string) (owned map[string][]string, err error) {
	var rows []addressRow
	err = s.db.NewRaw(`SELECT DISTINCT ON (account_id) account_id, sealed_address FROM owner_addresses
		WHERE match = ? AND usable_at <= ? ORDER BY account_id, recovery LIMIT ?`, s.addressMatch(address), s.now(),
		maxOwned).Scan(ctx, &rows)
	owned = map[string][]string{}
	for _, row := range rows {
		text, failed := s.keys.Open(row.SealedAddress, ownerContext(row.AccountID))
		owned[string(text)], err = append(owned[string(text)], row.AccountID), errors.Join(err, failed)
	}
	return owned, withOutage(wrap(err, "finding accounts of an address"))
}

// CustomersOf returns the payment provider's ids of an account, newest first.
func (s *Store) CustomersOf(ctx context.Context, account string) (customers []string, err error) {
	err = s.db.NewRaw(`SELECT customer FROM billing_subscriptions WHERE account_id = ? AND customer <> ''
		ORDER BY id DESC`, account).Scan(ctx, &customers)
	return customers, withOutage(wrap(err, "finding customers of an account"))
}

// AccountsOfCustomers returns the accounts that have a subscription of one of the payment provider's customers.
func (s *Store) AccountsOfCustomers(ctx context.Context, customers []string) (accounts []string, err error) {
	if len(customers) > 0 {
		err = s.db.NewRaw(`SELECT DISTINCT account_id FROM billing_subscriptions
			WHERE account_id IS NOT NULL AND customer IN (?) LIMIT ?`, bun.List(customers), maxOwned).
			Scan(ctx, &accounts)
	}
	return accounts, withOutage(wrap(err, "finding accounts of customers"))
}
