package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// feedbackColumns are the columns of feedback, in a row of a check.
type feedbackColumns struct {
	Label      *feedback.Label // nil: no feedback
	SealedNote []byte
	GivenAt    time.Time
	Scored     bool // layer scores are kept with it
}

func noteContext(ref string) string { return "note " + ref }

// openFeedback returns the feedback on a check, or nil if there is none; after an error, without the note.
func (s *Store) openFeedback(ref string, c feedbackColumns) (*privacy.Feedback, error) {
	if c.Label == nil {
		return nil, nil
	}
	f := &privacy.Feedback{Label: string(*c.Label), Timestamp: privacy.Time{Time: c.GivenAt}}
	if c.SealedNote != nil {
		note, err := s.keys.Open(c.SealedNote, noteContext(ref))
		if err != nil {
			return f, fmt.Errorf("opening the note on %s: %w", ref, err)
		}
		f.Note = new(string(note))
	}
	return f, nil
}

// kept returns the feedback on a check of a type, or nil if there is none.
func (s *Store) kept(ref, typ string, c feedbackColumns) (*feedback.Kept, error) {
	f, err := s.openFeedback(ref, c)
	if err != nil || f == nil {
		return nil, err
	}
	return &feedback.Kept{Ref: ref, Type: typ, Label: *c.Label, Note: f.Note, Scored: c.Scored,
		Timestamp: f.Timestamp}, nil
}

// Feedback implements [feedback.Store].
func (s *Store) Feedback(ctx context.Context, c check.Caller, ref string, e *entity.Entity) (kept *feedback.Kept,
	err error) {
	defer concluding("reading feedback", &err)
	row, err := s.readCheck(ctx, c, ref, e)
	if err != nil {
		return nil, err
	}
	return s.kept(row.Ref, row.Type, row.feedbackColumns)
}

// KeepFeedback implements [feedback.Store].
func (s *Store) KeepFeedback(ctx context.Context, c check.Caller, given feedback.Report, layers []feedback.Layer) (
	kept *feedback.Kept, err error) {
	defer concluding("keeping feedback", &err)
	row := feedbackColumns{Label: &given.Label, GivenAt: s.now().UTC().Truncate(time.Millisecond)}
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
	row.Scored = scored
	return s.kept(given.Ref, record.Type, row)
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
	labelled := []feedback.Labelled{}
	err := s.db.NewRaw(`SELECT type, label, layers FROM feedback WHERE layers IS NOT NULL
		ORDER BY given_at, chain, seq`).Scan(ctx, &labelled)
	return labelled, wrap(err, "reading feedback")
}
