// Package privacy is what may be asked of the data held of somebody (GDPR Art. 15 and 17), as types: whose data, what
// is held, what was erased. Their JSON is what the API answers and what the dashboard lets download.
package privacy

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// ErrUnknownSubject means that the account holds nothing of the subject, and never did as far as is still known.
var ErrUnknownSubject = errors.New("nothing is held of this subject")

// Selector says whose data a request is about. Exactly one field is set.
type Selector struct {
	Subject string         // a subject reference
	Ref     string         // of one of the subject's checks
	Entity  *entity.Entity // the subject itself
}

// pseudonymBytes is the length of what a subject reference spells out.
const pseudonymBytes = 32

// Reference is how a subject is named to the account that checked it: "sub_" and its pseudonym in lowercase
// hexadecimal. It is the same for all checks of one entity by one account, and tells nobody else anything.
func Reference(pseudonym []byte) string { return "sub_" + hex.EncodeToString(pseudonym) }

// ParseReference returns the pseudonym that a subject reference spells out. The error is an *entity.InvalidError.
func ParseReference(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "sub_")
	pseudonym, err := hex.DecodeString(digits)
	if !ok || err != nil || len(pseudonym) != pseudonymBytes || digits != strings.ToLower(digits) {
		return nil, &entity.InvalidError{Field: "subject", Reason: "must be sub_ and 64 lowercase hexadecimal digits"}
	}
	return pseudonym, nil
}

// checkRef is the form of a check's reference: a ULID in Crockford's base 32.
var checkRef = regexp.MustCompile(`^chk_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// ValidateRef says what is wrong with the reference of a check, given in field. The error is an *entity.InvalidError.
func ValidateRef(field, text string) error {
	if !checkRef.MatchString(text) {
		return &entity.InvalidError{Field: field, Reason: "must be the reference of a check, chk_ and 26 characters"}
	}
	return nil
}

// Page is which part of the checks to list.
type Page struct {
	After string // the reference of the check before the first; "" for the beginning
	Limit int    // how many checks at most
}

// Export is what an account holds of a subject, or a page of it, as of one moment.
type Export struct {
	Subject  *string    `json:"subject"` // null when all that is known of it is that it was erased
	Type     *string    `json:"type"`    // of the entity; null likewise
	Total    int        `json:"total"`   // checks, on all pages
	Checks   []Check    `json:"checks"`  // oldest first
	Next     *string    `json:"next"`    // the After of the next page; null on the last
	Graph    *Sightings `json:"graph"`   // the account's own part in the reputation graph; null when there is none
	Erasures []Erasure  `json:"erasures"`
}

// Check is the audit record of a check, with the webhook event that it made.
type Check struct {
	Ref       string `json:"ref"`
	Timestamp string `json:"timestamp"` // as it was answered
	Type      string `json:"type"`
	Score     int    `json:"score"`
	Verdict   string `json:"verdict"`
	Key       string `json:"key"` // the id of the key that asked
	Webhook   *Event `json:"webhook"`
}

// Event is a webhook event and what has become of it.
type Event struct {
	Event         string          `json:"event"`
	Sequence      int64           `json:"sequence"`
	State         string          `json:"state"`
	Attempts      int             `json:"attempts"`
	Timestamp     Time            `json:"timestamp"`
	NextAttemptAt *Time           `json:"next_attempt_at"`
	SettledAt     *Time           `json:"settled_at"`
	Body          json.RawMessage `json:"body"` // what is sent; null once it is deleted
}

// Sightings is what an account has put into the reputation graph about an entity.
type Sightings struct {
	Checks    int  `json:"checks"` // also those of others that it was sent along with
	Blocked   int  `json:"blocked"`
	Reviewed  int  `json:"reviewed"`
	FirstSeen Time `json:"first_seen"`
	LastSeen  Time `json:"last_seen"`
	Links     int  `json:"links"` // to what it hangs on and what was sent along with it
}

// Erasure is a record of the audit trail that says that others were erased.
type Erasure struct {
	Ref       string `json:"ref"` // "erasure_..."
	Timestamp string `json:"timestamp"`
	Checks    int    `json:"checks"` // that it erased
}

// ErasureResult is what an erasure took. Asked for again it takes nothing more, and names the erasures there were.
type ErasureResult struct {
	Subject   *string   `json:"subject"` // null when all that is known of it is that it was erased
	Checks    int       `json:"erased"`
	Events    int       `json:"webhook_events"`
	Sightings int       `json:"graph_sightings"`
	Links     int       `json:"graph_links"`
	Erasures  []Erasure `json:"erasures"`
}

// Time is written as every time of the API (spec section 2.2).
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(check.TimeFormat) + `"`), nil
}
