package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/registry"
	"assay/registry/expect"
)

// hostileGuest is a module that the sandbox must survive, and the expected result of opening and calling it.
type hostileGuest struct {
	name     string // group and guest
	wasm     func() []byte
	want     expectation
	memoryMB int // manifest; 0: 1
	fuel     int // budget of the manifest; 0: 10 million
	// processor time of a call, which does not follow from the budget, because a busy machine is slow; 0: patience
	time time.Duration
}

// expectation is the expected result: refused by Open, a call that fails or is refused, or a score.
type expectation struct {
	refused  bool
	reason   check.FailureReason // of the call
	contains []string            // parts of the error text
	score    int
}

// overran is the reason of calls that are refused because they used up their processor time.
const overran check.FailureReason = "overran"

func refusedAtOpen(contains ...string) expectation {
	return expectation{refused: true, contains: contains}
}

func failsWith(reason check.FailureReason, contains ...string) expectation {
	return expectation{reason: reason, contains: contains}
}

func traps(contains ...string) expectation       { return failsWith(check.Trap, contains...) }
func breaksRules(contains ...string) expectation { return failsWith(check.Refused, contains...) }

func burnsOut() expectation { return failsWith(check.Exhausted, "the fuel ran out") }

func overrunsTime() expectation { return failsWith(overran, "more processor time") }

func scores(points int) expectation { return expectation{score: points} }

// isSlow reports whether the guest burns its whole budget.
func (want expectation) isSlow() bool {
	return want.reason == check.Exhausted || want.reason == overran
}

// mismatch describes how a report differs from the expectation; it is empty if they agree.
func (want expectation) mismatch(got report) string {
	text := got.Refused + got.Failure
	ok := got.Refused == "" && got.Failure == "" && got.Score == want.score
	switch {
	case want.refused:
		ok = got.Refused != ""
	case want.reason != "":
		ok = got.Reason == want.reason
	}
	for _, part := range want.contains {
		ok = ok && strings.Contains(text, part)
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("refused: %q, failure: %s %q, score %d; want %+v", got.Refused, got.Reason, got.Failure,
		got.Score, want)
}

// report is the result of opening and calling a guest.
type report struct {
	Refused string // error of Open
	Failure string // error of the call
	Reason  check.FailureReason
	Score   int
	Fuel    int64
	Took    time.Duration // duration of Open if it refused the guest, otherwise of the call
	PeakMB  int           // peak resident memory of the process, beyond the memory at its start
}

// module packs the guest as a plugin. A file that the registry cannot pack reaches the sandbox as it is: the sandbox
// must not rely on the checks of the registry.
func (h hostileGuest) module() registry.Module {
	m := manifest()
	m["budget_fuel"], m["memory_mb"] = cmp.Or(h.fuel, 10_000_000), cmp.Or(h.memoryMB, 1)
	wasm, text := h.wasm(), marshal(m)
	if packed, err := registry.Pack(wasm, text, nil); err == nil {
		wasm = packed
	}
	if module, err := registry.OpenModule(wasm); err == nil {
		return module
	}
	parsed, err := registry.ParseManifest(text)
	if err != nil {
		panic(err)
	}
	return registry.Module{Manifest: parsed, Wasm: wasm}
}

// newBox returns a sandbox that the caller closes, for code that has no testing.TB.
func newBox() *Sandbox { return New(Config{Instances: 1, Logger: discard()}) }

// run opens the guest and calls it once.
func (h hostileGuest) run(r *report) {
	ctx := context.Background()
	box := newBox()
	m := h.module()
	began := time.Now()
	p, err := box.Open(ctx, m)
	if err != nil {
		r.Refused, r.Took = err.Error(), time.Since(began)
		return
	}
	defer p.Close(ctx)
	p.bounds.time = h.timeLimit()
	r.call(p)
}

func (h hostileGuest) timeLimit() time.Duration { return cmp.Or(h.time, patience) }

// call calls a plugin once.
func (r *report) call(p *Plugin) {
	began := time.Now()
	result, err := p.Score(context.Background(), facts(testEntity, ""))
	*r = report{Took: time.Since(began), Score: result.Score, Fuel: result.Fuel}
	if failure := (*check.Failure)(nil); errors.As(err, &failure) {
		r.Failure, r.Reason = failure.Err.Error(), failure.Reason
	} else if errors.Is(err, errTimeLimit) {
		r.Failure, r.Reason = err.Error(), overran
	} else if err != nil {
		r.Failure, r.Reason = err.Error(), "another error"
	}
}

// TestRefusedModuleLeavesOtherPluginsWorking opens every module that must be refused next to a healthy plugin.
func TestRefusedModuleLeavesOtherPluginsWorking(t *testing.T) {
	t.Parallel()
	box := sandboxOf(t, 2)
	plugin := openIn(t, box, hostileGuest{wasm: healthy().encode}.module())
	for _, h := range refusedGuests() {
		if p, err := box.Open(t.Context(), h.module()); err == nil {
			closePlugin(t, p)
			t.Errorf("%s was opened", h.name)
		}
		result, err := scoreOf(plugin, testEntity)
		expect.That(t, result.Score == len(testEntity), "after %s: %+v, %v", h.name, result, err)
	}
}
