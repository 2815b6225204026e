// Package privacy defines the requests and results of data subject access and erasure (GDPR Art. 15 and 17). The API
// returns the results as JSON, and the dashboard offers the same JSON for download. Package store executes the
// requests.
package privacy

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// ErrUnknownSubject means that the account has no data about the subject and no record of having erased any.
var ErrUnknownSubject = errors.New("there is no data about this subject")

// Selector identifies the data subject of a request. Exactly one field is set.
type Selector struct {
	Subject string         // a subject reference
	Ref     string         // the reference of one of the subject's checks
	Entity  *entity.Entity // the subject itself
}

// ParseSelector parses a field of a request that names a subject, a check's reference, or an entity of a type. The
// error is an *entity.InvalidError.
func ParseSelector(field, text, country string) (s Selector, err error) {
	switch field {
	case "subject":
		s.Subject = text
		_, err = ParseReference(text)
	case "ref":
		s.Ref = text
		err = ValidateRef("ref", text)
	default:
		var e entity.Entity
		e, err = entity.Parse(entity.Type(field), text, country)
		s.Entity = &e
	}
	return s, err
}

const pseudonymBytes = 32

// Reference returns the reference of a subject: "sub_" and its pseudonym in lowercase hexadecimal. All checks of an
// entity by an account share it. It is meaningless outside the account.
func Reference(pseudonym []byte) string { return "sub_" + hex.EncodeToString(pseudonym) }

// ParseReference returns the pseudonym in a subject reference. The error is an *entity.InvalidError.
func ParseReference(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "sub_")
	pseudonym, err := hex.DecodeString(digits)
	if !ok || err != nil || len(pseudonym) != pseudonymBytes || digits != strings.ToLower(digits) {
		return nil, &entity.InvalidError{Field: "subject", Reason: "must be sub_ and 64 lowercase hexadecimal digits"}
	}
	return pseudonym, nil
}

// ValidateRef validates the syntax of a check's reference in the given field. The error is an *entity.InvalidError.
func ValidateRef(field, text string) error {
	return entity.ValidateID(field, text, "chk_", "reference of a check")
}

// Page selects a range of a subject's checks.
type Page struct {
	After string // the reference of the check before the range; "" to start at the first
	Limit int    // maximum number of checks
}

// Export is a snapshot of an account's data about a subject, with one page of its checks.
type Export struct {
	Subject  *string    `json:"subject"` // null if the request names a check that was erased
	Type     *string    `json:"type"`    // of the entity; null if unknown
	Total    int        `json:"total"`   // number of checks on all pages
	Checks   []Check    `json:"checks"`  // oldest first
	Next     *string    `json:"next"`    // Page.After of the next page; null on the last page
	Graph    *Sightings `json:"graph"`   // null if the account contributed nothing to the graph
	Erasures []Erasure  `json:"erasures"`

	Overrides []Override `json:"overrides"` // the account's verdicts on this subject, set in advance
}

// Override is a verdict on the subject that the account set in advance.
type Override struct {
	ID        string `json:"id"`
	Action    string `json:"action"` // allow or block
	Kind      string `json:"kind"`
	Reason    string `json:"reason"`
	Author    string `json:"author"`
	CreatedAt Time   `json:"created_at"`
	ExpiresAt Time   `json:"expires_at"`
}

// Check is the audit record of a check, its webhook event and the account's feedback.
type Check struct {
	Ref       string `json:"ref"`
	Timestamp string `json:"timestamp"` // as in the response to the check
	Type      string `json:"type"`
	Score     int    `json:"score"`
	Verdict   string `json:"verdict"`
	Key       string `json:"key"`     // the id of the API key used
	Webhook   *Event `json:"webhook"` // null if there was none

	Feedback *Feedback `json:"feedback"` // null if there is none
	Review   *Review   `json:"review"`   // null if none was asked for
}

// Feedback is what the account reported about a check later.
type Feedback struct {
	Label     string  `json:"label"` // fraud or legitimate
	Note      *string `json:"note"`  // null if there is none
	Timestamp Time    `json:"timestamp"`
}

// Review is a person's review of a check's verdict (GDPR Art. 22).
type Review struct {
	Ref    string `json:"ref"`
	State  string `json:"state"`  // asked, taken, upheld or overturned
	Reason string `json:"reason"` // why it was asked for
	// Value and Contact are for the reviewer; null if they were not sent, and once the review is settled.
	Value     *string `json:"value"`
	Contact   *string `json:"contact"`
	AskedAt   Time    `json:"asked_at"`
	TakenAt   *Time   `json:"taken_at"`   // null until a person takes it
	SettledAt *Time   `json:"settled_at"` // null until it is upheld or overturned
	Finding   *string `json:"finding"`    // the person's reasons; null until then
}

// Event is a webhook event and the state of its delivery.
type Event struct {
	Event         string          `json:"event"`
	Sequence      int64           `json:"sequence"`
	State         string          `json:"state"`
	Attempts      int             `json:"attempts"`
	Timestamp     Time            `json:"timestamp"`
	NextAttemptAt *Time           `json:"next_attempt_at"`
	SettledAt     *Time           `json:"settled_at"`
	Body          json.RawMessage `json:"body"` // the payload; null once deleted
}

// Sightings is an account's contribution to the reputation graph about an entity.
type Sightings struct {
	Checks    int  `json:"checks"` // includes checks of other entities sent together with this one
	Blocked   int  `json:"blocked"`
	Reviewed  int  `json:"reviewed"`
	FirstSeen Time `json:"first_seen"`
	LastSeen  Time `json:"last_seen"`
	Links     int  `json:"links"` // to its parents and to entities sent together with it
}

// Erasure is the audit record of an erasure.
type Erasure struct {
	Ref       string `json:"ref"` // "erasure_..."
	Timestamp string `json:"timestamp"`
	Checks    int    `json:"checks"` // number of checks erased
}

// ErasureResult counts the data that an erasure request erased, and lists all erasures of the subject so far.
type ErasureResult struct {
	Subject   *string   `json:"subject"` // null if the request names a check that was erased
	Checks    int       `json:"erased"`
	Events    int       `json:"webhook_events"`
	Sightings int       `json:"graph_sightings"`
	Links     int       `json:"graph_links"`
	Overrides int       `json:"overrides"`
	Erasures  []Erasure `json:"erasures"`
}

// Time is a time in the API's format (contract section 2.2).
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(check.TimeFormat) + `"`), nil
}
