package decision

import (
	"errors"

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
)

// Errors of reviews.
var (
	ErrNoReview = errors.New("no review was asked for of a check with this reference")
	ErrNotTaken = errors.New("the review is settled, or another person has taken it")
)

// Case is a review as shown to the person who settles it.
type Case struct {
	privacy.Review
	Account   string `json:"account"`
	Type      string `json:"type"`
	Score     int    `json:"score"`
	Verdict   string `json:"verdict"`
	Timestamp string `json:"timestamp"` // of the check
	Revision  int64  `json:"revision"`
	Reviewer  string `json:"reviewer"` // "" until a person takes the review
}

// ValidateAsking validates the fields of a request for a review. The error is an *entity.InvalidError.
func ValidateAsking(ref, reason string) error {
	if err := privacy.ValidateRef("ref", ref); err != nil {
		return err
	}
	return entity.ValidateText("reason", reason, MaxReason, true)
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
