package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"assay/host/access/signin"
)

// maxOwned limits the accounts to which one request for a link by e-mail gives links.
const maxOwned = 10

// addressMatch returns the keyed hash by which the accounts of an address are found. Case does not matter.
func (s *Store) addressMatch(address string) []byte {
	mac := hmac.New(sha256.New, s.keys.Owner)
	mac.Write([]byte(strings.ToLower(address)))
	return mac.Sum(nil)
}

func ownerContext(account string) string { return "owner of " + account }

// OwnerAddress returns the confirmed e-mail address of an account's owner, or "".
func (s *Store) OwnerAddress(ctx context.Context, account string) (string, error) {
	address, err := s.addressIn(ctx, "SELECT sealed_address FROM owner_addresses WHERE account_id = ?", account)
	if err != nil && !errors.Is(err, signin.ErrUnknown) {
		return "", err
	}
	return address, nil
}

// addressIn returns the address that a statement finds or deletes. Its first argument is the account. It fails with
// signin.ErrUnknown if there is none.
func (s *Store) addressIn(ctx context.Context, statement, account string, more ...any) (string, error) {
	var row struct{ SealedAddress []byte }
	err := s.db.NewRaw(statement, append([]any{account}, more...)...).Scan(ctx, &row)
	if errors.Is(err, sql.ErrNoRows) {
		return "", signin.ErrUnknown
	}
	if err != nil {
		return "", withOutage(fmt.Errorf("reading owner's address: %w", err))
	}
	address, err := s.keys.Open(row.SealedAddress, ownerContext(account))
	if err != nil {
		return "", fmt.Errorf("reading owner's address: %w", err)
	}
	return string(address), nil
}

// NewAddressLink returns the token of a link that confirms the e-mail address of an account's owner.
func (s *Store) NewAddressLink(ctx context.Context, account, address string) (token string, err error) {
	return s.addLink(ctx, account, s.keys.Seal([]byte(address), ownerContext(account)))
}

// ConfirmAddress uses up a link of NewAddressLink, which must be of the account, and stores its address. The account's
// other links end. It returns the address before, or "". It fails with signin.ErrUnknown.
func (s *Store) ConfirmAddress(ctx context.Context, account, token string) (former string, err error) {
	hash, ok := signin.ParseToken(token)
	if !ok {
		return "", signin.ErrUnknown
	}
	address, err := s.addressIn(ctx, `DELETE FROM sign_in_links
		WHERE account_id = ? AND hash = ? AND sealed_address IS NOT NULL AND expires_at > ? RETURNING sealed_address`,
		account, hash[:], s.now())
	if err != nil {
		return "", err
	}
	if former, err = s.OwnerAddress(ctx, account); err != nil {
		return "", err
	}
	_, err = s.db.NewRaw(`INSERT INTO owner_addresses (account_id, match, sealed_address, confirmed_at)
		VALUES (?, ?, ?, ?)
		ON CONFLICT (account_id) DO UPDATE SET match = EXCLUDED.match, sealed_address = EXCLUDED.sealed_address,
			confirmed_at = EXCLUDED.confirmed_at`, account, s.addressMatch(address),
		s.keys.Seal([]byte(address), ownerContext(account)), s.now()).Exec(ctx)
	if err == nil {
		_, err = s.db.NewRaw("DELETE FROM sign_in_links WHERE account_id = ?", account).Exec(ctx)
	}
	if err != nil {
		return "", withOutage(fmt.Errorf("storing owner's address: %w", err))
	}
	return former, nil
}

// RemoveAddress deletes the e-mail address of an account's owner and the links that were sent to it. It returns the
// address, or "" if there was none.
func (s *Store) RemoveAddress(ctx context.Context, account string) (former string, err error) {
	former, err = s.addressIn(ctx, "DELETE FROM owner_addresses WHERE account_id = ? RETURNING sealed_address", account)
	if errors.Is(err, signin.ErrUnknown) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if _, err := s.db.NewRaw("DELETE FROM sign_in_links WHERE account_id = ?", account).Exec(ctx); err != nil {
		return "", withOutage(fmt.Errorf("ending links: %w", err))
	}
	return former, nil
}

// LinksTo returns a link that signs in for each account whose owner has an e-mail address, oldest account first.
func (s *Store) LinksTo(ctx context.Context, address string) (links []signin.Link, err error) {
	var accounts []string
	err = s.db.NewRaw("SELECT account_id FROM owner_addresses WHERE match = ? ORDER BY account_id LIMIT ?",
		s.addressMatch(address), maxOwned).Scan(ctx, &accounts)
	if err != nil {
		return nil, withOutage(fmt.Errorf("finding accounts of an address: %w", err))
	}
	for _, account := range accounts {
		token, err := s.addLink(ctx, account, nil)
		if err != nil {
			return nil, err
		}
		links = append(links, signin.Link{Account: account, Token: token})
	}
	return links, nil
}
