package apikey

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// State is a key's state.
type State string

// The states of a key.
const (
	Valid     State = "valid"
	Revoked   State = "revoked"   // permanently
	Cancelled State = "cancelled" // until the account has a subscription again
	Suspended State = "suspended" // until the operator resumes the account
)

// Key describes an issued key, without its secret.
type Key struct {
	ID         string     `json:"id"`
	Account    string     `json:"account"`
	Name       string     `json:"name"`
	Hint       string     `json:"hint"`
	State      State      `json:"state"`
	CreatedAt  time.Time  `json:"created_at"`
	EndedAt    *time.Time `json:"ended_at"`
	ExpiresAt  *time.Time `json:"expires_at"`   // when the key stops working, by its lifetime or because it was rotated
	LastUsedAt *time.Time `json:"last_used_at"` // to the minute
	Limits
	Plan string `json:"plan"`
	Used int    `json:"used_this_month"` // by the whole account
}

// Wanted describes a key to issue.
type Wanted struct {
	Name   string
	Limits Limits
	// Lifetime is how long the key, and each key that replaces it by rotation, works; 0: permanently.
	Lifetime time.Duration
}

// maxName is the maximum length of a key's name in characters.
const maxName = 60

// ParseName trims the name of a key. Names appear in lists and terminals, so control characters and marks that change
// the direction of text are rejected.
func ParseName(text string) (string, error) {
	name := strings.TrimSpace(text)
	hidden := strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	if name == "" || hidden || utf8.RuneCountInString(name) > maxName {
		return "", fmt.Errorf("the name must have 1 to %d visible characters, such as “production”", maxName)
	}
	return name, nil
}

// LifetimeUntil returns the lifetime of a key that is issued now and ends at the given time, which must be later.
func LifetimeUntil(ends, now time.Time) (time.Duration, error) {
	if !ends.After(now) {
		return 0, fmt.Errorf("expires: %s is not in the future", ends.UTC().Format(time.DateTime))
	}
	return ends.Sub(now), nil
}

// Issued is a new key. Its secret is shown once and never stored.
type Issued struct {
	Secret  string `json:"key"`
	ID      string `json:"id"`
	Account string `json:"account"`
	Plan    string `json:"plan"`
}

// MaxPerAccount limits the keys of an account that work at the same time, including rotated keys that have not expired.
const MaxPerAccount = 20

// Errors of issuing and ending keys.
var (
	ErrNotFound = errors.New("there is no such valid key") // also if the key belongs to another account
	ErrTooMany  = fmt.Errorf("an account can have at most %d keys: revoke one first", MaxPerAccount)
	ErrLast     = errors.New("this is the account's only key: create another first")
)
