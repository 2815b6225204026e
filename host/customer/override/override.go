// Package override lets customers and the operator set verdicts in advance: for a value, a registrable domain, a range
// of phone numbers or a bank. It defines targets, their keyed hashes, and the index in which a check finds the
// overrides for its entity. Package store stores them.
package override

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// Kind is a kind of target. Kinds have the names of the API's fields.
type Kind string

// The kinds: a single value of each type of entity, and three groups.
const (
	Domain      = Kind(entity.Domain)
	Email       = Kind(entity.Email)
	Phone       = Kind(entity.Phone)
	IBAN        = Kind(entity.IBAN)
	Registrable = Kind(entity.RegistrableField) // domains under a registrable domain, and email addresses there
	Range       = Kind(entity.RangeField)       // phone numbers that begin with the same digits
	Bank        = Kind(entity.BankField)        // IBANs of one bank
)

// Kinds returns all kinds in order of precedence, most specific first.
func Kinds() []Kind { return []Kind{Domain, Email, Phone, IBAN, Range, Registrable, Bank} }

// Target is the value or the group of values that an override covers.
type Target struct {
	Kind  Kind
	Value string // normalised
}

// ParseTarget normalises a value. A phone number in national format is read in the country (see [entity.Parse]). Errors
// are of type *entity.InvalidError and name the kind as their field.
func ParseTarget(kind Kind, raw, country string) (t Target, err error) {
	t.Kind = kind
	switch kind {
	case Registrable:
		t.Value, err = entity.Registrable(raw)
	case Range:
		t.Value, err = entity.NumberRange(raw)
	case Bank:
		t.Value, err = entity.Bank(raw)
	default:
		var e entity.Entity
		e, err = entity.Parse(entity.Type(kind), raw, country)
		t.Value = e.Value
	}
	return t, err
}

// Subject returns the entity whose personal data the override is: erasing the entity removes the override. Ranges and
// banks have none.
func (t Target) Subject() (of entity.Type, value string, ok bool) {
	switch t.Kind {
	case Range, Bank:
		return "", "", false
	case Registrable:
		return entity.Domain, t.Value, true
	}
	return entity.Type(t.Kind), t.Value, true
}

// ellipsis replaces masked characters, as in the hints of API keys.
const ellipsis = "..."

// Masked returns enough of the value for people to recognise it, and too little to learn it: the ends of a domain's
// registrable label, the first letter of a mailbox, the country and the last digits of a number.
func (t Target) Masked() string {
	v := t.Value
	switch t.Kind {
	case Email:
		at := strings.LastIndexByte(v, '@')
		_, size := utf8.DecodeRuneInString(v)
		return v[:size] + ellipsis + v[at:]
	case Phone:
		return v[:min(3, len(v)/2)] + ellipsis + v[len(v)-2:]
	case Range:
		return fmt.Sprintf("%s%s (%d digits)", v[:4], ellipsis, len(v)-1)
	case IBAN:
		return v[:2] + ellipsis + v[len(v)-4:]
	case Bank:
		return v[:2] + ellipsis + v[len(v)-2:]
	}
	return maskedDomain(v)
}

// maskedDomain hides all but the ends of each label. Labels such as "co" and "uk" are shown, unless they come first.
func maskedDomain(name string) string {
	const short = 3
	labels := strings.Split(name, ".")
	for i, label := range labels[:len(labels)-1] {
		switch {
		case len(label) > short:
			labels[i] = label[:1] + ellipsis + label[len(label)-1:]
		case i == 0:
			labels[i] = label[:1] + ellipsis
		}
	}
	return strings.Join(labels, ".")
}

// The limits on an override.
const (
	MaxOfAccount = 1000                 // overrides of one account that have not expired
	MaxAge       = 365 * 24 * time.Hour // no longer than audit records are kept, so each has its record
	MaxReason    = 500                  // bytes
	MaxAuthor    = 100                  // bytes
)

// Wanted is an override to be added.
type Wanted struct {
	Action    check.Verdict // check.Block or check.Allow
	Target    Target
	Reason    string
	Author    string // who added it; if empty for an account, the API key
	ExpiresAt time.Time
	Edits     string // the id of the account's override whose target it takes over, instead of Target; "": none
}

