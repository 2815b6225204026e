package apikey

import (
	"errors"
	"fmt"
	"time"
)

// State is a key's state.
type State string

// The states of a key.
const (
	Valid     State = "valid"
	Revoked   State = "revoked"   // permanently
	Cancelled State = "cancelled" // until a subscription serves the account again
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
	ExpiresAt  *time.Time `json:"expires_at"`   // when a rotated key stops working
	LastUsedAt *time.Time `json:"last_used_at"` // to the minute
	Plan       string     `json:"plan"`
	Used       int        `json:"used_this_month"` // by the whole account
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
	ErrLast     = errors.New("this is the account's only key, and you need a key to sign in: create another first")
)
