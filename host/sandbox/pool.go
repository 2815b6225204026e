package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// pool keeps a bounded number of instances of one plugin. A broken one is closed and replaced in the background.
type pool struct {
	create func(context.Context) (*instance, error)
	failed func(error) // told when a replacement cannot be made
	idle   chan *instance
	slots  chan struct{} // one for every instance that exists or is being made
	work   sync.WaitGroup
	ended  chan struct{}
}

func newPool(size int, create func(context.Context) (*instance, error), failed func(error)) *pool {
	return &pool{create: create, failed: failed, idle: make(chan *instance, size), slots: make(chan struct{}, size),
		ended: make(chan struct{})}
}

func (p *pool) size() int { return cap(p.idle) }

// warm makes n instances at once.
func (p *pool) warm(ctx context.Context, n int) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			p.slots <- struct{}{}
			errs[i] = p.add(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// add makes an instance in a slot that has been taken.
func (p *pool) add(ctx context.Context) error {
	in, err := p.create(ctx)
	if err != nil {
		<-p.slots
		return err
	}
	p.idle <- in
	return nil
}

// acquire returns an instance for one call, waiting for one until the deadline or until ctx ends. When another may be
// made it is made in the background: a guest that is slow to start does not hold up a call beyond its deadline.
func (p *pool) acquire(ctx context.Context, deadline time.Time) (*instance, error) {
	select {
	case in := <-p.idle:
		return in, nil
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	slots, made := p.slots, make(chan error, 1)
	for {
		select {
		case in := <-p.idle:
			return in, nil
		case slots <- struct{}{}:
			slots = nil // one is enough
			p.work.Go(func() { made <- p.add(context.Background()) })
		case err := <-made:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a free instance: %w", ctx.Err())
		}
	}
}

// release gives an instance back.
func (p *pool) release(in *instance) { p.idle <- in }

// discard closes a broken instance and makes another in its place.
func (p *pool) discard(in *instance) {
	p.work.Go(func() {
		in.close()
		select {
		case <-p.ended:
			<-p.slots
			return
		default:
		}
		if err := p.add(context.Background()); err != nil {
			p.failed(err)
		}
	})
}

// close closes all instances. None may be in use.
func (p *pool) close() {
	close(p.ended)
	p.work.Wait()
	for {
		select {
		case in := <-p.idle:
			in.close()
		default:
			return
		}
	}
}
