package store

import (
	"bytes"
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/feedback"
	"assay/host/privacy"
)

// feedbackRow is a row of feedback.
type feedbackRow struct {
	bun.BaseModel `bun:"table:feedback"`

	Ref        string
	Type       string
	Label      feedback.Label
	SealedNote []byte
	Layers     []byte
	GivenAt    time.Time
}

func noteContext(ref string) string { return "note " + ref }

// kept opens a row.
func (s *Store) kept(row feedbackRow) (*feedback.Kept, error) {
	k := &feedback.Kept{Ref: row.Ref, Type: row.Type, Label: row.Label, Scored: row.Layers != nil,
		Timestamp: privacy.Time{Time: row.GivenAt}}
	if row.SealedNote != nil {
		note, err := s.keys.Open(row.SealedNote, noteContext(row.Ref))
		if err != nil {
			return nil, fmt.Errorf("opening the note on %s: %w", row.Ref, err)
		}
		text := string(note)
		k.Note = &text
	}
	return k, nil
}

// Feedback implements [feedback.Store].
func (s *Store) Feedback(ctx context.Context, c check.Caller, ref string, e *entity.Entity) (*feedback.Kept, error) {
	kept, err := s.readFeedback(ctx, c, ref, e)
	if err != nil {
		return nil, withOutage(fmt.Errorf("reading feedback: %w", err))
	}
	return kept, nil
}

func (s *Store) readFeedback(
	ctx context.Context, c check.Caller, ref string, e *entity.Entity,
) (*feedback.Kept, error) {
	r, err := s.findRequester(ctx, s.db, c)
	if err != nil {
		return nil, err
	}
	record, err := s.findCheck(ctx, s.db, r, ref)
	if err != nil {
		return nil, err
	}
	if e != nil && !bytes.Equal(record.Pseudonym, s.pseudonym(r, *e)) {
		return nil, &entity.InvalidError{Field: string(e.Type), Reason: "is not the value of this check"}
	}
	var row feedbackRow
	err = s.db.NewSelect().Model(&row).Where("chain = ? AND seq = ?", record.Chain, record.Seq).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.kept(row)
}

// findCheck reads the record of one of the account's checks. It fails with feedback.ErrUnknownCheck.
func (s *Store) findCheck(ctx context.Context, db bun.IDB, r requester, ref string) (auditRow, error) {
	var record auditRow
	err := db.NewSelect().TableExpr(ofRef, r.Chain, ref).
		Column("chain", "seq", "recorded_at", "ref", "type", "pseudonym", "sealed_node").
		Where("account_id = ? AND kind = ?", r.AccountID, audit.Check).Scan(ctx, &record)
	if errors.Is(err, sql.ErrNoRows) {
		err = feedback.ErrUnknownCheck
	}
	return record, err
}

//go:embed sql/label_sighting.sql
var labelSighting string

//go:embed sql/pending_vote.sql
var pendingVote string

//go:embed sql/keep_feedback.sql
var keepFeedback string

// KeepFeedback implements [feedback.Store].
func (s *Store) KeepFeedback(
	ctx context.Context, c check.Caller, given feedback.Report, layers []feedback.Layer,
) (*feedback.Kept, error) {
	row := feedbackRow{Ref: given.Ref, Label: given.Label, GivenAt: s.now().UTC().Truncate(time.Millisecond)}
	if given.Note != "" {
		row.SealedNote = s.keys.Seal([]byte(given.Note), noteContext(given.Ref))
	}
	var scores *string
	if layers != nil {
		text, err := json.Marshal(layers)
		if err != nil {
			return nil, fmt.Errorf("keeping feedback: %w", err)
		}
		scores = new(string(text))
	}
	err := s.withCheck(ctx, c, given.Ref, given.Label, func(ctx context.Context, tx bun.Tx, record auditRow) error {
		var scored bool
		err := tx.NewRaw(keepFeedback, named{
			"chain": record.Chain, "seq": record.Seq, "ref": record.Ref, "account": c.Account,
			"pseudonym": record.Pseudonym, "type": record.Type, "label": given.Label, "note": row.SealedNote,
			"layers": scores, "now": row.GivenAt,
		}).Scan(ctx, &scored)
		row.Type = record.Type
		if scored {
			row.Layers = []byte{}
		}
		return err
	})
	if err != nil {
		return nil, withOutage(fmt.Errorf("keeping feedback: %w", err))
	}
	return s.kept(row)
}

// RevokeFeedback implements [feedback.Store].
func (s *Store) RevokeFeedback(ctx context.Context, c check.Caller, ref string) error {
	err := s.withCheck(ctx, c, ref, "", func(ctx context.Context, tx bun.Tx, record auditRow) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM feedback WHERE chain = ? AND seq = ?", record.Chain, record.Seq)
		return err
	})
	if err != nil {
		return withOutage(fmt.Errorf("revoking feedback: %w", err))
	}
	return nil
}

// withCheck sets the account's vote on the entity of one of its checks, and calls change in the same transaction. It
// locks rows in the order in which an erasure does: the sighting, then the audit record. So the two cannot deadlock,
// and no feedback remains of an erased check.
func (s *Store) withCheck(ctx context.Context, c check.Caller, ref string, label feedback.Label,
	change func(ctx context.Context, tx bun.Tx, record auditRow) error) error {
	return s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := s.findRequester(ctx, tx, c)
		if err != nil {
			return err
		}
		record, err := s.findCheck(ctx, tx, r, ref)
		if err != nil {
			return err
		}
		var vote *feedback.Label
		if label != "" {
			vote = &label
		}
		// A check from before migration 0006, or one that was altered, does not lead to a node, and has no vote.
		if node, err := s.keys.OpenNode(record.SealedNode, nodeContext(ref)); err == nil {
			args := named{"label": vote, "account": r.AccountID, "node": node, "pseudonym": record.Pseudonym,
				"ref": ref, "type": record.Type, "at": record.RecordedAt, "chain": record.Chain, "seq": record.Seq}
			if vote != nil {
				_, err = tx.NewRaw(pendingVote, args).Exec(ctx)
			}
			if err == nil { // after it, because the check may be in the graph by now
				_, err = tx.NewRaw(labelSighting, args).Exec(ctx)
			}
			if err != nil {
				return err
			}
		}
		var kept int
		err = tx.NewRaw("SELECT 1 FROM audit_records WHERE chain = ? AND ref = ? AND account_id = ? FOR SHARE", r.Chain,
			ref, r.AccountID).Scan(ctx, &kept)
		if errors.Is(err, sql.ErrNoRows) {
			return feedback.ErrUnknownCheck // erased meanwhile
		}
		if err != nil {
			return err
		}
		return change(ctx, tx, record)
	})
}

// Labelled returns all labels with layer scores, of all accounts, oldest first.
func (s *Store) Labelled(ctx context.Context) ([]feedback.Labelled, error) {
	var rows []feedbackRow
	err := s.db.NewSelect().Model(&rows).Column("type", "label", "layers").Where("layers IS NOT NULL").
		Order("given_at", "chain", "seq").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading feedback: %w", err)
	}
	labelled := make([]feedback.Labelled, len(rows))
	for i, row := range rows {
		labelled[i] = feedback.Labelled{Type: entity.Type(row.Type), Label: row.Label}
		if err := json.Unmarshal(row.Layers, &labelled[i].Layers); err != nil {
			return nil, fmt.Errorf("reading feedback: %w", err)
		}
	}
	return labelled, nil
}
