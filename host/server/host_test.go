package server

import (
	"context"
	"errors"
	"slices"
	"testing"

	"assay/host/web/admin"
)

// fake is a part that notes its calls.
type fake struct {
	name  string
	calls *[]string
}

func (f fake) Close() error {
	*f.calls = append(*f.calls, "close "+f.name)
	return errors.New(f.name)
}

func (f fake) Obstacles() []obstacle {
	return []obstacle{{admin.Problem{Part: f.name}, "wait"}}
}

func (f fake) Problems() []problem { return problemsOf([]string{f.name + " is slow"}, "hurry") }

func TestParts(t *testing.T) {
	t.Parallel()
	var calls []string
	h := &host{}
	h.add(fake{"first", &calls})
	h.add(nil) // turned off
	h.add(struct{}{})
	h.add(fake{"second", &calls})
	if err := h.ready(); err == nil || err.Error() != "first\nsecond" {
		t.Errorf("not ready: %v", err)
	}
	if got, want := h.degraded(), []string{"first is slow", "second is slow"}; !slices.Equal(got, want) {
		t.Errorf("degraded: %q, want %q", got, want)
	}
	if err := h.close(); err == nil || err.Error() != "second\nfirst" {
		t.Errorf("closing: %v", err)
	}
	if want := []string{"close second", "close first"}; !slices.Equal(calls, want) {
		t.Errorf("calls: %q, want %q", calls, want)
	}
}

func TestTogetherWaitsForAll(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var ended bool
	together(ctx, func(context.Context) { cancel() }, func(ctx context.Context) { <-ctx.Done(); ended = true })
	if !ended {
		t.Error("it returned before the last function")
	}
}
