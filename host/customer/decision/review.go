package decision

import (
	"errors"
	"time"

	"assay/host/customer/privacy"
	"assay/host/entity"
)

// The states of a review.
const (
	Asked      = "asked"
	Taken      = "taken" // by a person
	Upheld     = "upheld"
	Overturned = "overturned"
)

// Limits on texts of reviews, in bytes.
const (
	MaxReason   = 2000 // also of the reviewer's findings
	MaxReviewer = 100
	MaxContact  = 200
)

// Errors of reviews.
var (
	ErrNoReview = errors.New("no review was asked for of a check with this reference")
	ErrNotTaken = errors.New("the review is settled, or another person has taken it")
)

// Asking is a request for a review. The value and the contact are for the reviewer alone, and kept until the review is
// settled.
type Asking struct {
	Reason  string
	Contact string         // where the reviewer can ask; "" if nowhere
	Entity  *entity.Entity // the checked value; nil if it was not sent
}

// Case is a review as shown to the person who settles it. Lists do not hold the value and the contact.
type Case struct {
	privacy.Review
	Enclosed  bool   `json:"enclosed"` // whether the account sent a value or a contact
	Account   string `json:"account"`
	Type      string `json:"type"`
	Score     int    `json:"score"`
	Verdict   string `json:"verdict"`
	Timestamp string `json:"timestamp"` // of the check
	Revision  int64  `json:"revision"`
	Reviewer  string `json:"reviewer"` // "" until a person takes the review
}

// Settled is a settled review, about which the account's owner is to be notified.
type Settled struct {
	Ref, AccountID string
	SettledAt      time.Time
}

// Validate validates a request about the check with the given reference. The error is an *entity.InvalidError.
func (a Asking) Validate(ref string) error {
	err := privacy.ValidateRef("ref", ref)
	if err == nil {
		err = entity.ValidateText("reason", a.Reason, MaxReason, true)
	}
	if err == nil && a.Contact != "" {
		err = entity.ValidateText("contact", a.Contact, MaxContact, false)
	}
	return err
}

// Settlement is how a person settles a review.
type Settlement struct {
	Reviewer string // the person, who must have taken it
	State    string // Upheld or Overturned
	Finding  string // the reasons, for the customer
}

// Validate returns an *entity.InvalidError for the first field that is invalid.
func (s Settlement) Validate() error {
	if err := ValidateReviewer(s.Reviewer); err != nil {
		return err
	}
	if s.State != Upheld && s.State != Overturned {
		return &entity.InvalidError{Field: "state", Reason: "must be upheld or overturned"}
	}
	return entity.ValidateText("finding", s.Finding, MaxReason, true)
}

// ValidateReviewer validates the name of the person who takes a review. The error is an *entity.InvalidError.
func ValidateReviewer(name string) error {
	return entity.ValidateText("reviewer", name, MaxReviewer, false)
}
