package reputation

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// batcher combines concurrent queries: while one batch runs, new queries wait, and the next batch takes all of them. An
// idle batcher runs a query at once; a busy one sends as few batches as possible.
type batcher[Q, R any] struct {
	run      func(ctx context.Context, queries []Q) ([]R, error) // returns one result per query, in order
	maxBatch int                                                 // queries in one batch

	mu      sync.Mutex
	waiting []*pending[Q, R]
	running bool
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
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	if !b.running {
		b.running = true
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

// drain runs batches until no query is waiting.
func (b *batcher[Q, R]) drain() {
	for batch := b.take(); batch != nil; batch = b.take() {
		if len(batch) > 0 {
			b.complete(batch)
		}
	}
}

// take removes the next batch from the queue, without the queries whose caller has left. It returns nil when the queue
// is empty, and then drain must end.
func (b *batcher[Q, R]) take() []*pending[Q, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.running = false
		return nil
	}
	n := min(len(b.waiting), b.maxBatch)
	batch := b.waiting[:n:n]
	b.waiting = append([]*pending[Q, R](nil), b.waiting[n:]...)
	return slices.DeleteFunc(batch, func(p *pending[Q, R]) bool { return p.ctx.Err() != nil })
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

// runBatch runs one batch under its own deadline, because those of the callers differ.
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
