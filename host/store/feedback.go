package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/uptrace/bun"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/entity"
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
func (s *Store) Feedback(ctx context.Context, c check.Caller, ref string, e *entity.Entity) (kept *feedback.Kept,
	err error) {
	defer concluding("reading feedback", &err)
	row, err := s.readCheck(ctx, c, ref, e)
	if err != nil || row.Label == nil {
		return nil, err
	}
	return s.kept(row.feedback())
}

// feedback returns the row of the check's feedback, if there is one.
func (r recordedRow) feedback() feedbackRow {
	row := feedbackRow{Ref: r.Ref, Type: r.Type, Label: *r.Label, SealedNote: r.SealedNote, GivenAt: r.GivenAt}
	if r.Scored {
		row.Layers = []byte{}
	}
	return row
}

// KeepFeedback implements [feedback.Store].
func (s *Store) KeepFeedback(ctx context.Context, c check.Caller, given feedback.Report, layers []feedback.Layer) (
	kept *feedback.Kept, err error) {
	defer concluding("keeping feedback", &err)
	row := feedbackRow{Ref: given.Ref, Label: given.Label, GivenAt: s.now().UTC().Truncate(time.Millisecond)}
	if given.Note != "" {
		row.SealedNote = s.keys.Seal([]byte(given.Note), noteContext(given.Ref))
	}
	args := named{"label": given.Label, "note": row.SealedNote, "scores": nil, "now": row.GivenAt}
	if layers != nil {
		text, err := json.Marshal(layers)
		if err != nil {
			return nil, err
		}
		args["scores"] = string(text)
	}
	record, scored, err := s.giveFeedback(ctx, c, given.Ref, args)
	if err != nil {
		return nil, err
	}
	row.Type = record.Type
	if scored {
		row.Layers = []byte{}
	}
	return s.kept(row)
}

// RevokeFeedback implements [feedback.Store].
func (s *Store) RevokeFeedback(ctx context.Context, c check.Caller, ref string) error {
	_, _, err := s.giveFeedback(ctx, c, ref, named{"label": nil, "note": nil, "scores": nil, "now": nil})
	return withOutage(wrap(err, "revoking feedback"))
}

// giveFeedback changes the feedback on one of the account's checks, and returns the check and whether layer scores are
// kept. If the check is erased or pruned meanwhile, it starts again and finds it missing.
func (s *Store) giveFeedback(ctx context.Context, c check.Caller, ref string, args named) (
	record auditRow, scored bool, err error) {
	err = again(func() error {
		row, err := s.readCheck(ctx, c, ref, nil)
		if err != nil {
			return err
		}
		record = row.auditRow
		// A check that was altered does not lead to a node, and has no vote.
		node, err := s.keys.OpenNode(record.SealedNode, nodeContext(ref))
		if err != nil {
			node = nil
		}
		maps.Copy(args, named{"chain": record.Chain, "seq": record.Seq, "ref": record.Ref, "account": record.AccountID,
			"pseudonym": record.Pseudonym, "type": record.Type, "at": record.RecordedAt, "node": node})
		scored, err = once[bool](ctx, s,
			`SELECT give_feedback(?chain, ?seq, ?ref, ?account, ?pseudonym, ?type, ?at, ?node,
			?label, ?note, ?scores, ?now)`, args)
		return err
	})
	return record, scored, err
}

// Labelled returns all labels with layer scores, of all accounts, oldest first.
func (s *Store) Labelled(ctx context.Context) ([]feedback.Labelled, error) {
	var rows []feedbackRow
	err := s.db.NewSelect().Model(&rows).Column("type", "label", "layers").Where("layers IS NOT NULL").
		Order("given_at", "chain", "seq").Scan(ctx)
	labelled, err := convert(rows, err, func(row feedbackRow) (l feedback.Labelled, err error) {
		l.Type, l.Label = entity.Type(row.Type), row.Label
		return l, json.Unmarshal(row.Layers, &l.Layers)
	})
	return labelled, wrap(err, "reading feedback")
}
