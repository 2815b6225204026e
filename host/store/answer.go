package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"assay/host/audit"
	"assay/host/check"
)

// keptAnswer is the answer of a call with an idempotency key, as ledger_append keeps it.
type keptAnswer struct {
	key, request []byte // keyed hashes
	sealed       []byte
}

// answerOf prepares the answer of a call. It returns nil if the call has no idempotency key.
func (s *Store) answerOf(account string, once *check.Once) (*keptAnswer, error) {
	if once == nil {
		return nil, nil
	}
	k := s.answerNames(account, once)
	var err error
	k.sealed, err = s.keys.SealAnswer(once.Answer, once.Request, answerContext(k.key))
	return &k, err
}

// answerNames returns the keyed hashes that identify an idempotency key and its request.
func (s *Store) answerNames(account string, once *check.Once) keptAnswer {
	return keptAnswer{
		key:     audit.Pseudonym(s.keys.Answer, []byte(account), "key", once.Key),
		request: audit.Pseudonym(s.keys.Answer, []byte(account), "request", string(once.Request)),
	}
}

func answerContext(key []byte) string { return "answer " + string(key) }

// Kept returns the answer to the account's request with the same idempotency key, or nil if none is kept. It fails with
// check.ErrOtherRequest if the key belongs to another request.
func (l *Ledger) Kept(ctx context.Context, account string, once *check.Once) ([]byte, error) {
	a, err := l.account(ctx, account)
	if err != nil {
		return nil, err
	}
	s := l.store
	k := s.answerNames(account, once)
	var row struct{ Request, Sealed []byte }
	err = query(s.db, "kept_answer", named{"chain": a.Chain, "account": account, "key": k.key}).Scan(ctx, &row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, withOutage(fmt.Errorf("looking up an answer: %w", err))
	case !bytes.Equal(row.Request, k.request):
		return nil, check.ErrOtherRequest
	}
	answer, err := s.keys.OpenAnswer(row.Sealed, once.Request, answerContext(k.key))
	return answer, wrap(err, "looking up an answer")
}

// Complete stores once.Answer in place of the answer to the same request, if one is kept.
func (l *Ledger) Complete(ctx context.Context, account string, once *check.Once) error {
	a, err := l.account(ctx, account)
	if err != nil {
		return err
	}
	k, err := l.store.answerOf(account, once)
	if err == nil {
		_, err = l.store.db.NewRaw(`UPDATE answers SET sealed = ?sealed
			WHERE chain = ?chain AND account_id = ?account AND key_hash = ?key AND request = ?request`, named{
			"chain": a.Chain, "account": account, "key": k.key, "request": k.request, "sealed": k.sealed}).Exec(ctx)
	}
	return withOutage(wrap(err, "completing an answer"))
}
