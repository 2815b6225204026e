package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// reviewColumns are the columns of reviews that a customer sees, in a row of a check.
type reviewColumns struct {
	Review          string // the state; "": no review
	ReviewReason    []byte // sealed
	ReviewAskedAt   time.Time
	ReviewTakenAt   *time.Time
	ReviewSettledAt *time.Time
	ReviewFinding   []byte // sealed
}

// letter is the sealed content of a customer's request for a review. A settled review keeps only the reason.
type letter struct {
	Reason  string  `json:"reason"`
	Value   *string `json:"value,omitempty"`
	Contact *string `json:"contact,omitempty"`
}

func (s *Store) sealLetter(ref string, l letter) ([]byte, error) {
	text, err := json.Marshal(l)
	return s.keys.Seal(text, contestContext(ref)), err
}

// The contexts bind encrypted texts to their check.
func contestContext(ref string) string { return "review " + ref }
func findingContext(ref string) string { return "finding " + ref }

// openReview returns a review, or nil if there is none.
func (s *Store) openReview(ref string, c reviewColumns) (*privacy.Review, error) {
	if c.Review == "" {
		return nil, nil
	}
	var l letter
	text, err := s.keys.Open(c.ReviewReason, contestContext(ref))
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the review of %s: %w", ref, err)
	}
	r := &privacy.Review{Ref: ref, State: c.Review, Reason: l.Reason, Value: l.Value, Contact: l.Contact,
		AskedAt: privacy.Time{Time: c.ReviewAskedAt}, TakenAt: timeOf(c.ReviewTakenAt),
		SettledAt: timeOf(c.ReviewSettledAt)}
	if c.ReviewFinding != nil {
		finding, err := s.keys.Open(c.ReviewFinding, findingContext(ref))
		if err != nil {
			return nil, fmt.Errorf("opening the review of %s: %w", ref, err)
		}
		r.Finding = new(string(finding))
	}
	return r, nil
}

// AskReview requests a human review of one of the account's checks, unless there is one already, and returns it. It
// fails with check.ErrUnauthorized, feedback.ErrUnknownCheck or an *entity.InvalidError.
func (s *Store) AskReview(ctx context.Context, c check.Caller, ref string, asking decision.Asking) (
	*privacy.Review, error) {
	if err := asking.Validate(ref); err != nil {
		return nil, err
	}
	l := letter{Reason: asking.Reason}
	if asking.Entity != nil {
		l.Value = &asking.Entity.Value
	}
	if asking.Contact != "" {
		l.Contact = &asking.Contact
	}
	sealed, err := s.sealLetter(ref, l)
	if err != nil {
		return nil, err
	}
	var details *decision.Details
	err = again(func() (err error) {
		if details, err = s.RecordedCheck(ctx, c, ref, asking.Entity); err != nil || details.Review != nil {
			return err
		}
		if details.Verdict == string(check.Allow) {
			return &entity.InvalidError{Field: "ref", Reason: "is an allowed check, so there is nothing to contest; " +
				"POST /api/feedback reports fraud"}
		}
		at, err := time.Parse(check.TimeFormat, details.Timestamp)
		if err != nil {
			return err
		}
		_, err = once[bool](ctx, s, "SELECT ask_review(?chain, ?seq, ?ref, ?account, ?at, ?reason, ?now)", named{
			"chain": details.Record.Chain, "seq": details.Record.Number, "ref": ref, "account": c.Account, "at": at,
			"reason": sealed, "now": s.now().UTC().Truncate(time.Millisecond)})
		if err == nil {
			details, err = s.RecordedCheck(ctx, c, ref, nil) // another request may have been first
		}
		return err
	})
	if err != nil {
		return nil, withOutage(fmt.Errorf("asking for a review: %w", err))
	}
	if details.Review == nil { // it was erased meanwhile
		return nil, decision.ErrNoReview
	}
	return details.Review, nil
}

// Review returns the review of one of the account's checks. It fails with check.ErrUnauthorized,
// feedback.ErrUnknownCheck or decision.ErrNoReview.
func (s *Store) Review(ctx context.Context, c check.Caller, ref string) (*privacy.Review, error) {
	details, err := s.RecordedCheck(ctx, c, ref, nil)
	if err == nil && details.Review == nil {
		err = decision.ErrNoReview
	}
	if err != nil {
		return nil, err
	}
	return details.Review, nil
}

// caseRow is a review with its check's record.
type caseRow struct {
	auditRow
	reviewColumns
	Reviewer string
}

// readCases reads the open reviews, or with a reference the review of that check.
func (s *Store) readCases(ctx context.Context, ref string, limit int) (rows []caseRow, err error) {
	err = query(s.db, "open_reviews", named{"ref": ref, "limit": limit}).Scan(ctx, &rows)
	return rows, err
}

// OpenReviews lists the unsettled reviews of all accounts: the oldest of each account, then the next of each.
func (s *Store) OpenReviews(ctx context.Context, limit int) ([]decision.Case, error) {
	rows, err := s.readCases(ctx, "", limit)
	if err != nil {
		return nil, withOutage(fmt.Errorf("listing reviews: %w", err))
	}
	cases := make([]decision.Case, len(rows))
	for i, row := range rows {
		cases[i], err = s.openCase(row)
		if err != nil { // an altered text must not hide the other reviews
			s.log.Error("a review cannot be opened", "ref", row.Ref, "error", err)
		}
		cases[i].Value, cases[i].Contact = nil, nil
	}
	return cases, nil
}

