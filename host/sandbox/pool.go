package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// pool keeps a bounded number of instances of one plugin. It replaces broken instances in the background.
type pool struct {
	create         func(context.Context) (*instance, error)
	onReplaceError func(error)
	idle           chan *instance
	slots          chan struct{} // one element per instance that exists or is being created
	spare          atomic.Int64  // instances that no call has needed since the last trim
	background     sync.WaitGroup
	closed         chan struct{}
}

func newPool(size int, create func(context.Context) (*instance, error), onReplaceError func(error)) *pool {
	return &pool{
		create: create, onReplaceError: onReplaceError, idle: make(chan *instance, size),
		slots: make(chan struct{}, size), closed: make(chan struct{}),
	}
}

func (p *pool) size() int { return cap(p.idle) }

// warm creates n instances concurrently.
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

// add creates an instance for a slot that the caller has taken. On failure it frees the slot.
func (p *pool) add(ctx context.Context) error {
	in, err := p.create(ctx)
	if err != nil {
		<-p.slots
		return err
	}
	p.idle <- in
	return nil
}

// acquire returns an instance for one call. It waits until ctx ends. If the pool may grow, a new instance is created in
// the background, so that a slow initialisation cannot delay the caller beyond its deadline.
//
// Its error is a *refusal.
func (p *pool) acquire(ctx context.Context) (*instance, error) {
	select {
	case in := <-p.idle:
		p.used(len(p.idle))
		return in, nil
	default:
		p.used(0)
	}
	slots, created := p.slots, make(chan error, 1)
	for {
		select {
		case in := <-p.idle:
			return in, nil
		case slots <- struct{}{}:
			slots = nil // create at most one
			p.background.Go(func() { created <- p.add(context.Background()) })
		case err := <-created:
			if err != nil {
				return nil, &refusal{err}
			}
		case <-ctx.Done():
			return nil, &refusal{fmt.Errorf("waiting for a free instance: %w", ctx.Err())}
		}
	}
}

// used records that a call left the given number of instances idle.
func (p *pool) used(left int) {
	for {
		spare := p.spare.Load()
		if int64(left) >= spare || p.spare.CompareAndSwap(spare, int64(left)) {
			return
		}
	}
}

// trim closes the instances that no call has needed since the last trim, except one.
func (p *pool) trim() {
	for range p.spare.Swap(int64(p.size())) {
		if len(p.slots) <= 1 {
			return
		}
		select {
		case in := <-p.idle:
			in.close()
			<-p.slots
		default:
			return
		}
	}
}

// release returns an instance to the pool.
func (p *pool) release(in *instance) { p.idle <- in }

// discard closes an instance that cannot be restored, and creates a replacement.
func (p *pool) discard(in *instance) {
	p.background.Go(func() {
		in.close()
		select {
		case <-p.closed:
			<-p.slots
			return
		default:
		}
		if err := p.add(context.Background()); err != nil {
			p.onReplaceError(err)
		}
	})
}

// close closes all instances. None may be in use.
func (p *pool) close() {
	close(p.closed)
	p.background.Wait()
	for {
		select {
		case in := <-p.idle:
			in.close()
		default:
			return
		}
	}
}
