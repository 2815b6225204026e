package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"assay/host/access/keyring"
	"assay/host/audit"
	"assay/host/check"
	"assay/host/internal/maintenance"
)

// auditRow is a row of audit_records.
type auditRow struct {
	bun.BaseModel `bun:"table:audit_records"`

	Chain      int
	Seq        int64
	RecordedAt time.Time
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
	SealedNode []byte // for checks: the subject's node in the reputation graph, encrypted
}

// recordsOf returns the table with the records of a chain.
func recordsOf(chain int) bun.Ident {
	if audit.OfStates(chain) {
		return "state_records"
	}
	return "audit_records"
}

// nodeContext returns the context that binds a sealed node to its check.
func nodeContext(ref string) string { return "node " + ref }

func (r auditRow) row() audit.Row {
	at := ""
	if r.Nonce != nil { // it is not erased
		at = timestamp(r.RecordedAt)
	}
	return audit.Row{
		Seq: r.Seq, Leaf: audit.Hash(r.Leaf), Hash: audit.Hash(r.Hash), Nonce: r.Nonce,
		Record: audit.Record{
			Kind: audit.Kind(r.Kind), At: at, Ref: r.Ref, Account: r.AccountID, Key: r.KeyID, Type: r.Type,
			Pseudonym: r.Pseudonym, Score: r.Score, Verdict: r.Verdict, Revision: r.Revision, Digest: r.Digest,
		},
	}
}

// timestamp returns a time as clients get it and as it is hashed.
func timestamp(t time.Time) string { return t.UTC().Format(check.TimeFormat) }

const badLength = "its leaf or hash is not 32 bytes long"

// corruption describes why a host cannot have stored this row, or returns "". It covers only properties that the hashes
// do not protect.
func (r auditRow) corruption() (reason string) {
	if len(r.Leaf) != len(audit.Hash{}) || len(r.Hash) != len(audit.Hash{}) {
		return badLength
	}
	return ""
}

// wrongNode says what is wrong with the sealed node of a row, or returns "". keys may be nil.
func (r auditRow) wrongNode(keys *keyring.Ring) (reason string) {
	if keys == nil || r.SealedNode == nil || r.Nonce == nil {
		return ""
	}
	if _, err := keys.OpenNode(r.SealedNode, nodeContext(r.Ref)); err != nil {
		return "its sealed node in the reputation graph was altered"
	}
	return ""
}

// entry returns a record for the function audit_append, which assigns its place in a chain.
func entry(record audit.Record, at time.Time) string {
	nonce := make([]byte, audit.NonceBytes)
	rand.Read(nonce)
	leaf := audit.Leaf(nonce, record)
	return columns{
		"recorded_at": at, "kind": record.Kind, "ref": record.Ref, "account_id": record.Account,
		"key_id": record.Key, "type": record.Type, "pseudonym": record.Pseudonym, "nonce": nonce,
		"score": record.Score, "verdict": record.Verdict, "revision": record.Revision, "digest": record.Digest,
		"leaf": leaf[:],
	}.json()
}

// createHeads inserts the heads of new chains. The lock keeps two hosts from creating the same head, one of them after
// the other's has moved. If all exist, as usual, it does not wait for a host that migrates or was stopped.
func (s *Store) createHeads(ctx context.Context) error {
	existing := 0
	err := s.db.NewRaw(`SELECT count(DISTINCT h.chain) FROM audit_heads AS h
		JOIN graph_progress AS p ON p.chain = h.chain WHERE h.chain < ?`, s.newChains).Scan(ctx, &existing)
	if err != nil || existing == s.newChains {
		return wrap(err, "reading audit chains")
	}
	for created := false; ; {
		err := transact(ctx, s.db, func(ctx context.Context, tx bun.Tx) error {
			err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(?)", int64(migrationLock)).Scan(ctx, &created)
			if err != nil || !created {
				return err
			}
			return s.insertHeads(ctx, tx)
		})
		if err != nil || created {
			return wrap(err, "starting audit chains")
		}
		// Not within a transaction: behind a pooler, the host that migrates may need its connection.
		if !maintenance.Pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("starting audit chains: %w", ctx.Err())
		}
	}
}

func (s *Store) insertHeads(ctx context.Context, tx bun.Tx) error {
	numbers := []int{audit.StateChain}
	for chain := range s.newChains {
		numbers = append(numbers, chain, audit.StatesOf(chain))
	}
	for _, chain := range numbers {
		genesis := audit.Genesis(chain)
		_, err := tx.NewRaw(`INSERT INTO audit_heads (chain, seq, hash)
			SELECT ?0, 0, ?1 WHERE NOT EXISTS (SELECT FROM audit_heads WHERE chain = ?0)`, chain, genesis.Hash[:]).
			Exec(ctx)
		if err != nil {
			return fmt.Errorf("starting audit chain %d: %w", chain, err)
		}
	}
	return createProgress(ctx, tx)
}

// headRow is a row of audit_heads.
type headRow struct {
	Chain int
	Seq   int64
	Hash  []byte
}

// head returns an error if the hash in the row was altered to another length, because the conversion would panic.
func (r headRow) head() (audit.Head, *audit.BreakError) {
	if len(r.Hash) != len(audit.Hash{}) {
		return audit.Head{}, &audit.BreakError{Chain: r.Chain, Seq: r.Seq,
			Reason: "the head's hash is not 32 bytes long"}
	}
	return audit.Head{Chain: r.Chain, Seq: r.Seq, Hash: audit.Hash(r.Hash)}, nil
}

