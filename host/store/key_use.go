package store

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"assay/host/check"
)

// keyUses remembers when keys were last used for anything but a recorded check, so that no request waits for the write.
// A recorded check's batch stores the use itself (ledger_append).
type keyUses struct {
	mu   sync.Mutex
	last map[string]keyUse // by key
}

type keyUse struct {
	account string
	at      time.Time
}

// NoteUse remembers that a key was used, until SaveKeyUses.
func (s *Store) NoteUse(c check.Caller) {
	s.uses.mu.Lock()
	defer s.uses.mu.Unlock()
	if s.uses.last == nil {
		s.uses.last = map[string]keyUse{}
	}
	s.uses.last[c.Key] = keyUse{c.Account, s.now()}
}

// SaveKeyUses stores the uses that NoteUse remembers. Each is a statement of its own: a statement with several rows
// could deadlock with a batch. After an error they are remembered until the next call.
func (s *Store) SaveKeyUses(ctx context.Context) error {
	s.uses.mu.Lock()
	uses := s.uses.last
	s.uses.last = nil
	s.uses.mu.Unlock()
	for key, use := range uses {
		if err := s.saveKeyUse(ctx, key, use); err != nil {
			s.uses.mu.Lock()
			maps.Copy(uses, s.uses.last) // newer ones
			s.uses.last = uses
			s.uses.mu.Unlock()
			return fmt.Errorf("storing the last uses of keys: %w", err)
		}
		delete(uses, key)
	}
	return nil
}

func (s *Store) saveKeyUse(ctx context.Context, key string, use keyUse) error {
	var chain int
	err := s.db.NewRaw("SELECT chain FROM accounts WHERE id = ?", use.account).Scan(ctx, &chain)
	if err == nil {
		_, err = s.db.NewRaw(`INSERT INTO key_uses AS u (chain, key_id, used_at) VALUES (?, ?, ?)
			ON CONFLICT (chain, key_id) DO UPDATE SET used_at = greatest(u.used_at, EXCLUDED.used_at)`,
			chain, key, use.at).Exec(ctx)
	}
	return orElse(err, nil) // without the account, the key is gone too
}
