package admission

import (
	"context"
	"sync"
)

// Shares are slots for requests. A holder may take a slot only while it holds fewer than are free: a single holder
// takes up to half of the slots, and each further one up to half of what the others leave, but at least one.
type Shares struct {
	mu   sync.Mutex
	free int
	held map[string]int
}

// NewShares returns n free slots.
func NewShares(n int) *Shares { return &Shares{free: n, held: map[string]int{}} }

// Take takes a slot until release is called. It returns ErrBusy if all are taken, and ErrShare if the holder has used
// up its share.
func (s *Shares) Take(holder string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch held := s.held[holder]; {
	case held >= s.free && held > 0:
		return nil, ErrShare
	case s.free == 0:
		return nil, ErrBusy
	}
	s.free--
	s.held[holder]++
	return func() { s.release(holder) }, nil
}

func (s *Shares) release(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[holder]--; s.held[holder] == 0 {
		delete(s.held, holder)
	}
}

// holderKey is the key of a holder in a context.
type holderKey struct{}

// WithHolder returns a context for work that takes slots of a holder.
func WithHolder(ctx context.Context, holder string) context.Context {
	return context.WithValue(ctx, holderKey{}, holder)
}

// Holder returns the holder whose slots the context's work takes, or "".
func Holder(ctx context.Context) string {
	holder, _ := ctx.Value(holderKey{}).(string)
	return holder
}
