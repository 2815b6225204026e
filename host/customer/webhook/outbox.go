package webhook

import (
	"context"
	"time"
)

// Outbox is the durable queue of events. Due times are kept and compared by the outbox's own clock, so any host can
// continue what another host began.
type Outbox interface {
	// Claim leases due events to this host for AttemptLease. Each returned delivery is one attempt to make.
	Claim(ctx context.Context, opts ClaimOptions) ([]Delivery, error)
	// Finish records the outcome of an attempt. If retry is true, the next attempt is due after delay.
	Finish(ctx context.Context, o Outcome) (delay time.Duration, retry bool, err error)
}

// AttemptLease is how long an attempt belongs to the host that began it. Every attempt must end within the lease: once
// it has expired, the host is presumed dead and another host may attempt the event.
const AttemptLease = 15 * time.Second

// RetryDelays are the delays before the second, third and fourth attempt, each measured from the end of the previous
// attempt (contract sections 3 and 8). The first attempt is due at once, and there is no fifth.
var RetryDelays = [...]time.Duration{time.Second, 4 * time.Second, 16 * time.Second}

// ClaimOptions limits a claim.
type ClaimOptions struct {
	MaxEvents     int      // in total
	MaxPerAccount int      // for each account
	Only          []string // if not empty, claim for these accounts only; Except is then ignored
	Except        []string // claim nothing for these accounts
}

// Delivery is one attempt to deliver an event.
type Delivery struct {
	Chain     int    // where the outbox keeps the event
	Ref       string // of the event
	AccountID string
	Event     string // the event's name, such as check.blocked
	Attempt   int    // from 1, counting interrupted attempts
	Sequence  int64  // of the event among the account's events, from 1
	Body      []byte
	URL       string
	Secrets   []string      // the secret that signs, then, after a rotation, the one that will
	Late      time.Duration // how long ago the attempt was due
}

// Outcome is the result of an attempt.
type Outcome struct {
	Chain     int // of the delivery
	Ref       string
	Attempt   int
	EndedAt   time.Time // by this host's clock; the schedule is corrected for the time that has passed since
	Took      time.Duration
	Status    int    // of the HTTP response; 0: there was none
	Error     string // the class of error if there was no response, as a text for the customer
	Delivered bool   // the status was 2xx

	Request        Request
	ResponseHeader string // its first 4 KiB, from the status line on, without secrets
	ResponseBody   []byte // its first KiB, without secrets
}