// openCase returns a review, after an error without its texts.
func (s *Store) openCase(row caseRow) (decision.Case, error) {
	review, err := s.openReview(row.Ref, row.reviewColumns)
	if err != nil {
		review = &privacy.Review{Ref: row.Ref, State: row.Review, AskedAt: privacy.Time{Time: row.ReviewAskedAt}}
	}
	return decision.Case{Review: *review, Enclosed: review.Value != nil || review.Contact != nil,
		Account: row.AccountID, Type: row.Type, Score: row.Score, Verdict: row.Verdict,
		Timestamp: timestamp(row.RecordedAt), Revision: row.Revision, Reviewer: row.Reviewer}, err
}

// OpenCase returns a review with its value and contact to the person who has taken it. It fails with
// decision.ErrNoReview, or with decision.ErrNotTaken.
func (s *Store) OpenCase(ctx context.Context, ref, reviewer string) (decision.Case, error) {
	of, err := s.findCase(ctx, ref)
	if err == nil && (of.Review != decision.Taken || of.Reviewer != reviewer) {
		err = decision.ErrNotTaken
	}
	var c decision.Case
	if err == nil {
		c, err = s.openCase(of)
	}
	return c, withOutage(wrap(err, "opening a review"))
}

// ReviewBacklog returns how many reviews are not settled, and how long the oldest one has waited.
func (s *Store) ReviewBacklog(ctx context.Context) (open int, oldest time.Duration, err error) {
	var since *time.Time
	err = s.db.NewRaw("SELECT count(*), min(asked_at) FROM reviews WHERE settled_at IS NULL").Scan(ctx, &open, &since)
	if err != nil {
		return 0, 0, fmt.Errorf("counting reviews: %w", err)
	}
	if since != nil {
		oldest = s.now().Sub(*since)
	}
	return open, oldest, nil
}

// findCase reads the review of a check. It fails with decision.ErrNoReview.
func (s *Store) findCase(ctx context.Context, ref string) (caseRow, error) {
	rows, err := s.readCases(ctx, ref, 1)
	if err == nil && len(rows) == 0 {
		err = decision.ErrNoReview
	}
	if err != nil {
		return caseRow{}, err
	}
	return rows[0], nil
}

// TakeReview records the person who settles a review; another person can take it over. It fails with
// decision.ErrNoReview, decision.ErrNotTaken if the review is settled, or an *entity.InvalidError.
func (s *Store) TakeReview(ctx context.Context, ref, reviewer string) error {
	if err := decision.ValidateReviewer(reviewer); err != nil {
		return err
	}
	of, err := s.findCase(ctx, ref)
	if err == nil {
		var result sql.Result
		result, err = s.db.NewRaw(`UPDATE reviews SET state = 'taken', reviewer = ?reviewer, taken_at = ?now
			WHERE chain = ?chain AND seq = ?seq AND settled_at IS NULL`, named{"chain": of.Chain, "seq": of.Seq,
			"reviewer": reviewer, "now": s.now().UTC().Truncate(time.Millisecond)}).Exec(ctx)
		err = oneRow(result, err, decision.ErrNotTaken)
	}
	return withOutage(wrap(err, "taking a review"))
}

// SettleReview upholds or overturns a verdict, and forgets the value and the contact that were sent. An overturned
// verdict becomes the account's feedback that the entity is legitimate, unless the account gave feedback itself. It
// fails with decision.ErrNoReview, decision.ErrNotTaken or an *entity.InvalidError.
func (s *Store) SettleReview(ctx context.Context, ref string, how decision.Settlement) error {
	if err := how.Validate(); err != nil {
		return err
	}
	err := again(func() error {
		of, err := s.findCase(ctx, ref)
		if err != nil {
			return err
		}
		review, err := s.openReview(ref, of.reviewColumns)
		if err != nil {
			return err
		}
		reason, err := s.sealLetter(ref, letter{Reason: review.Reason})
		if err != nil {
			return err
		}
		node, err := s.keys.OpenNode(of.SealedNode, nodeContext(ref))
		if err != nil {
			node = nil // as in giveFeedback
		}
		return s.require(ctx, decision.ErrNotTaken, `SELECT settle_review(?chain, ?seq, ?ref, ?account, ?pseudonym,
			?type, ?at, ?node, ?reviewer, ?state, ?reason, ?finding, ?now)`, named{"chain": of.Chain, "seq": of.Seq,
			"ref": ref, "account": of.AccountID, "pseudonym": of.Pseudonym, "type": of.Type, "at": of.RecordedAt,
			"node": node, "reviewer": how.Reviewer, "state": how.State, "reason": reason,
			"now":     s.now().UTC().Truncate(time.Millisecond),
			"finding": s.keys.Seal([]byte(how.Finding), findingContext(ref))})
	})
	return withOutage(wrap(err, "settling a review"))
}

// ReviewNotices returns the oldest settled review of each account that its owner has not heard of. EndReviewNotice
// removes it from the list.
func (s *Store) ReviewNotices(ctx context.Context) (settled []decision.Settled, err error) {
	err = s.db.NewRaw(`SELECT DISTINCT ON (account_id) ref, account_id, settled_at FROM reviews
		WHERE settled_at IS NOT NULL AND NOT told ORDER BY account_id, settled_at`).Scan(ctx, &settled)
	return settled, withOutage(wrap(err, "reading settled reviews"))
}

// EndReviewNotice records that the owner was told about a settled review.
func (s *Store) EndReviewNotice(ctx context.Context, ref string) error {
	_, err := s.db.NewRaw("UPDATE reviews SET told = true WHERE ref = ? AND settled_at IS NOT NULL", ref).Exec(ctx)
	return withOutage(wrap(err, "ending a notice about a review"))
}
