package check

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// MaxBatch is the maximum number of checks in a batch (contract section 8).
const MaxBatch = 100

// Item is one request of a batch. Err is set if the request could not be read.
type Item struct {
	Fields  []Field
	Country string
	Err     error
}

// Answer is the result of one item: either a decision or an error.
type Answer struct {
	Decision *Decision
	Err      error // Item.Err, a NoFieldError, *entity.InvalidError or *PlanError
}

// CheckBatch scores each item as Check would, with one lineup, and returns the answers in the order of the items. It
// records all scored items or none: the quota must cover them all. It returns a *PlanError, ErrUnauthorized,
// *QuotaError, ErrOverloaded or *UnavailableError; any other failure is an *InternalError.
func (c *Checker) CheckBatch(ctx context.Context, caller Caller, items []Item) ([]Answer, error) {
	if !caller.Plan.Batch {
		return nil, &PlanError{Plan: caller.Plan.Name, Feature: "batch checks"}
	}
	lineup := c.Live.Acquire()
	if lineup == nil {
		return nil, &InternalError{Ref: NewRef(), Err: ErrNoLineup}
	}
	defer lineup.Release()
	began := time.Now()
	answers := make([]Answer, len(items))
	records := make([]Record, len(items))
	failed := make([]error, len(items)) // *UnavailableErrors
	// Lookups wait for the network, so all of them run concurrently. Layers compute within time budgets, so only as
	// many run concurrently as there are processors.
	var all sync.WaitGroup
	processors := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, item := range items {
		p, err := parseItem(caller, item)
		if err != nil {
			answers[i].Err = err
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, c.Deadline)
			defer cancel()
			lookedUp, unanswered, err := c.collect(ctx, lineup.Lineup, p.scored)
			if err != nil {
				failed[i] = err
				return
			}
			processors <- struct{}{}
			defer func() { <-processors }()
			d, err := c.decide(ctx, lineup.Lineup, p, lookedUp, unanswered)
			if err != nil {
				failed[i] = err
				return
			}
			answers[i].Decision = d
			records[i] = p.record(caller, lookedUp, d)
		})
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	scored := slices.DeleteFunc(records, func(r Record) bool { return r.Decision == nil })
	if len(scored) == 0 {
		return answers, nil
	}
	if err := c.record(ctx, scored...); err != nil {
		return nil, err
	}
	for _, r := range scored {
		c.Observer.CheckDone(r.Decision, time.Since(began))
	}
	return answers, nil
}

func parseItem(caller Caller, item Item) (parsed, error) {
	if item.Err != nil {
		return parsed{}, item.Err
	}
	return parseCovered(Request{Caller: caller, Fields: item.Fields, Country: item.Country})
}