// chains returns the numbers of the chains of checks, in ascending order.
func (s *Store) chains(ctx context.Context) (numbers []int, err error) {
	err = s.db.NewRaw("SELECT DISTINCT chain FROM audit_heads WHERE chain < ? ORDER BY chain", audit.StateChain).
		Scan(ctx, &numbers)
	return numbers, err
}

// ReadAuditLog calls fn with a snapshot of the audit log. Without a snapshot, a reader could see a record erased by a
// concurrent erasure but miss the erasure's own record.
func (s *Store) ReadAuditLog(ctx context.Context, fn func(ctx context.Context, log AuditLog) error) error {
	return s.inSnapshot(ctx, func(ctx context.Context, tx bun.Tx) error { return fn(ctx, AuditLog{tx, s.keys}) })
}

// AuditLog reads the audit log.
type AuditLog struct {
	db   bun.IDB
	keys *keyring.Ring // nil: without the secret, sealed nodes are not verified
}

// Damaged is the error for chains with a head or a record that no host can have stored.
type Damaged []*audit.BreakError

// Err returns nil if no chain is damaged.
func (d Damaged) Err() error {
	if d == nil {
		return nil
	}
	return d
}

func (d Damaged) Error() string {
	return strings.Join(column(d, (*audit.BreakError).Error), "; ")
}

// Heads returns the head of each chain, and a Damaged for those that it leaves out.
func (l AuditLog) Heads(ctx context.Context) (heads []audit.Head, err error) {
	var rows []headRow
	if err := l.db.NewRaw("SELECT chain, seq, hash FROM audit_heads ORDER BY chain").Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading audit heads: %w", err)
	}
	var damaged Damaged
	for _, r := range rows {
		head, broken := r.head()
		if broken != nil {
			damaged = append(damaged, broken)
			continue
		}
		heads = append(heads, head)
	}
	return heads, damaged.Err()
}

// Chains returns the head of each chain, and the genesis of each chain that has records or checkpoints but no head. No
// host creates such chains, so verifying them fails. Errors are those of Heads.
func (l AuditLog) Chains(ctx context.Context) ([]audit.Head, error) {
	heads, err := l.Heads(ctx)
	var damaged Damaged
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	known := map[int]bool{}
	for _, head := range heads {
		known[head.Chain] = true
	}
	for _, b := range damaged {
		known[b.Chain] = true
	}
	// Skips from one chain to the next in the index, because there are few chains and many records. A checkpoint may
	// have been moved to a chain that does not exist.
	for _, table := range []bun.Ident{"audit_records", "state_records", "audit_checkpoints"} {
		for after := math.MinInt32; ; {
			var next *int
			query := l.db.NewRaw("SELECT min(chain) FROM ? WHERE chain > ?", table, after)
			if err := query.Scan(ctx, &next); err != nil {
				return nil, fmt.Errorf("listing audit chains: %w", err)
			}
			if next == nil {
				break
			}
			if after = *next; !known[after] {
				known[after] = true
				heads = append(heads, audit.Genesis(after))
			}
		}
	}
	return heads, err
}

const auditPage = 5_000 // rows per query

// Rows yields the rows of a chain with after < Seq <= until, in order. It ends at the first error. The error is an
// *audit.BreakError if no host can have stored the row.
func (l AuditLog) Rows(ctx context.Context, chain int, after, until int64) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		where, from := "seq > ?", []any{after}
		for {
			var page []auditRow
			query := l.db.NewSelect().Model(&page).ModelTableExpr("? AS audit_row", recordsOf(chain)).
				Where("chain = ? AND seq <= ?", chain, until).
				Where(where, from...).Order("seq", "recorded_at").Limit(auditPage)
			if l.keys == nil {
				query = query.ExcludeColumn("sealed_node")
			}
			err := query.Scan(ctx)
			var erased map[int64][]audit.Erased
			if err == nil {
				erased, err = l.erased(ctx, chain, page)
			}
			if err != nil {
				yield(audit.Row{}, fmt.Errorf("reading audit records: %w", err))
				return
			}
			for _, r := range page {
				if reason := cmp.Or(r.corruption(), r.wrongNode(l.keys)); reason != "" {
					yield(audit.Row{}, &audit.BreakError{Chain: chain, Seq: r.Seq, Reason: reason})
					return
				}
				row := r.row()
				row.Erased = erased[r.Seq]
				if !yield(row, nil) {
					return
				}
				// seq is unique only together with recorded_at. Paging by both shows a duplicate number even if the two
				// rows are on different pages.
				where, from = "(seq, recorded_at) > (?, ?)", []any{r.Seq, r.RecordedAt}
			}
			if len(page) < auditPage {
				return
			}
		}
	}
}

// erased returns the records erased by each erasure among rows, by the erasure's number.
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
	var erasedRows []struct {
		Seq, Erasure int64
		Leaf         []byte
	}
	err := l.db.NewRaw(`SELECT seq, leaf, erasure FROM erased_records WHERE chain = ? AND erasure IN (?)
		ORDER BY erasure, seq`, chain, bun.List(erasures)).Scan(ctx, &erasedRows)
	erased := map[int64][]audit.Erased{}
	for _, r := range erasedRows {
		if len(r.Leaf) != len(audit.Hash{}) {
			return nil, &audit.BreakError{Chain: chain, Seq: r.Erasure,
				Reason: "a leaf in its list of erased records is not 32 bytes long"}
		}
		erased[r.Erasure] = append(erased[r.Erasure], audit.Erased{Seq: r.Seq, Leaf: audit.Hash(r.Leaf)})
	}
	return erased, err
}
