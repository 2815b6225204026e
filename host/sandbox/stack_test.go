package sandbox

import (
	"errors"
	"reflect"
	"strconv"
	"testing"

	"assay/host/check"
	"assay/host/entity"
)

// A layer built by Go can recurse as deeply as sdk/ABI.md section 5 guarantees, and fails if it recurses much deeper.
func TestRecursionDepth(t *testing.T) {
	t.Parallel()
	m := buildGo(t, "deep")
	m.Manifest.BudgetFuel = 1 << 40 // copying a Go stack as it grows burns more than a manifest allows
	p := openIn(t, sandboxOf(t, 1), m)
	p.bounds.time = patience
	recurse := func(depth int) (check.Result, error) {
		return p.Score(t.Context(), check.Input{Entity: entity.Facts{"domain.ascii": strconv.Itoa(depth)}})
	}
	for range 2 {
		for _, depth := range []int{10, recursionDepth} {
			if result, err := recurse(depth); err != nil || result.Score != 10 {
				t.Fatalf("depth %d: %+v, %v", depth, result, err)
			}
		}
		_, err := recurse(5 * recursionDepth)
		if failure := failureOf(t, err); failure.Reason != check.Trap || !errors.Is(failure, errStackTooDeep) {
			t.Errorf("too deep: %v", failure)
		}
	}
}

// An instance does not keep a large stack, and a stack over the limit fails the call even if the guest has returned.
func TestStackLimits(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
	in := <-p.pool.idle
	defer p.pool.release(in)
	for size, want := range map[int]error{
		maxIdleStack: nil, maxIdleStack + 1: nil, maxStack: nil, maxStack + 1: errStackTooDeep,
	} {
		in.stack = guestStack{reflect.ValueOf(make([]byte, size))}
		c := &call{plugin: p, fuel: fuelTank{bounds: p.bounds, clock: p.threadTime}}
		if _, err := in.score(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
		if kept := in.stack.bytes(); want == nil && kept > maxIdleStack {
			t.Errorf("%d bytes: %d are kept", size, kept)
		}
	}
}

// An instance whose guest has recursed deeply and returned does not keep the grown stack.
func TestIdleInstanceReleasesStack(t *testing.T) {
	t.Parallel()
	start, f := deep(fnScore+1, recursionDepth)
	m := hostileGuest{wasm: scoring(start, returnScored).with(f).encode}.module()
	p := openIn(t, sandboxOf(t, 1), m)
	before := <-p.pool.idle
	p.pool.idle <- before
	if _, err := p.Score(t.Context(), facts(testEntity, "")); err != nil {
		t.Fatal(err)
	}
	after := <-p.pool.idle
	p.pool.idle <- after
	if kept := after.stack.bytes(); after != before || kept > maxIdleStack {
		t.Errorf("same instance: %v; its stack has %d bytes", after == before, kept)
	}
}