// Validate returns an *entity.InvalidError that names the first invalid field.
func (w Wanted) Validate(now time.Time) error {
	switch {
	case w.Action != check.Block && w.Action != check.Allow:
		return &entity.InvalidError{Field: "action", Reason: "must be block or allow"}
	case w.ExpiresAt.IsZero():
		return &entity.InvalidError{Field: "expires_at", Reason: "is required"}
	case !w.ExpiresAt.After(now):
		return &entity.InvalidError{Field: "expires_at", Reason: "must be in the future"}
	case w.ExpiresAt.Sub(now) > MaxAge:
		return &entity.InvalidError{Field: "expires_at", Reason: "must be within a year (365 days)"}
	}
	if err := entity.ValidateText("reason", w.Reason, MaxReason, false); err != nil {
		return err
	}
	if w.Author == "" {
		return nil
	}
	return entity.ValidateText("author", w.Author, MaxAuthor, false)
}

// ParseExpiry reads the time at which an override expires. The error is an *entity.InvalidError.
func ParseExpiry(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, &entity.InvalidError{Field: "expires_at", Reason: "is required"}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, &entity.InvalidError{Field: "expires_at",
			Reason: "must be a time such as 2026-01-31T08:00:00Z"}
	}
	return at, nil
}

// ValidateID validates the syntax of an override's id. The error is an *entity.InvalidError.
func ValidateID(id string) error { return entity.ValidateID("id", id, "ovr_", "id of an override") }

// ErrUnknown means that the account has no override with this id.
var ErrUnknown = errors.New("there is no override with this id")

// TooManyError means that an account has MaxOfAccount overrides.
type TooManyError struct{}

func (TooManyError) Error() string {
	return fmt.Sprintf("the account has %d overrides, the maximum; remove one or wait until one expires", MaxOfAccount)
}

// Entry is a stored override.
type Entry struct {
	ID           string // "ovr_" and a ULID
	Account      string // "": the operator's, for all accounts
	Action       check.Verdict
	Kind         Kind
	Match        []byte // see Keys.Match
	Subject      []byte // the pseudonym of Target.Subject in the account; nil: none, or the operator's
	Masked       string
	SealedReason []byte
	Author       string
	CreatedAt    time.Time // whole milliseconds, as ExpiresAt
	ExpiresAt    time.Time
	MAC          []byte // over all other columns
}

// Keys are the secrets needed to make or guess an override.
type Keys struct {
	Targets []byte // HMAC key of Entry.Match
	Rows    []byte // HMAC key of Entry.MAC
}

// Match returns the keyed hash under which an override of the account is found. "" is the operator.
func (k Keys) Match(account string, t Target) []byte {
	return audit.Pseudonym(k.Targets, []byte(account), string(t.Kind), t.Value)
}

// MAC returns the MAC of the entry's other columns.
func (k Keys) MAC(e Entry) []byte {
	var b []byte
	for _, field := range [...][]byte{[]byte(e.ID), []byte(e.Account), []byte(e.Action), []byte(e.Kind), e.Match,
		e.Subject, []byte(e.Masked), e.SealedReason, []byte(e.Author)} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(e.CreatedAt.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(e.ExpiresAt.UnixMicro()))
	return audit.Pseudonym(k.Rows, nil, "override", string(b))
}

// Listed is an override as shown to people.
type Listed struct {
	ID        string        `json:"id"`
	Account   string        `json:"account,omitempty"` // for operators only; "": it applies to all accounts
	Action    check.Verdict `json:"action"`
	Kind      Kind          `json:"kind"`
	Target    string        `json:"target"` // masked
	Reason    string        `json:"reason"`
	Author    string        `json:"author"`
	CreatedAt privacy.Time  `json:"created_at"`
	ExpiresAt privacy.Time  `json:"expires_at"`
	Replaced  string        `json:"replaced,omitempty"` // the id of the override that adding this one removed
	// Ignored says why checks ignore the override; "": they do not.
	Ignored string `json:"ignored,omitempty"`
}
