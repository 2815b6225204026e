package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// module packs the guest as a plugin, or if the registry refuses it, leaves it as it is: the sandbox checks it too.
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

func hostileGuests() []hostileGuest {
	return slices.Concat(endlessGuests(), trappingGuests(), returningGuests(), refusedGuests())
}

// endlessGuests burn all of their fuel. TestEndless and TestFuelChecks in meter have every kind of code.
func endlessGuests() []hostileGuest {
	large := func(name string, wasm func() []byte) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: burnsOut(), memoryMB: 64}
	}
	// These are the slowest for their fuel. No machine executes so much in a millisecond.
	tooSlow := func(name string, wasm func() []byte) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: overrunsTime(), fuel: registry.MaxBudget,
			time: time.Millisecond, memoryMB: 64}
	}
	hosts, logs := newGuest(), newGuest()
	loopAtDepth, deepLoop := deep(fnScore+1, recursionDepth, endless())
	return []hostileGuest{
		{name: "loop/forever", wasm: scoring(endless(), returnScored).encode, want: burnsOut()},
		{name: "loop/host calls", want: burnsOut(),
			wasm: hosts.scoring(endless(hosts.fact("entity.value", 100), opDrop), returnScored).encode},
		{name: "loop/first call of an instance", wasm: once(endless()), want: burnsOut()},
		{name: "call tree/by table", wasm: callTreeByTable, want: burnsOut()},
		{name: "stack/loop at depth", wasm: scoring(loopAtDepth, returnScored).with(deepLoop).encode, want: burnsOut()},
		large("memory/grow forever", scoring(endless(i32Const(1), opMemoryGrow, opDrop), returnScored).encode),
		large("bulk/init forever", initForever),
		{name: "wasi/yield forever", want: burnsOut(), wasm: newGuest().importing(importOf(wasiModule, "sched_yield",
			"", tI32)).scoring(endless(callFunc(fnLog+1), opDrop), returnScored).encode},
		{name: "log/forever", wasm: logs.scoring(endless(logs.log("%s%n is a format\n")), returnScored).encode,
			want: burnsOut()},
		tooSlow("time/touch every page", touchForever),
		tooSlow("time/copy forever", copyForever),
	}
}

func trappingGuests() []hostileGuest {
	trap := func(name string, wasm func() []byte, part string) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: traps(part)}
	}
	tooDeep, deepest := deep(fnScore+1, 10*recursionDepth) // returns within a slice or two of fuel
	return []hostileGuest{
		trap("stack/recurse forever", scoring(callFunc(fnScore+1), returnScored).with(guestFunction{
			body: callFunc(fnScore + 1)}).encode, "nested too deeply"),
		trap("stack/frame of results", recurseWithResults, "nested too deeply"),
		trap("stack/frame of cold code", recurseWithColdFrame, "nested too deeply"),
		trap("stack/frame of locals", recurseWithLocals, "nested too deeply"),
		trap("stack/return from too deep", scoring(tooDeep, returnScored).with(deepest).encode, "nested too deeply"),
		trap("trap/load at the highest offset", trapping(i32Const(-1), op(0x28, 0), uleb(1<<32-1), opDrop),
			"out of bounds memory"),
		trap("trap/fill outside", trapping(i32Const(1), i32Const(0), i32Const(65536), opMemoryFill),
			"out of bounds memory"),
		trap("trap/table entry of another type", mistypedCall, "indirect call type mismatch"),
		trap("trap/first call of an instance", once(opUnreachable), "unreachable"),
		trap("exit/0", newGuest().importing(wasiExitImport).scoring(i32Const(0), callFunc(fnLog+1),
			returnScored).encode, "exited with code 0"),
		trap("outcome/-1", scoring(i32Const(-1)).encode, "returned -1"),
	}
}

// returningGuests end by themselves. TestAnswers has more answers that are refused.
func returningGuests() []hostileGuest {
	large := func(name string, wasm func() []byte, want expectation) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: want, memoryMB: 64}
	}
	return []hostileGuest{
		{name: "healthy", wasm: healthy().encode, want: scores(len(testEntity))},
		{name: "slow", wasm: slow(500_000), want: scores(7)},
		{name: "stack/return from depth", wasm: recurseAndReturn, want: scores(3)},
		{name: "wasi/sleep an hour", wasm: sleepAnHour, want: scores(5)},
		{name: "wasi/size of subscriptions overflows", wasm: overflowingSubscriptions(0x05555556), want: scores(6)},
		{name: "wasi/clocks and random numbers", wasm: flipACoin, want: scores(coinScore)},
		large("wasi/too many random bytes",
			invalidArguments(wasiRandomGetImport, i32Const(0), i32Const(maxRandom+1)), scores(6)),
		large("wasi/too many buffers", invalidArguments(wasiWriteImport,
			i32Const(1), i32Const(64), i32Const(maxVectors+1), i32Const(0)), scores(6)),
		large("wasi/too many subscriptions", invalidArguments(wasiPollImport,
			i32Const(64), i32Const(64), i32Const(maxVectors+1), i32Const(0)), scores(6)),
		{name: "custom section/invalid debug info", wasm: invalidDebugInfo, want: scores(len(testEntity))},
		{name: "undeclared/code", wasm: signalling(1, "test:signal:other", "Undeclared").encode,
			want: breaksRules(`no signal code "test:signal:other"`)},
		{name: "signals/65", wasm: signallingRepeatedly(65), want: breaksRules("more than 64 signals")},
	}
}

// refusedGuests must not be opened. TestOpenDescribesDefects and TestRefusedModules in meter have more.
func refusedGuests() []hostileGuest {
	changed := func(name string, change func(*guest), contains ...string) hostileGuest {
		return hostileGuest{name: name, want: refusedAtOpen(contains...), wasm: func() []byte {
			g := healthy()
			change(g)
			return g.encode()
		}}
	}
	starting := func(name string, g *guest, contains ...string) hostileGuest {
		return hostileGuest{name: "initialisation/" + name, wasm: g.encode,
			want: refusedAtOpen(append(contains, "starting an instance")...)}
	}
	importing := func(name string, function guestImport, contains ...string) hostileGuest {
		return changed("import/"+name, func(g *guest) { g.imports[fnLog] = function }, contains...)
	}
	return []hostileGuest{
		{name: "locals/1001", want: refusedAtOpen("code section, offset", "locals, over the limit of 1000"),
			wasm: scoring(returnScored).with(guestFunction{locals: strings.Repeat(tI32, 1001)}).encode},
		changed("memory/data outside", func(g *guest) { g.data = make([]byte, 64<<10) },
			"starting an instance", "out of bounds memory"),
		{name: "state/table.set", wasm: settingTable, want: refusedAtOpen("table.set", "puts back after each call")},
		starting("loop in start", loopInStart(), "ran out"),
		starting("loop", healthy().initialising(endless()), "ran out"),
		starting("recursion", healthy().initialising(callFunc(fnScore+1))),
		importing("unknown function", importOf("env", "secret", "", ""), `"secret" of module "env"`, "not offered"),
		importing("wrong type", importOf(hostModule, "log", tI32+tI32+tI64, ""), "assay.log", "(i32, i32, i64)"),
		changed("export/memory is a global", func(g *guest) {
			g.globals = [][]byte{concat([]byte(tI32), op(0), i32Const(0), op(0x0b))}
			g.exports = [][]byte{exportEntry("memory", 3, 0)}
		}, `a memory named "memory"`),
	}
}
