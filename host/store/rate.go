package store

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/uptrace/bun/dialect/pgdialect"
)

// SettleUses implements admission.Uses. The database holds keyed hashes of the names, which can contain addresses.
func (s *Store) SettleUses(ctx context.Context, accepted map[string]int64) (map[string]int64, error) {
	names, used := make([]string, 0, len(accepted)), make([]int64, 0, len(accepted))
	origin := make(map[string]string, len(accepted))
	for name, n := range accepted {
		hash := hex.EncodeToString(keyedHash(s.keys.Client, "rate "+name)[:16])
		origin[hash] = name
		names, used = append(names, hash), append(used, n)
	}
	var rows []struct {
		Name string
		Used int64
	}
	err := query(s.db, "settle_uses", named{"names": pgdialect.Array(names), "used": pgdialect.Array(used)}).
		Scan(ctx, &rows)
	if err != nil {
		return nil, withOutage(fmt.Errorf("settling uses: %w", err))
	}
	total := make(map[string]int64, len(rows))
	for _, r := range rows {
		total[origin[r.Name]] = r.Used
	}
	return total, nil
}
