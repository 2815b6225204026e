package reputation

import (
	"context"
	"fmt"
	"sync"
)

// coalescer answers many callers with few queries: while one query runs, what comes in waits, and the next query is for
// all of it. So an idle coalescer adds no waiting, and a busy one asks as seldom as the database can answer.
type coalescer[Q, A any] struct {
	ask  func(ctx context.Context, questions []Q) ([]A, error) // one answer a question, in order
	most int                                                   // questions in one query

	mu      sync.Mutex
	waiting []*waiter[Q, A]
	running bool
}

type waiter[Q, A any] struct {
	ctx      context.Context
	question Q
	answer   A
	err      error
	done     chan struct{}
}

// get returns the answer to one question, or an error when ctx ends first.
func (c *coalescer[Q, A]) get(ctx context.Context, question Q) (A, error) {
	w := &waiter[Q, A]{ctx: ctx, question: question, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	if !c.running {
		c.running = true
		go c.run()
	}
	c.mu.Unlock()
	select {
	case <-w.done:
		return w.answer, w.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// run asks until nobody waits any more.
func (c *coalescer[Q, A]) run() {
	for {
		batch := c.take()
		if batch == nil {
			return
		}
		if len(batch) > 0 {
			c.answer(batch)
		}
	}
}

// take returns those who wait and have not gone; nil ends the run.
func (c *coalescer[Q, A]) take() []*waiter[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.running = false
		return nil
	}
	n := min(len(c.waiting), c.most)
	batch := make([]*waiter[Q, A], 0, n)
	for _, w := range c.waiting[:n] {
		if w.ctx.Err() == nil {
			batch = append(batch, w)
		}
	}
	c.waiting = append([]*waiter[Q, A]{}, c.waiting[n:]...)
	return batch
}

func (c *coalescer[Q, A]) answer(batch []*waiter[Q, A]) {
	questions := make([]Q, len(batch))
	for i, w := range batch {
		questions[i] = w.question
	}
	answers, err := c.query(questions)
	for i, w := range batch {
		if w.err = err; err == nil {
			w.answer = answers[i]
		}
		close(w.done)
	}
}

// query asks once. The callers' own deadlines differ, so that of the query is its own.
func (c *coalescer[Q, A]) query(questions []Q) (answers []A, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil { // it runs in nobody's goroutine, so nobody else could
			err = fmt.Errorf("asking for many: panic: %v", r)
		}
	}()
	answers, err = c.ask(ctx, questions)
	if err == nil && len(answers) != len(questions) {
		err = fmt.Errorf("asking for many: %d answers to %d questions", len(answers), len(questions))
	}
	return answers, err
}
