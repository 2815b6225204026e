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
	replacing      atomic.Int64  // instances that the guest made unusable, until their replacements are ready
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

// acquire returns an instance for one call. It waits until the end of ctx. If the pool may grow, a new instance is
// created in the background, so that a slow initialisation cannot delay the caller beyond its deadline.
//
// Its error is a *refusal. A wait until the deadline is the plugin's fault if an instance is being replaced because the
// guest trapped or cannot be restored. Otherwise all instances are busy with other calls, which is load.
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
				return nil, &refusal{err: err, fault: errors.Is(err, errTimeLimit)}
			}
		case <-ctx.Done():
			err := ctx.Err()
			return nil, &refusal{err: fmt.Errorf("waiting for a free instance: %w", err),
				fault: errors.Is(err, context.DeadlineExceeded) && p.replacing.Load() > 0}
		}
	}
}

// used notes that a call left the given number of instances idle.
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

// discard closes a broken instance and creates a replacement. fault reports whether the plugin broke it: a call that
// was trapped at its deadline is load.
func (p *pool) discard(in *instance, fault bool) {
	faults := int64(0)
	if fault {
		faults = 1
	}
	p.replacing.Add(faults)
	p.background.Go(func() {
		defer p.replacing.Add(-faults)
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
