package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/uptrace/bun"
)

// sealedColumns are the columns with encrypted values, see keyring.Ring.Seal. Values with a context do not expire:
// Reseal encrypts them again. The context is that of a row's key.
var sealedColumns = []sealedColumn{
	{"webhook_endpoints", "sealed_secret", "account_id", endpointContext},
	{"owner_addresses", "sealed_address", "account_id", ownerContext},
	{"feed_subscriptions", "sealed_url", "name", urlContext},
	{"webhook_old_secrets", "sealed_secret", "", nil},
	{"webhook_events", "sealed_payload", "", nil},
	{"webhook_attempts", "sealed_answer", "", nil},
	{"webhook_attempts", "sealed_exchange", "", nil},
	{"audit_records", "sealed_node", "", nil},
	{"state_records", "sealed_node", "", nil},
	{"feedback", "sealed_note", "", nil},
	{"reviews", "sealed_reason", "", nil},
	{"reviews", "sealed_finding", "", nil},
	{"overrides", "sealed_reason", "", nil},
	{"sign_in_links", "sealed_address", "", nil},
	{"subject_requests", "sealed", "", nil},
	{"export_parts", "sealed", "", nil},
	{"answers", "sealed", "", nil},
	{"graph_unreadable", "item", "", nil},
}

type sealedColumn struct {
	table, column, key string
	context            func(key string) string
}

// SealedWith counts the values that are encrypted under the generation of the secret with a prefix, by table. It reads
// all of these tables.
func (s *Store) SealedWith(ctx context.Context, prefix []byte) (map[string]int, error) {
	counts := map[string]int{}
	count := func(table, condition string, args ...any) error {
		var n int
		err := s.db.NewRaw("SELECT count(*) FROM ? WHERE "+condition, append([]any{bun.Ident(table)}, args...)...).
			Scan(ctx, &n)
		if n > 0 {
			counts[table] += n
		}
		return err
	}
	err := count("graph_contributions", "position(? IN added) > 0", prefix) // several in a value
	for _, c := range sealedColumns {
		if err == nil {
			err = count(c.table, "substring(? FROM 1 FOR ?) = ?", bun.Ident(c.column), len(prefix), prefix)
		}
	}
	return counts, wrap(err, "counting encrypted values")
}

// Reseal encrypts the values that do not expire under the current generation of the secret, and returns how many it
// changed.
func (s *Store) Reseal(ctx context.Context) (changed int, err error) {
	prefix := s.keys.Current().Prefix
	for _, c := range sealedColumns {
		if c.context == nil {
			continue
		}
		var rows []struct {
			Key    string
			Sealed []byte
		}
		err := s.db.NewRaw("SELECT ? AS key, ? AS sealed FROM ?", bun.Ident(c.key), bun.Ident(c.column),
			bun.Ident(c.table)).Scan(ctx, &rows)
		for _, r := range rows {
			if err != nil || len(prefix) > 0 && bytes.HasPrefix(r.Sealed, prefix) {
				continue
			}
			var plain []byte
			if plain, err = s.keys.Open(r.Sealed, c.context(r.Key)); err != nil {
				break
			}
			_, err = s.db.NewRaw("UPDATE ?0 SET ?1 = ?2 WHERE ?3 = ?4 AND ?1 = ?5", bun.Ident(c.table),
				bun.Ident(c.column), s.keys.Seal(plain, c.context(r.Key)), bun.Ident(c.key), r.Key, r.Sealed).Exec(ctx)
			changed++
		}
		if err != nil {
			return changed, fmt.Errorf("encrypting %s again: %w", c.table, err)
		}
	}
	return changed, nil
}
