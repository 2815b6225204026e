package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/host/check"
	"assay/registry"
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

// call calls a plugin once.
func (r *report) call(p *Plugin) {
	result, err := p.Score(context.Background(), facts(testEntity, ""))
	*r = report{Score: result.Score}
	if failure := (*check.Failure)(nil); errors.As(err, &failure) {
		r.Failure, r.Reason = failure.Err.Error(), failure.Reason
	} else if errors.Is(err, errTimeLimit) {
		r.Failure, r.Reason = err.Error(), overran
	} else if err != nil {
		r.Failure, r.Reason = err.Error(), "another error"
	}
}
