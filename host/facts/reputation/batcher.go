package reputation

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"assay/host/access/admission"
)

// batcher combines concurrent queries into batches, and runs up to two at once. Only one of them has queries of the
// same holder; later queries of that holder wait for the next batch. Holders take turns, so that slow queries of one
// hardly delay the others. An idle batcher runs a query at once; a busy one sends as few batches as possible.
type batcher[Q, R any] struct {
	run      func(ctx context.Context, queries []Q) ([]R, error) // returns one result per query, in order
	maxBatch int                                                 // queries in one batch

	mu      sync.Mutex
	waiting map[string][]*pending[Q, R] // by holder; a holder in a running batch has an entry, perhaps empty
	turns   []string                    // waiting holders that are not in a running batch
	running int                         // batches
}

// pending is a query whose result is not known yet.
type pending[Q, R any] struct {
	ctx    context.Context
	query  Q
	result R
	err    error
	done   chan struct{}
}

// get returns the result of one query. It fails when ctx ends first.
func (b *batcher[Q, R]) get(ctx context.Context, query Q) (R, error) {
	p := &pending[Q, R]{ctx: ctx, query: query, done: make(chan struct{})}
	holder := admission.Holder(ctx)
	b.mu.Lock()
	if b.waiting == nil {
		b.waiting = map[string][]*pending[Q, R]{}
	}
	queue, known := b.waiting[holder]
	b.waiting[holder] = append(queue, p)
	if !known {
		b.turns = append(b.turns, holder)
	}
	if !known && b.running < 2 {
		b.running++
		go b.drain()
	}
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		var zero R
		return zero, ctx.Err()
	}
}

// drain runs batches until no holder is waiting for a turn.
func (b *batcher[Q, R]) drain() {
	for batch, holders := b.take(nil); holders != nil; batch, holders = b.take(holders) {
		if len(batch) > 0 {
			b.complete(batch)
		}
	}
}

// take removes the next batch from the queues, and drops queries whose caller has left. served are the holders of the
// previous batch. If no holder is waiting for a turn, take returns none, and drain must end.
func (b *batcher[Q, R]) take(served []string) (batch []*pending[Q, R], holders []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, holder := range served {
		if len(b.waiting[holder]) > 0 {
			b.turns = append(b.turns, holder)
		} else {
			delete(b.waiting, holder)
		}
	}
	share := b.maxBatch
	if b.running > 1 || len(b.turns) > 1 { // other holders are waiting, or may be soon
		share = max(1, share/8)
	}
	for len(b.turns) > 0 && len(batch) < b.maxBatch {
		holder := b.turns[0]
		queue := b.waiting[holder]
		n := min(len(queue), share, b.maxBatch-len(batch))
		batch, b.waiting[holder] = append(batch, queue[:n]...), queue[n:]
		holders, b.turns = append(holders, holder), b.turns[1:]
	}
	if holders == nil {
		b.running--
	}
	return slices.DeleteFunc(batch, func(p *pending[Q, R]) bool { return p.ctx.Err() != nil }), holders
}

func (b *batcher[Q, R]) complete(batch []*pending[Q, R]) {
	queries := make([]Q, len(batch))
	for i, p := range batch {
		queries[i] = p.query
	}
	results, err := b.runBatch(queries)
	for i, p := range batch {
		if p.err = err; err == nil {
			p.result = results[i]
		}
		close(p.done)
	}
}

// runBatch runs one batch under its own deadline, because the callers' deadlines differ.
func (b *batcher[Q, R]) runBatch(queries []Q) (results []R, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil { // this goroutine belongs to no request, so no caller could recover
			err = fmt.Errorf("running batch: panic: %v", r)
		}
	}()
	results, err = b.run(ctx, queries)
	if err == nil && len(results) != len(queries) {
		err = fmt.Errorf("running batch: %d results for %d queries", len(results), len(queries))
	}
	return results, err
}
