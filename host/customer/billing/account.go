package billing

import (
	"errors"
	"time"

	"assay/host/check"
)

// Errors of accounts.
var (
	ErrNoAccount         = errors.New("there is no such account")
	ErrSubscriptionEnded = errors.New("the account's subscription has ended: choose a plan first")
)

// Usage is how much of its monthly quota an account has used.
type Usage struct {
	Plan    check.Plan // with the account's own quota
	Used    int
	ResetAt time.Time // the first instant of the next calendar month, UTC
}
