package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"assay/host/audit"
	"assay/host/check"
)

// chains is how many audit chains there are. An account belongs to one, so a second chain doubles what a cluster of
// hosts can record; one chain records thousands of checks a second.
const chains = 1

// auditRow is a row of audit_records.
type auditRow struct {
	bun.BaseModel `bun:"table:audit_records"`

	Chain      int
	Seq        int64
	RecordedAt time.Time
	At         string
	Kind       string
	Ref        string
	AccountID  string
	KeyID      string
	Type       string
	Pseudonym  []byte
	Nonce      []byte
	Score      int
	Verdict    string
	Revision   int64
	Digest     []byte
	Leaf       []byte
	Hash       []byte
	SealedNode []byte // of a check: its subject's node in the reputation graph
}

// erasedKind is that of a row whose content was erased. No record is hashed under it.
const erasedKind = "erased"

func nodeContext(ref string) string { return "node " + ref }

func (r auditRow) row() audit.Row {
	return audit.Row{
		Seq: r.Seq, Leaf: audit.Hash(r.Leaf), Hash: audit.Hash(r.Hash), Nonce: r.Nonce,
		Record: audit.Record{
			Kind: audit.Kind(r.Kind), At: r.At, Ref: r.Ref, Account: r.AccountID, Key: r.KeyID, Type: r.Type,
			Pseudonym: r.Pseudonym, Score: r.Score, Verdict: r.Verdict, Revision: r.Revision, Digest: r.Digest,
		},
	}
}

// altered says what makes a row one that no host has stored, as far as no hash tells, or nothing.
func (r auditRow) altered() (reason string) {
	switch {
	case len(r.Leaf) != len(audit.Hash{}) || len(r.Hash) != len(audit.Hash{}):
		return "its leaf or hash is not 32 bytes long"
	case r.Nonce != nil && r.RecordedAt.UTC().Format(check.TimeFormat) != r.At: // what it is filed under says when it is pruned
		return "it is filed under another time than its own"
	}
	return ""
}

// link makes record the next link behind head.
func link(head *audit.Head, record audit.Record, recordedAt time.Time) auditRow {
	nonce := make([]byte, audit.NonceBytes)
	rand.Read(nonce)
	leaf := audit.Leaf(nonce, record)
	*head = head.Next(leaf)
	return auditRow{
		Chain: head.Chain, Seq: head.Seq, RecordedAt: recordedAt, At: record.At, Kind: string(record.Kind),
		Ref:       record.Ref,
		AccountID: record.Account, KeyID: record.Key, Type: record.Type, Pseudonym: record.Pseudonym, Nonce: nonce,
		Score: record.Score, Verdict: record.Verdict, Revision: record.Revision, Digest: record.Digest,
		Leaf: leaf[:], Hash: bytesOf(head.Hash),
	}
}

// appendRecord puts one record behind head, which the transaction has locked.
func appendRecord(ctx context.Context, tx bun.Tx, head *audit.Head, record audit.Record, at time.Time) error {
	from := head.Seq
	row := link(head, record, at)
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return err
	}
	_, err := moveHead(tx, *head, from).Exec(ctx)
	return err
}

func bytesOf(h audit.Hash) []byte { return h[:] }

func (s *Store) createHeads(ctx context.Context) error {
	for chain := range chains {
		genesis := audit.Genesis(chain)
		_, err := s.db.NewRaw("INSERT INTO audit_heads (chain, seq, hash) VALUES (?, 0, ?) ON CONFLICT DO NOTHING",
			chain, genesis.Hash[:]).Exec(ctx)
		if err != nil {
			return fmt.Errorf("starting audit chain %d: %w", chain, err)
		}
	}
	return nil
}

// lockHeads reads the heads of the given chains, all of them when given nil, and holds their lock until the transaction
// ends. chains is a list or a subquery of numbers. Locks are taken in the order of the numbers, so that two hosts
// cannot wait for each other.
func lockHeads(ctx context.Context, tx bun.Tx, chains schema.QueryAppender) (map[int]*audit.Head, error) {
	var rows []headRow
	q := tx.NewSelect().Model(&rows).Order("chain").For("UPDATE")
	if chains != nil {
		q = q.Where("chain IN (?)", chains)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("locking audit heads: %w", err)
	}
	heads := make(map[int]*audit.Head, len(rows))
	for _, r := range rows {
		head, err := r.head()
		if err != nil {
			return nil, err
		}
		heads[r.Chain] = &head
	}
	return heads, nil
}

type headRow struct {
	bun.BaseModel `bun:"table:audit_heads"`

	Chain int
	Seq   int64
	Hash  []byte
}

// head refuses what was altered to a length that no hash has: converting that would end the host.
func (r headRow) head() (audit.Head, error) {
	if len(r.Hash) != len(audit.Hash{}) {
		return audit.Head{}, &audit.BreakError{Chain: r.Chain, Seq: r.Seq,
			Reason: "the head's hash is not 32 bytes long"}
	}
	return audit.Head{Chain: r.Chain, Seq: r.Seq, Hash: audit.Hash(r.Hash)}, nil
}

// Heads returns where each chain stands.
func (s *Store) Heads(ctx context.Context) ([]audit.Head, error) { return AuditLog{s.db}.Heads(ctx) }

