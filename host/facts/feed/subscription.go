package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"assay/host/internal/maintenance"
)

// Subscription is a list that hosts fetch regularly.
type Subscription struct {
	Name     string `json:"name"` // of the list
	URL      string `json:"-"`    // may contain an access key
	Source   string `json:"source"`
	Kind     Kind   `json:"kind"`
	Category string `json:"category,omitempty"`
	Format   Format `json:"format"`
	Column   string `json:"column,omitempty"`
	Country  string `json:"country,omitempty"`
	Licence  string `json:"licence,omitempty"`

	Every        time.Duration `json:"-"`
	FreshFor     time.Duration `json:"-"` // how long the content is fresh after the publisher confirmed it
	ExpiresAfter time.Duration `json:"-"` // how long the content applies after that

	NextFetchAt  time.Time  `json:"next_fetch_at"`
	ConfirmedAt  *time.Time `json:"confirmed_at"` // when the content was last fetched or found unchanged
	FailingSince *time.Time `json:"failing_since"`
	Failures     int        `json:"failures"`
	Error        string     `json:"error,omitempty"` // of the last fetch
	Held         *int       `json:"held_entries"`    // size of the version that is held back
	Entries      int        `json:"entries"`
	FreshUntil   *time.Time `json:"fresh_until"`
	ExpiresAt    *time.Time `json:"expires_at"`
}

// State is the state of a subscription.
type State string

// The states, from the best to the worst.
const (
	Waiting State = "waiting" // not fetched yet
	Current State = "current"
	Failing State = "failing" // the last fetch failed; the content is still fresh, or was never fetched
	Held    State = "held"    // a version of an unusual size is held back
	Stale   State = "stale"   // not confirmed for so long that the content is out of date
	Expired State = "expired" // the content no longer applies
)

// State returns the state at the given time.
func (s Subscription) State(at time.Time) State {
	switch {
	case s.ConfirmedAt == nil && s.Failures == 0:
		return Waiting
	case s.ConfirmedAt == nil:
		return Failing
	case s.ExpiresAt != nil && !s.ExpiresAt.After(at):
		return Expired
	case s.FreshUntil != nil && !s.FreshUntil.After(at):
		return Stale
	case s.Held != nil:
		return Held
	case s.Failures > 0:
		return Failing
	}
	return Current
}

// problem describes a problem for the operator, or returns "".
func (s Subscription) problem(at time.Time) string {
	switch state := s.State(at); {
	case s.Held != nil:
		return fmt.Sprintf("list %s: a version with %d instead of %d entries is held back", s.Name, *s.Held, s.Entries)
	case state == Stale || state == Expired || s.ConfirmedAt == nil && state == Failing:
		return fmt.Sprintf("list %s is %s: %s", s.Name, state, cmp.Or(s.Error, "it was not fetched in time"))
	}
	return ""
}

// Claim is the exclusive right of one process to fetch a subscription until a time.
type Claim struct {
	Subscription
	Known Validators
	Until time.Time
}

// HeldError means that a version was held back because of its size.
type HeldError struct{ Entries, Before int }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the new version has %d instead of %d entries and is held back", e.Entries, e.Before)
}

// Limits on the size of a new version, relative to the previous one.
const (
	maxShrink  = 2   // times smaller
	maxGrowth  = 3   // times larger
	smallDelta = 100 // entries by which any list may change
)

// CheckSize returns a *HeldError if the size of a new version is unusual. accepted is a size that an operator accepted,
// or 0.
func CheckSize(entries, before, accepted int) error {
	for _, size := range []int{before, accepted} {
		if size > 0 && (max(entries-size, size-entries) <= smallDelta ||
			entries*maxShrink >= size && entries <= size*maxGrowth) {
			return nil
		}
	}
	if before == 0 {
		return nil
	}
	return &HeldError{entries, before}
}

// Subscriptions stores subscriptions and their lists.
type Subscriptions interface {
	// Subscriptions returns all subscriptions by name.
	Subscriptions(ctx context.Context) ([]Subscription, error)
	// ClaimSubscription claims the named subscription, or the next due one if name is empty. It returns nil if there is
	// none, or another process has claimed it.
	ClaimSubscription(ctx context.Context, name string, lease time.Duration) (*Claim, error)
	// ImportSubscribed replaces the list by a new version and ends the claim. It fails with a *HeldError if CheckSize
	// does.
	ImportSubscribed(ctx context.Context, c *Claim, format Format, version Validators,
		next func() ([]Entry, error)) (Change, error)
	// ConfirmSubscribed records that the stored version is still current, and ends the claim.
	ConfirmSubscribed(ctx context.Context, c *Claim) error
	// FailSubscribed records why no new version was imported, and ends the claim. held is the size of a version that is
	// held back, which does not count as a failure of the publisher, or 0.
	FailSubscribed(ctx context.Context, c *Claim, reason string, held int, retry time.Duration) error
	// ReleaseSubscription ends the claim. The subscription stays due.
	ReleaseSubscription(ctx context.Context, c *Claim) error
}

// ErrClaimLost means that a claim ended before its result was stored: it expired, or the subscription was changed.
// Nothing was stored.
var ErrClaimLost = errors.New("another process has taken over the subscription, or it was changed")

