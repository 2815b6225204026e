package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/internal/maintenance"
)

// recordsLost is the SQLSTATE with which ledger_append fails if the chain lacks the last record that the host answered
// for.
const recordsLost = "AS002"

// errRecordsLost is the reason why checks are refused after a loss.
var errRecordsLost = errors.New("the database has lost records that were answered: an operator must run " +
	"assay audit accept-loss")

// FoundLoss describes records that a host answered for and the database no longer contains.
type FoundLoss struct {
	Chain      int       `json:"chain"`
	Seq        int64     `json:"seq"` // of the last record that the host answered for
	Hash       []byte    `json:"-"`
	AnsweredAt time.Time `json:"answered_at"` // when that record was recorded
	Survived   int64     `json:"survived"`    // the last record that is known to be there; 0: unknown
	Refs       []string  `json:"refs" bun:"refs,array"`
	Host       string    `json:"host"`
	FoundAt    time.Time `json:"found_at"`
}

// Head returns the last head that the host answered for.
func (l FoundLoss) Head() audit.Head {
	h := audit.Head{Chain: l.Chain, Seq: l.Seq}
	copy(h.Hash[:], l.Hash)
	return h
}

// Losses returns the losses that no operator has accepted, in the order of chains and numbers.
func (s *Store) Losses(ctx context.Context) (losses []FoundLoss, err error) {
	err = s.db.NewRaw(`SELECT chain, seq, hash, answered_at, survived, refs, host, found_at FROM audit_losses
		WHERE accepted IS NULL ORDER BY chain, seq, hash`).Scan(ctx, &losses)
	return losses, wrap(err, "reading losses")
}

// AcceptLosses records that an operator accepts losses of a chain, and continues its tree under another origin. note is
// the signed acceptance. It returns the number of the record. It fails if other losses of the chain were found
// meanwhile.
func (s *Store) AcceptLosses(ctx context.Context, chain int, losses []FoundLoss, survived int64, note string) (
	int64, error) {
	at := s.now().UTC().Truncate(time.Millisecond)
	digest := sha256.Sum256([]byte(note))
	record := audit.Record{Kind: audit.Loss, At: at.Format(check.TimeFormat), Ref: "loss_" + ulid.Make().String(),
		Revision: survived, Digest: digest[:]}
	number, err := once[int64](ctx, s, "SELECT audit_accept(?chain, ?seqs, ?hashes, ?note, ?entry)", named{
		"chain": chain, "note": note, "entry": entry(record, at),
		"seqs":   pgdialect.Array(column(losses, func(l FoundLoss) int64 { return l.Seq })),
		"hashes": pgdialect.Array(column(losses, func(l FoundLoss) []byte { return l.Hash })),
	})
	return number, wrap(err, "accepting losses of audit chain %d", chain)
}

// contains reports whether a chain contains the last record of a batch, or has pruned it.
func (s *Store) contains(ctx context.Context, chain int, b answeredBatch) (kept bool, err error) {
	err = s.db.NewRaw("SELECT audit_contains(?, ?, ?, ?)", chain, b.Seq, b.At, b.Hash).Scan(ctx, &kept)
	return kept, err
}

// acceptances returns the acceptances of a chain that are signed and recorded, by the numbers of their records.
func (s *Store) acceptances(ctx context.Context, chain int) (map[int64]audit.LossAcceptance, error) {
	var rows []struct {
		Seq    int64
		Note   string
		Digest []byte // of the record
	}
	err := s.db.NewRaw(`SELECT a.seq, a.note, r.digest FROM audit_acceptances AS a
		JOIN ? AS r ON r.chain = a.chain AND r.seq = a.seq AND r.kind = ?
		WHERE a.chain = ?`, recordsOf(chain), audit.Loss, chain).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading acceptances of losses: %w", err)
	}
	valid := map[int64]audit.LossAcceptance{}
	for _, r := range rows {
		digest := sha256.Sum256([]byte(r.Note))
		loss, err := s.signer.OpenLoss(r.Note)
		if err == nil && loss.Chain == chain && bytes.Equal(digest[:], r.Digest) {
			valid[r.Seq] = loss
		}
	}
	return valid, nil
}

// LossAccepted reports whether the record of a chain with a number accepts a loss.
func (s *Store) LossAccepted(ctx context.Context, chain int, seq int64) (bool, error) {
	valid, err := s.acceptances(ctx, chain)
	_, ok := valid[seq]
	return ok, err
}

