package sandbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"assay/registry/expect"
)

// TestCallsDoNotLeakState calls guests that keep state, each time with another entity. No call finds the state of an
// earlier one, unless the plugin is opened with OpenShared.
func TestCallsDoNotLeakState(t *testing.T) {
	t.Parallel()
	type testCase struct {
		wasm  func() []byte
		score int
		calls int
		never bool // not even a shared instance has this state
	}
	expect.Each(t, map[string]testCase{
		"memory":             {wasm: leakPrevious, score: 0, calls: 2000},
		"memory and global":  {wasm: countCalls, score: 2, calls: 2000},
		"size of the memory": {wasm: growEachCall, score: 1, calls: 500},
		"file descriptors":   {wasm: closeOutput, score: 1, calls: 50, never: true},
	}, func(t *testing.T, c testCase) {
		box := sandboxOf(t, 1)
		m := hostileGuest{wasm: c.wasm}.module()
		p := openIn(t, box, m)
		for i := range c.calls {
			result, err := scoreOf(p, fmt.Sprintf("canary-%d.example", i))
			expect.Must(t, err == nil && result.Score == c.score, "call %d: %+v, %v, want %d points", i, result,
				err, c.score)
		}
		shared := expect.Value(box.OpenShared(t.Context(), m))(t)
		defer closePlugin(t, shared)
		for i := range 2 {
			result, err := scoreOf(shared, testEntity)
			expect.That(t, err == nil && (result.Score == c.score) == (i == 0 || c.never),
				"shared, call %d: %+v, %v", i, result, err)
		}
	})
}

// starts counts the instances that p starts from now on.
func starts(p *Plugin) *atomic.Int64 {
	var n atomic.Int64
	create := p.pool.create
	p.pool.create = func(ctx context.Context) (*instance, error) {
		n.Add(1)
		return create(ctx)
	}
	return &n
}

// A layer that grows its memory in each call, and that takes long to initialise, costs the host no initialisation after
// its start. Its own calls find the memory as it was.
func TestGrowingLayerIsNotInitialisedAgain(t *testing.T) {
	t.Parallel()
	g := newGuest()
	g.initialising(repeat(1_000_000, i32Const(1), opDrop))
	g.scoring(opMemorySize, g.text(codeOne), g.text("Pages"), callFunc(fnSignal), i32Const(8), opMemoryGrow, opDrop,
		i32Const(9<<16-4), i32Const(1), opStore, returnScored)
	p := openIn(t, sandboxOf(t, 1), pack(t, g.encode(), manifest()))
	started := starts(p)
	for i := range 1000 {
		result, err := scoreOf(p, testEntity)
		expect.Must(t, err == nil && result.Score == 1, "call %d: %+v, %v, want a memory of one page", i, result, err)
	}
	expect.Equal(t, "instances were started for 1000 calls", started.Load(), 0)
}
