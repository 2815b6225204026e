package check

import (
	"context"
	"runtime"
	"sync"
	"time"

	"assay/host/entity"
)

// MaxBatch is how many checks one batch may ask for (spec section 8).
const MaxBatch = 100

// Item is one request of a batch, or why it could not be read.
type Item struct {
	Fields  []Field
	Country string
	Err     error
}

// Answer is what became of one item: a decision or an error of its own.
type Answer struct {
	Decision *Decision
	Err      error // the item's own, else those of parsing and *PlanError
}

// CheckBatch scores the items together, each as Check would, by one lineup, and records them all or none: the quota
// must cover every item that can be scored. The answers come in the items' order. Errors: *PlanError, ErrUnauthorized,
// *QuotaError, ErrOverloaded, else *Failure.
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
	// Lookups wait for others and go side by side. Layers compute: more of them at once than processors would only take
	// each other's time, and their budgets are counted in it.
	var all sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, item := range items {
		scored, also, query, err := parseItem(caller, item)
		if err != nil {
			answers[i].Err = err
			continue
		}
		all.Go(func() {
			observed, silent := c.collect(ctx, lineup.Lineup, scored)
			turns <- struct{}{}
			d := c.decide(ctx, lineup.Lineup, scored, query, observed, silent)
			<-turns
			answers[i].Decision = d
			records[i] = Record{Caller: caller, Entity: scored, Linked: also, LookedUp: observed, Decision: d}
		})
	}
	all.Wait()
	var scored []Record
	for _, r := range records {
		if r.Decision != nil {
			scored = append(scored, r)
		}
	}
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

func parseItem(caller Caller, item Item) (scored entity.Entity, also []entity.Entity, query string, err error) {
	if item.Err != nil {
		return scored, nil, "", item.Err
	}
	scored, also, query, err = parse(Request{Fields: item.Fields, Country: item.Country})
	if err == nil && !caller.Plan.Covers(scored.Type) {
		err = &PlanError{Plan: caller.Plan.Name, Type: scored.Type}
	}
	return scored, also, query, err
}
