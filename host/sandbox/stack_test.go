package sandbox

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

// An instance does not keep a stack that has grown, and a stack over the limit fails the call even if the guest has
// returned.
func TestStackLimits(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
	in := <-p.pool.idle
	defer p.pool.release(in)
	for size, want := range map[int]error{in.stackBytes + 1: nil, maxStack: nil, maxStack + 1: errStackTooDeep} {
		in.stack = guestStack{reflect.ValueOf(make([]byte, size))}
		c := &call{plugin: p, fuel: fuelTank{bounds: p.bounds, clocks: p.clocks}}
		_, err := in.score(t.Context(), c)
		expect.That(t, errors.Is(err, want), "%d bytes: %v, want %v", size, err, want)
		kept := in.stack.bytes()
		expect.That(t, want != nil || kept == in.stackBytes, "%d bytes: %d are kept", size, kept)
	}
}

// How deep a call may recurse does not depend on the calls before it: an instance does not keep a stack that has grown,
// because wazero would grow it further to other lengths.
func TestDepthDoesNotDependOnEarlierCalls(t *testing.T) {
	t.Parallel()
	const bigFrames, smallFrames = fnScore + 1, fnScore + 3
	// The first letter of config.mode chooses what the call does: w two large frames, or a recursion of so many
	// letters, each of them 2000 calls.
	g := newGuest()
	dropAll := bytes.Repeat(opDrop, 1000)
	results, wide := strings.Repeat(tI64, 1000), bytes.Repeat(i64Const(1), 1000)
	outer := guestFunction{results: results, body: concat(callFunc(bigFrames+1), dropAll, wide)}
	_, f := deep(smallFrames, 0)
	g.scoring(g.fact("config.mode", 64), localSet(0), i32Const(bufferAt), opLoadByte, i32Const('w'), opEqual,
		ifTrue(callFunc(bigFrames), dropAll, returnScored, opReturn),
		localGet(0), i32Const(2000), op(0x6c), callFunc(smallFrames), returnScored).
		with(outer, guestFunction{results: results, body: wide}, f)
	m, box := hostileGuest{wasm: g.encode}.module(), sandboxOf(t, 1)
	outcome := func(p *Plugin, mode string) string {
		_, err := p.Score(t.Context(), facts(testEntity, mode))
		if err == nil {
			return "scored"
		}
		return string(failureOf(t, err).Reason)
	}
	p := openIn(t, box, m)
	trapped := false
	for depth := 4; depth <= 64; depth += 6 {
		recursing := strings.Repeat("d", depth)
		first := outcome(openIn(t, box, m), recursing)
		outcome(p, "wide")
		if got := outcome(p, recursing); got != first {
			t.Errorf("%d calls deep: %s on a new instance, %s after another call", 2000*depth, first, got)
		}
		trapped = trapped || first == string(check.Trap)
	}
	expect.That(t, trapped, "no recursion was too deep, so the test proves nothing")
}