// accepted reports whether an operator has accepted that a batch is lost: by its head, or after it was answered.
func (s *Store) accepted(ctx context.Context, chain int, b answeredBatch) (bool, error) {
	valid, err := s.acceptances(ctx, chain)
	head := audit.Head{Chain: chain, Seq: b.Seq, Hash: audit.Hash(b.Hash)}
	for _, loss := range valid {
		if loss.At.After(b.At) || slices.Contains(loss.Lost, head) {
			return true, nil
		}
	}
	return false, err
}

const (
	guardInterval   = time.Second
	compareInterval = 5 * time.Second
)

// Guard compares the database with the records that this host answered for, and saves these to its file, until ctx
// ends. Every batch makes the same comparison; Guard also makes it while nobody calls, and finds out which records are
// lost. While this host or another one misses records, checks are refused.
func (l *Ledger) Guard(ctx context.Context) {
	compared := time.Now()
	for maintenance.Pause(ctx, guardInterval) {
		if err := l.answered.Save(); err != nil {
			l.store.log.Warn("remembering what was answered failed", "error", err)
		}
		if !l.store.watched.lost.Load() && time.Since(compared) < compareInterval {
			continue
		}
		compared = time.Now()
		if err := l.Compare(ctx); err != nil && ctx.Err() == nil && !isOutage(err) {
			l.store.log.Warn("comparing the audit chains with what was answered failed", "error", err)
		}
	}
}

// Compare compares the database once with the records that this host answered for, see Guard.
func (l *Ledger) Compare(ctx context.Context) error {
	all := l.answered.batches()
	var numbers []int
	var last []answeredBatch
	for chain, batches := range all {
		numbers, last = append(numbers, chain), append(last, batches[len(batches)-1])
	}
	var found struct {
		Missing []int `bun:",array"`
		Lost    bool  // by any host
	}
	err := query(l.store.db, "compare", named{"chains": pgdialect.Array(numbers),
		"seqs":   pgdialect.Array(column(last, func(b answeredBatch) int64 { return b.Seq })),
		"times":  pgdialect.Array(column(last, func(b answeredBatch) time.Time { return b.At })),
		"hashes": pgdialect.Array(column(last, func(b answeredBatch) []byte { return b.Hash }))}).Scan(ctx, &found)
	lost := found.Lost
	for _, chain := range found.Missing {
		if err == nil {
			var kept bool
			kept, err = l.keeps(ctx, chain, all[chain])
			lost = lost || !kept
		}
	}
	if err != nil {
		return fmt.Errorf("comparing the audit chains with what was answered: %w", err)
	}
	if l.store.watched.lost.Swap(lost) && !lost {
		l.store.log.Info("the loss of records was accepted")
	}
	return nil
}

// keeps reports whether a chain contains the records that this host answered for. If not, it stores the loss.
func (l *Ledger) keeps(ctx context.Context, chain int, batches []answeredBatch) (bool, error) {
	s, last := l.store, batches[len(batches)-1]
	kept, err := s.contains(ctx, chain, last)
	if err != nil || kept {
		return kept, err
	}
	accepted, err := s.accepted(ctx, chain, last)
	if err != nil {
		return false, err
	}
	// A chain contains each record with all those before it.
	first := sort.Search(len(batches), func(i int) bool {
		if err != nil {
			return true
		}
		kept, failed := s.contains(ctx, chain, batches[i])
		err = failed
		return !kept
	})
	if err != nil {
		return false, err
	}
	found := FoundLoss{Chain: chain, Seq: last.Seq, Hash: last.Hash, AnsweredAt: last.At, Host: l.host,
		Refs: []string{}}
	if first > 0 {
		found.Survived = batches[first-1].Seq
	}
	for _, b := range batches[first:] {
		found.Refs = append(found.Refs, b.Refs...)
	}
	if accepted {
		l.answered.forget(chain)
		s.log.Warn("records that this host answered for are lost, as an operator has accepted", "chain", chain,
			"records", len(found.Refs), "refs", firstOf(found.Refs))
		return true, nil
	}
	if !s.watched.lost.Swap(true) {
		s.log.Error("the database has lost records that this host answered for", "chain", chain, "survived",
			found.Survived, "answered", found.Seq, "records", len(found.Refs), "refs", firstOf(found.Refs),
			"remedy", "find out why, then run assay audit accept-loss")
	}
	_, err = s.db.NewRaw(`INSERT INTO audit_losses (chain, seq, hash, answered_at, survived, refs, host)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, chain, found.Seq, found.Hash, found.AnsweredAt,
		found.Survived, pgdialect.Array(found.Refs), found.Host).Exec(ctx)
	return false, err
}

// firstOf returns at most the first references, for the log.
func firstOf(refs []string) []string { return refs[:min(len(refs), 20)] }