// Times of a subscriber.
const (
	ClaimLease   = 15 * time.Minute // of one fetch, which is stopped earlier
	claimMargin  = time.Minute
	pollInterval = 30 * time.Second
	firstRetry   = 5 * time.Minute // doubled after each failure, up to the interval of the subscription
	storeTimeout = 10 * time.Second

	subscribedBytes = 512 << 20 // of an uncompressed list
)

// Subscriber fetches the subscriptions that are due. Each is fetched by one process at a time.
type Subscriber struct {
	Store    Subscriptions
	Version  string   // becomes part of the User-Agent
	DNS      []string // see Request
	Logger   *slog.Logger
	Now      func() time.Time
	Fetched  func(list, outcome string) // called after each fetch; may be nil
	Observed func(lists []Subscription) // called with the state of all subscriptions; may be nil
	problems atomic.Pointer[[]string]
}

// Result describes the changes of a fetch.
type Result struct {
	Change
	Report    Report
	Unchanged bool // the stored version is still current
}

// Run fetches until ctx ends.
func (s *Subscriber) Run(ctx context.Context) {
	for {
		for s.fetchNext(ctx) {
		}
		if err := s.observe(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("reading subscriptions failed", "error", err)
		}
		if !maintenance.Pause(ctx, pollInterval) {
			return
		}
	}
}

// fetchNext fetches the next subscription that is due. It reports whether there was one.
func (s *Subscriber) fetchNext(ctx context.Context) bool {
	c, err := s.Store.ClaimSubscription(ctx, "", ClaimLease)
	if err != nil || c == nil {
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("looking for due lists failed", "error", err)
		}
		return false
	}
	result, err := s.Fetch(ctx, c)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.Logger.Warn("fetching a subscribed list failed", "list", c.Name, "error", err)
	case !result.Unchanged:
		s.Logger.Info("list updated", "list", c.Name, "entries", result.Entries, "added", result.Added,
			"removed", result.Removed)
	}
	return ctx.Err() == nil
}

// observe reads the state of all subscriptions, which other hosts may have changed.
func (s *Subscriber) observe(ctx context.Context) error {
	lists, err := s.Store.Subscriptions(ctx)
	if err != nil {
		return err
	}
	problems := []string{}
	for _, l := range lists {
		if p := l.problem(s.Now()); p != "" {
			problems = append(problems, p)
		}
	}
	s.problems.Store(&problems)
	if s.Observed != nil {
		s.Observed(lists)
	}
	return nil
}

// Degraded lists the problems of subscriptions, one sentence for each.
func (s *Subscriber) Degraded() []string {
	if p := s.problems.Load(); p != nil {
		return *p
	}
	return nil
}

// Fetch fetches a claimed subscription once and stores the outcome.
func (s *Subscriber) Fetch(ctx context.Context, c *Claim) (Result, error) {
	working, cancel := context.WithTimeout(ctx, time.Until(c.Until)-claimMargin)
	result, err := s.fetch(working, c)
	cancel()
	outcome := "updated"
	var held *HeldError
	switch {
	case err == nil && result.Unchanged:
		outcome = "unchanged"
	case errors.As(err, &held):
		outcome = "held"
	case err != nil:
		outcome = "failed"
	}
	if err != nil {
		// ctx may have ended because the host is stopping; the next host should not have to wait for the lease to end.
		storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		if ctx.Err() != nil {
			return result, errors.Join(err, s.Store.ReleaseSubscription(storing, c))
		}
		size, retry := 0, retryDelay(c, err)
		if held != nil {
			size, retry = held.Entries, c.Every
		}
		if !errors.Is(err, ErrClaimLost) {
			err = errors.Join(err, s.Store.FailSubscribed(storing, c, err.Error(), size, retry))
		}
	}
	if s.Fetched != nil {
		s.Fetched(c.Name, outcome)
	}
	return result, err
}

// retryDelay returns when to try again after a failure.
func retryDelay(c *Claim, err error) time.Duration {
	delay := min(c.Every, firstRetry<<min(c.Failures, 16))
	if wait, ok := errors.AsType[*RetryError](err); ok {
		delay = max(delay, wait.After)
	}
	return delay
}

func (s *Subscriber) fetch(ctx context.Context, c *Claim) (r Result, err error) {
	source, err := Fetch(ctx, Request{URL: c.URL, Known: c.Known, Version: s.Version, DNS: s.DNS})
	if errors.Is(err, ErrNotModified) {
		return Result{Unchanged: true}, s.Store.ConfirmSubscribed(ctx, c)
	}
	if err != nil {
		return r, err
	}
	defer source.Close()
	// One worker, because the host is answering checks at the same time.
	list, err := Open(ctx, source, Options{Format: c.Format, Column: c.Column, Country: c.Country,
		Ranked: c.Kind == Ranked, MaxBytes: subscribedBytes, Workers: 1})
	if err != nil {
		return r, err
	}
	defer list.Close()
	r.Change, err = s.Store.ImportSubscribed(ctx, c, list.Report().Format, source.Validators, func() ([]Entry, error) {
		entries, err := list.Next()
		if errors.Is(err, io.EOF) {
			if misread := list.Report().Misread(); misread != nil {
				return nil, misread
			}
		}
		return entries, err
	})
	r.Report = list.Report()
	return r, err
}
