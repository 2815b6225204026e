package sandbox

import (
	"errors"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
)

// deepGo is a layer built by Go that calls itself as often as it is told.
func deepGo(t *testing.T) *Plugin {
	t.Helper()
	wasm, err := registry.CompileGo(t.Context(), filepath.Join("testdata", "deep"))
	if err != nil {
		t.Fatal(err)
	}
	m := unpacked(t, wasm)
	m.Manifest.BudgetMS = 10_000 // a busy machine
	return openIn(t, sandboxOf(t, 1), m)
}

func (p *Plugin) down(t *testing.T, n int) (check.Result, error) {
	t.Helper()
	return p.Score(t.Context(), check.Input{Entity: entity.Facts{"domain.ascii": strconv.Itoa(n)}})
}

// TestDeepCalls has a layer built by Go go as deep as sdk/ABI.md section 5 lets it rely on, and deeper.
func TestDeepCalls(t *testing.T) {
	t.Parallel()
	p := deepGo(t)
	for range 2 {
		for _, n := range []int{10, 20_000} {
			if result, err := p.down(t, n); err != nil || result.Score != 10 {
				t.Fatalf("%d deep: %+v, %v", n, result, err)
			}
		}
		if lost := lossOf(t, errOf(p.down(t, 100_000))); lost.Reason != check.Trap || !errors.Is(lost, errStackTooDeep) {
			t.Errorf("too deep: %v", lost)
		}
	}
}

// TestGrownStack gives instances the stacks that a call may leave behind: a large one does not stay, and one that is
// too large betrays a call that was back before anybody looked.
func TestGrownStack(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), pack(t, scores(7).encode(), manifest()))
	in := <-p.pool.idle
	defer p.pool.release(in)
	for size, want := range map[int]error{maxIdleStack: nil, maxIdleStack + 1: nil, maxStack: nil, maxStack + 1: errStackTooDeep} {
		in.stack = guestStack{reflect.ValueOf(make([]byte, size))}
		c := &call{plugin: p}
		c.fuel.deadline = time.Now().Add(patience)
		if _, err := in.score(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
		if kept := in.stack.bytes(); want == nil && kept > maxIdleStack {
			t.Errorf("%d bytes: %d are kept", size, kept)
		}
	}
}

func errOf(_ check.Result, err error) error { return err }
