package check

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"assay/host/access/admission"
)

// MaxBatch is the maximum number of checks in a batch (contract section 8).
const MaxBatch = 100

// Item is one request of a batch. Err is set if the request could not be read.
type Item struct {
	Fields  []Field
	Country string
	Err     error

	Warnings []Warning
}

// Answer is the result of one item: either a decision or an error.
type Answer struct {
	Decision *Decision
	Err      error // Item.Err, a NoFieldError, *entity.InvalidError or *PlanError
}

// CheckBatch scores each item as Check would, with one lineup, and returns the answers in the order of the items. It
// records all scored items or none, so the quota must cover them all. once may be nil. It returns a *PlanError,
// ErrUnauthorized, ErrAnswered, *QuotaError, admission.ErrBusy, admission.ErrShare or *UnavailableError; any other
// failure is an *InternalError.
func (c *Checker) CheckBatch(ctx context.Context, caller Caller, items []Item, once *Once) ([]Answer, error) {
	if !caller.Plan.Batch {
		return nil, &PlanError{Plan: caller.Plan.Name, Feature: "batch checks"}
	}
	answers := make([]Answer, len(items))
	requests := make([]parsed, len(items))
	valid := 0
	for i, item := range items {
		if requests[i], answers[i].Err = parseItem(caller, item); answers[i].Err == nil {
			valid++
		}
	}
	if valid == 0 {
		return answers, nil
	}
	if caller.Limits.Test {
		return answerTests(caller, requests, answers, c.Now())
	}
	if err := c.spent.refusal(caller, valid, c.Now()); err != nil {
		return nil, err
	}
	began := time.Now()
	records, err := c.recorded(ctx, caller, valid, func(l *Lineup, visit *admission.Visit) ([]Record, error) {
		for i := range requests {
			if answers[i].Err != nil {
				continue
			}
			var err error
			if requests[i].override, err = c.override(requests[i]); err != nil {
				return nil, err
			}
		}
		records, err := c.scoreAll(ctx, l, visit, caller, requests, answers)
		if err == nil {
			once.keep(answers, records)
		}
		return records, err
	})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		c.Observer.CheckDone(r.Decision, time.Since(began))
	}
	return answers, nil
}

// scoreAll scores the requests whose answers have no error, sets their decisions and returns their records. It stops at
// the first check that cannot be scored.
func (c *Checker) scoreAll(ctx context.Context, l *Lineup, visit *admission.Visit, caller Caller, requests []parsed,
	answers []Answer) ([]Record, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.BatchDeadline, c.Deadline))
	defer cancel()
	records := make([]Record, len(requests))
	var failed error
	var once sync.Once
	// Lookups wait for the network, so all of them run concurrently. The gate limits how many checks are judged
	// concurrently.
	var all sync.WaitGroup
	for i, p := range requests {
		if answers[i].Err != nil {
			continue
		}
		all.Go(func() {
			collecting, done := context.WithTimeout(ctx, c.Deadline) // of one check
			lookedUp, unanswered, err := c.collect(collecting, l, p)
			done()
			if err == nil {
				answers[i].Decision, err = c.judge(ctx, l, visit, p, lookedUp, unanswered)
			}
			if err != nil {
				once.Do(func() { failed = err; cancel() })
				return
			}
			records[i] = p.record(caller, lookedUp, answers[i].Decision)
		})
	}
	all.Wait()
	if failed != nil {
		return nil, failed
	}
	return slices.DeleteFunc(records, func(r Record) bool { return r.Decision == nil }), nil
}

func parseItem(caller Caller, item Item) (parsed, error) {
	if item.Err != nil {
		return parsed{}, item.Err
	}
	return parseCovered(Request{Caller: caller, Fields: item.Fields, Country: item.Country, Warnings: item.Warnings})
}
