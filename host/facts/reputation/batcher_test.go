package reputation

import (
	"context"
	"testing"

	"assay/registry/expect"
)

// While a batch runs, further queries wait for the next one, and each caller gets its own result.
func TestBatcher(t *testing.T) {
	t.Parallel()
	entered, release := make(chan int), make(chan struct{})
	b := &batcher[int, int]{maxBatch: 4, run: func(_ context.Context, queries []int) ([]int, error) {
		entered <- len(queries)
		<-release
		squares := make([]int, len(queries))
		for i, q := range queries {
			squares[i] = q * q
		}
		return squares, nil
	}}
	type result struct{ query, square int }
	results := make(chan result, 10)
	get := func(ctx context.Context, q int) {
		if square, err := b.get(ctx, q); err == nil {
			results <- result{q, square}
		}
	}
	go get(t.Context(), 1)
	expect.Equal(t, "the first batch", <-entered, 1)
	gone, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { get(gone, 99); close(left) }()
	waiting := func(n int) {
		expect.Until(t, "queries to wait", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.waiting) == n
		})
	}
	waiting(1)
	cancel()
	<-left // its query must be dropped
	for q := 2; q <= 6; q++ {
		go get(t.Context(), q)
	}
	waiting(6)
	release <- struct{}{}
	expect.Equal(t, "the second batch", <-entered, 3)
	release <- struct{}{}
	expect.Equal(t, "the third batch", <-entered, 2)
	release <- struct{}{}
	for range 6 {
		r := <-results
		expect.That(t, r.square == r.query*r.query, "the result of query %d is %d", r.query, r.square)
	}
}

// A batch that fails or panics fails all its queries, but not later ones.
func TestBatcherFails(t *testing.T) {
	t.Parallel()
	fail := true
	b := &batcher[int, int]{maxBatch: 4, run: func(_ context.Context, queries []int) ([]int, error) {
		if fail {
			panic("no")
		}
		return queries, nil
	}}
	expect.Failure(t, expect.ErrorOf(b.get(t.Context(), 1)), "a panicking batch succeeded")
	fail = false
	expect.Equal(t, "after a panic", expect.Value(b.get(t.Context(), 7))(t), 7)
	b.run = func(context.Context, []int) ([]int, error) { return nil, nil }
	expect.Failure(t, expect.ErrorOf(b.get(t.Context(), 1)), "a batch without results succeeded")
}
