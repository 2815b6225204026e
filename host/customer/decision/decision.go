// Package decision answers questions about recorded checks: which ones an account made, why one got its score (GDPR
// Art. 15(1)(h)), and whether a person upholds its verdict (Art. 22). Package store stores them.
package decision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// Check is a check's record in the audit log, without the pseudonym.
type Check struct {
	Ref        string `json:"ref"`
	Timestamp  string `json:"timestamp"` // as in the response to the check
	Type       string `json:"type"`
	Score      int    `json:"score"`
	Verdict    string `json:"verdict"`
	Key        string `json:"key"`        // the id of the API key used
	Revision   int64  `json:"revision"`   // of the lineup that decided
	Overridden bool   `json:"overridden"` // an override decided the verdict
}

// Details is a check with its record, webhook event, feedback and review.
type Details struct {
	Check
	Record   Record            `json:"record"`
	Webhook  *Delivery         `json:"webhook"`  // null if there was no event
	Feedback *privacy.Feedback `json:"feedback"` // null if there is none
	Review   *privacy.Review   `json:"review"`   // null if none was requested
}

// Record is the place of a check's record in the audit log.
type Record struct {
	Chain  int   `json:"chain"`
	Number int64 `json:"number"`
	// Intact reports whether the record's content matches its hash in the chain.
	Intact bool `json:"intact"`
	// Checkpoint is the first published one that covers the record; null if there is none yet.
	Checkpoint *Checkpoint `json:"checkpoint"`
}

// Checkpoint is a published statement about a chain's content, signed by this installation.
type Checkpoint struct {
	Number   int64        `json:"number"` // of the last record that it covers
	SignedAt privacy.Time `json:"signed_at"`
}

// Delivery is the state of a check's webhook event.
type Delivery struct {
	Event    string `json:"event"`
	State    string `json:"state"`
	Attempts int    `json:"attempts"`
}

// The number of checks on one page. A search reads up to MaxSearched of the account's records for one, so that a search
// for a rare verdict among millions of checks costs no more than another.
const (
	DefaultPage = 50
	MaxPage     = 1000
	MaxSearched = 10_000
)

// Query selects an account's checks, newest first. Fields with zero values select all.
type Query struct {
	Verdict check.Verdict
	Type    entity.Type
	Key     string // the id of an API key
	From    time.Time
	Until   time.Time // the first instant that is not selected
	Entity  *entity.Entity
	After   Cursor
	Limit   int
}

// Page is a part of a list of checks. It may have fewer checks than Query.Limit although there are more.
type Page struct {
	Checks []Check `json:"checks"`
	Next   *string `json:"next"` // the cursor of the next page; null on the last page
}

// Cursor is a place in the list of an account's checks. It remains valid if the check there is erased.
type Cursor struct {
	At  time.Time
	Ref string
}

// String encodes the cursor.
func (c Cursor) String() string { return c.At.UTC().Format(check.TimeFormat) + "_" + c.Ref }

// ParseCursor parses the result of String. The error is an *entity.InvalidError.
func ParseCursor(text string) (Cursor, error) {
	at, ref, _ := strings.Cut(text, "_")
	t, err := time.Parse(check.TimeFormat, at)
	if err != nil || t.Year() < 1 || privacy.ValidateRef("after", ref) != nil {
		return Cursor{}, &entity.InvalidError{Field: "after", Reason: "must be the next of the page before"}
	}
	return Cursor{t, ref}, nil
}

// Validate returns an *entity.InvalidError for the first field that is invalid.
func (q Query) Validate() error {
	invalid := func(field, format string, args ...any) error {
		return &entity.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case q.Verdict != "" && q.Verdict != check.Allow && q.Verdict != check.Review && q.Verdict != check.Block:
		return invalid("verdict", "must be allow, review or block")
	case q.Type != "" && !slices.Contains(entity.Types(), q.Type):
		return invalid("type", "must be domain, email, phone or iban")
	case len(q.Key) > maxKey || strings.ContainsFunc(q.Key, entity.IsHidden):
		return invalid("key", "must be the id of an API key, such as key_01KF0HBGZ0Q8WJ3V5N7T9R2M4C")
	case q.Limit < 1 || q.Limit > MaxPage:
		return invalid("limit", "must be a whole number from 1 to %d", MaxPage)
	case q.Entity != nil && q.Type != "" && q.Type != q.Entity.Type:
		return invalid("type", "must be that of the value, %s", q.Entity.Type)
	}
	return nil
}

const maxKey = 64 // bytes; the ids of keys are shorter
