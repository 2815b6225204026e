package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Subject identifies the person or entity whose data a request is about. Set one field, and Region with a national
// phone number.
type Subject struct {
	Subject string  `json:"subject,omitempty"` // the reference sub_... that an export names
	Ref     string  `json:"ref,omitempty"`     // the reference of one of the subject's checks
	Domain  string  `json:"domain,omitempty"`
	Email   string  `json:"email,omitempty"`
	Phone   string  `json:"phone,omitempty"`
	IBAN    string  `json:"iban,omitempty"`
	Region  *Region `json:"region,omitempty"`
}

// Explanation gives the reasons for the decision about a check.
type Explanation struct {
	RecordedCheck
	Text         []string `json:"text"`           // the explanation in plain words, a paragraph each
	DecidedBy    *Scoring `json:"decided_by"`     // under the weights that decided; nil if they cannot be loaded
	Today        Scoring  `json:"today"`          // under today's weights
	FactsOfToday []string `json:"facts_of_today"` // sources of facts that may have changed since the check
}

// Scoring is a score with its parts. Start and the points of all reasons add up to Total.
type Scoring struct {
	Score   int      `json:"score"`
	Verdict Verdict  `json:"verdict"`
	Start   float64  `json:"start"`
	Total   float64  `json:"total"` // 0 is a score of 50, and every 10 points double the odds of fraud
	Reasons []Reason `json:"reasons"`
	Unknown []string `json:"unknown"` // facts that were not known
}

// Reason is a signal with its weight.
type Reason struct {
	Text         string  `json:"text"`
	Code         string  `json:"code"`
	Layer        string  `json:"layer"`
	Points       float64 `json:"points"`         // above 0 against the entity, below 0 for it
	FactsOfToday bool    `json:"facts_of_today"` // whether it depends on facts that may have changed
}

// HumanReview is a person's review of a check.
type HumanReview struct {
	Ref       string     `json:"ref"`
	State     string     `json:"state"` // asked, taken, upheld or overturned
	Reason    string     `json:"reason"`
	AskedAt   time.Time  `json:"asked_at"`
	TakenAt   *time.Time `json:"taken_at"`
	SettledAt *time.Time `json:"settled_at"`
	Finding   *string    `json:"finding"` // the reviewer's reasons; nil until the review is settled

	// Value and Contact were sent for the reviewer; nil if they were not, and once the review is settled.
	Value   *string `json:"value"`
	Contact *string `json:"contact"`
}

// ReviewRequest asks for a person's review of a check.
type ReviewRequest struct {
	Ref     string `json:"ref"`
	Reason  string `json:"reason"`
	Contact string `json:"contact,omitempty"` // where the reviewer can ask questions

	Request // optional: the value that was checked, for the reviewer
}

// SubjectRef returns the reference sub_... of a value, which is the same for all checks of the account.
func (c *Client) SubjectRef(ctx context.Context, subject Subject) (string, error) {
	a, err := call[Subject](ctx, c, http.MethodPost, "/gdpr/subject", subject)
	return a.Subject, err
}

// Export returns the account's data about a subject as a JSON document to hand over. "checks" has all checks: if there
// are many, the service collects them in the background, and Export waits.
func (c *Client) Export(ctx context.Context, subject Subject) (json.RawMessage, error) {
	a, err := c.send(ctx, http.MethodPost, "/gdpr/export", subject)
	if err != nil || a.status == http.StatusOK {
		return a.body, err
	}
	id, err := c.await(ctx, a)
	if err != nil {
		return nil, err
	}
	var whole map[string]json.RawMessage
	all := []json.RawMessage{}
	for query := ""; ; {
		a, err := c.send(ctx, http.MethodGet, "/gdpr/requests/"+id+"/export"+query, nil)
		if err != nil {
			return nil, err
		}
		var part struct {
			Checks []json.RawMessage `json:"checks"`
			Next   string            `json:"next"` // empty for null
		}
		if err := a.decode(&part); err != nil {
			return nil, err
		}
		all = append(all, part.Checks...)
		if part.Next == "" {
			if err := a.decode(&whole); err != nil {
				return nil, err
			}
			if whole["checks"], err = json.Marshal(all); err != nil {
				return nil, err
			}
			return json.Marshal(whole)
		}
		query = "?after=" + url.QueryEscape(part.Next)
	}
}

// Erase permanently erases the account's data about a subject. If the subject has many checks, the service erases them
// in the background, and Erase waits. Erasing again succeeds.
func (c *Client) Erase(ctx context.Context, subject Subject) error {
	a, err := c.send(ctx, http.MethodPost, "/gdpr/erase", subject)
	if err == nil && a.status == http.StatusAccepted {
		_, err = c.await(ctx, a)
	}
	return err
}

// await waits for a background request to end, and returns its id.
func (c *Client) await(ctx context.Context, begun answer) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	type request struct {
		ID    string `json:"id"`
		Kind  string `json:"kind"`
		State string `json:"state"`
	}
	var r request
	err = begun.decode(&r)
	for attempt := 1; err == nil && r.State == "running"; attempt++ {
		if !wait(ctx, pause(attempt, nil)) {
			return "", fmt.Errorf("waiting for the %s %s, which goes on: %w", r.Kind, r.ID,
				cmp.Or(ctx.Err(), context.DeadlineExceeded))
		}
		r, err = call[request](ctx, c, http.MethodGet, "/gdpr/requests/"+url.PathEscape(r.ID), nil)
	}
	if err == nil && r.State != "done" {
		err = fmt.Errorf("the %s %s has the state %s", r.Kind, r.ID, r.State)
	}
	return r.ID, err
}

// Explain gives the reasons for the decision about a check. The service does not keep the value, so pass it again.
func (c *Client) Explain(ctx context.Context, ref string, value Request) (Explanation, error) {
	return call[Explanation](ctx, c, http.MethodPost, "/gdpr/explain", struct {
		Ref string `json:"ref"`
		Request
	}{ref, value})
}

// AskReview asks for a person's review of a block or review verdict. Asking again returns the same review.
func (c *Client) AskReview(ctx context.Context, review ReviewRequest) (HumanReview, error) {
	return call[HumanReview](ctx, c, http.MethodPost, "/gdpr/review", review)
}

// Review returns a person's review of a check. The *Error has the status 404 if nobody asked for one.
func (c *Client) Review(ctx context.Context, ref string) (HumanReview, error) {
	return call[HumanReview](ctx, c, http.MethodGet, "/gdpr/review?ref="+url.QueryEscape(ref), nil)
}