// AuditRows yields the rows of a chain behind number after and up to number until, in order.
func (s *Store) AuditRows(ctx context.Context, chain int, after, until int64) iter.Seq2[audit.Row, error] {
	return AuditLog{s.db}.Rows(ctx, chain, after, until)
}

// ReadAuditLog calls fn with the audit trail as it stands at one moment: a record that is erased meanwhile must not be met
// blank before the erasure that names it.
func (s *Store) ReadAuditLog(ctx context.Context, fn func(ctx context.Context, log AuditLog) error) error {
	return s.inSnapshot(ctx, func(ctx context.Context, tx bun.Tx) error { return fn(ctx, AuditLog{tx}) })
}

// inSnapshot runs fn in a transaction that sees the database as of one moment and changes nothing. No month's partition is
// dropped as long: its rows would be gone for this transaction too, but not the anchor come.
func (s *Store) inSnapshot(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	return s.db.RunInTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		func(ctx context.Context, tx bun.Tx) error {
			// The moment is that of the first statement that reads, which this is not.
			if _, err := tx.ExecContext(ctx, "LOCK TABLE ONLY audit_records IN ACCESS SHARE MODE"); err != nil {
				return fmt.Errorf("reading as of one moment: %w", err)
			}
			return fn(ctx, tx)
		})
}

// AuditLog reads the audit trail.
type AuditLog struct{ db bun.IDB }

// Heads returns where each chain stands.
func (l AuditLog) Heads(ctx context.Context) ([]audit.Head, error) {
	var rows []headRow
	if err := l.db.NewSelect().Model(&rows).Order("chain").Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading audit heads: %w", err)
	}
	heads := make([]audit.Head, len(rows))
	for i, r := range rows {
		var err error
		if heads[i], err = r.head(); err != nil {
			return nil, fmt.Errorf("reading audit heads: %w", err)
		}
	}
	return heads, nil
}

// Chains is Heads, and the beginnings of chains that no host keeps but records claim to be of.
func (l AuditLog) Chains(ctx context.Context) ([]audit.Head, error) {
	heads, err := l.Heads(ctx)
	if err != nil {
		return nil, err
	}
	var others []int
	err = l.db.NewRaw(`SELECT DISTINCT chain FROM audit_records WHERE (chain < 0 OR chain >= ?) AND chain NOT IN (SELECT chain FROM audit_heads)
		ORDER BY chain`, chains).Scan(ctx, &others)
	if err != nil {
		return nil, fmt.Errorf("looking for other audit chains: %w", err)
	}
	for _, chain := range others {
		heads = append(heads, audit.Genesis(chain))
	}
	return heads, nil
}

const auditPage = 5_000 // rows read at a time

// Rows yields the rows of a chain behind number after and up to number until, in order. An error is a *audit.BreakError
// when a row cannot be what was stored.
func (l AuditLog) Rows(ctx context.Context, chain int, after, until int64) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		where, from := "seq > ?", []any{after}
		for {
			var page []auditRow
			err := l.db.NewSelect().Model(&page).ExcludeColumn("sealed_node").Where("chain = ? AND seq <= ?", chain,
				until).Where(where, from...).
				Order("seq", "recorded_at").Limit(auditPage).Scan(ctx)
			var erased map[int64][]audit.Erased
			if err == nil {
				erased, err = l.erased(ctx, chain, page)
			}
			if err != nil {
				yield(audit.Row{}, fmt.Errorf("reading audit records: %w", err))
				return
			}
			for _, r := range page {
				if reason := r.altered(); reason != "" {
					yield(audit.Row{}, &audit.BreakError{Chain: chain, Seq: r.Seq, Reason: reason})
					return
				}
				row := r.row()
				row.Erased = erased[r.Seq]
				if !yield(row, nil) {
					return
				}
				// Two rows of one number must not hide one another where two pages meet.
				where, from = "(seq, recorded_at) > (?, ?)", []any{r.Seq, r.RecordedAt}
			}
			if len(page) < auditPage {
				return
			}
		}
	}
}

// erased reads what the erasures among rows erased.
func (l AuditLog) erased(ctx context.Context, chain int, rows []auditRow) (map[int64][]audit.Erased, error) {
	var erasures []int64
	for _, r := range rows {
		if r.Kind == string(audit.Erasure) {
			erasures = append(erasures, r.Seq)
		}
	}
	if len(erasures) == 0 {
		return nil, nil
	}
	var lists []erasedRow
	err := l.db.NewSelect().Model(&lists).Column("seq", "leaf", "erasure").Where("chain = ? AND erasure IN (?)", chain,
		bun.List(erasures)).
		Order("erasure", "seq").Scan(ctx)
	erased := map[int64][]audit.Erased{}
	for _, l := range lists {
		if len(l.Leaf) != len(audit.Hash{}) {
			return nil, &audit.BreakError{Chain: chain, Seq: l.Erasure,
				Reason: "a leaf in the list of what it erased is not 32 bytes long"}
		}
		erased[l.Erasure] = append(erased[l.Erasure], audit.Erased{Seq: l.Seq, Leaf: audit.Hash(l.Leaf)})
	}
	return erased, err
}
