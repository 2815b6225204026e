package sandbox

import (
	"time"

	"assay/host/check"
	"assay/registry"
)

func hostileGuests() []hostileGuest {
	var all []hostileGuest
	for _, list := range [][]hostileGuest{endlessGuests(), trappingGuests(), returningGuests(), refusedGuests()} {
		all = append(all, list...)
	}
	return all
}

func endlessGuests() []hostileGuest {
	large := func(name string, wasm func() []byte) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: burnsOut(), memoryMB: 64, extraMB: 192}
	}
	// These are the slowest for their fuel. No machine executes so much in a millisecond.
	tooSlow := func(name string, wasm func() []byte) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: overrunsTime(), fuel: registry.MaxBudget,
			time: time.Millisecond, memoryMB: 64, extraMB: 192}
	}
	return []hostileGuest{
		{name: "loop/forever", wasm: loopForever, want: burnsOut()},
		{name: "loop/branch table", wasm: loopByBranchTable, want: burnsOut()},
		{name: "loop/host calls", wasm: loopThroughHost, want: burnsOut()},
		{name: "loop/until the fuel limit", wasm: loopForever, want: failsWith(check.Exhausted, "the fuel ran out"),
			fuel: 1_000_000},
		{name: "loop/first call of an instance", wasm: once(endless()), want: burnsOut()},
		{name: "call tree/direct", wasm: callTree, want: burnsOut()},
		{name: "call tree/by table", wasm: callTreeByTable, want: burnsOut()},
		{name: "call tree/fib", wasm: naiveFib, want: burnsOut()},
		{name: "call tree/straight line", wasm: straightLine, want: burnsOut(), extraMB: 768},
		{name: "stack/loop at depth", wasm: loopAtDepth, want: burnsOut()},
		{name: "stack/recurse repeatedly", wasm: recurseRepeatedly, want: burnsOut()},
		large("memory/grow forever", growForever),
		large("bulk/fill forever", fillForever),
		large("bulk/copy forever", copyForever),
		large("bulk/init forever", initForever),
		large("bulk/touch every page", touchForever),
		{name: "wasi/yield forever", wasm: yieldForever, want: burnsOut()},
		large("wasi/random forever", randomForever),
		large("wasi/print eight million buffers", printVectors),
		large("wasi/poll a million clocks", pollVectors),
		{name: "log/forever", wasm: logForever, want: burnsOut()},
		tooSlow("time/touch every page", touchForever),
		tooSlow("time/fill forever", fillForever),
		tooSlow("time/copy forever", copyForever),
	}
}

func trappingGuests() []hostileGuest {
	deep := func(name string, wasm func() []byte, part string) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: traps(part)}
	}
	return []hostileGuest{
		deep("stack/recurse forever", recurseForever, "nested too deeply"),
		deep("stack/recurse mutually", recurseMutually, "nested too deeply"),
		deep("stack/trap at depth", trapAtDepth, "unreachable"),
		deep("stack/recurse by table", recurseByTable, "nested too deeply"),
		deep("stack/frame of results", recurseWithResults, "nested too deeply"),
		deep("stack/frame of cold code", recurseWithColdFrame, "nested too deeply"),
		deep("stack/frame of locals", recurseWithLocals, "nested too deeply"),
		deep("stack/return from too deep", recurseTooDeepAndReturn, "nested too deeply"),
		{name: "trap/unreachable", wasm: trapping(opUnreachable), want: traps("unreachable")},
		{name: "trap/division by zero", wasm: trapping(i32Const(1), i32Const(0), op(0x6d), opDrop),
			want: traps("divide by zero")},
		{name: "trap/division overflow", wasm: trapping(i32Const(-1<<31), i32Const(-1), op(0x6d), opDrop),
			want: traps("overflow")},
		{name: "trap/truncate NaN", wasm: trapping(op(0x43, 0, 0, 0xc0, 0x7f, 0xa8), opDrop),
			want: traps("invalid conversion")},
		{name: "trap/load outside", wasm: trapping(i32Const(65533), opLoad, opDrop),
			want: traps("out of bounds memory")},
		{name: "trap/store outside", wasm: trapping(i32Const(65533), i32Const(1), opStore),
			want: traps("out of bounds memory")},
		{name: "trap/load at the highest offset", wasm: trapping(i32Const(-1), op(0x28, 0), maxCount, opDrop),
			want: traps("out of bounds memory")},
		{name: "trap/fill outside", wasm: trapping(i32Const(1), i32Const(0), i32Const(65536), opMemoryFill),
			want: traps("out of bounds memory")},
		{name: "trap/table entry of another type", wasm: withTable(callTable(0, fnScore)),
			want: traps("indirect call type mismatch")},
		{name: "trap/null table entry", wasm: withTable(callTable(1, fnScore)), want: traps("invalid table access")},
		{name: "trap/outside the table", wasm: withTable(callTable(3, fnScore)), want: traps("invalid table access")},
		{name: "trap/first call of an instance", wasm: once(opUnreachable), want: traps("unreachable")},
		{name: "exit/0", wasm: exiting(0), want: traps("exited with code 0")},
		{name: "exit/1", wasm: exiting(1), want: traps("exited with code 1")},
		{name: "outcome/-1", wasm: returning(-1), want: traps("returned -1")},
		{name: "outcome/101", wasm: returning(101), want: traps("returned 101")},
		{name: "outcome/-2147483648", wasm: returning(-1 << 31), want: traps("returned -2147483648")},
	}
}

func returningGuests() []hostileGuest {
	large := func(name string, wasm func() []byte, want expectation) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: want, memoryMB: 64, extraMB: 192}
	}
	text := func(name, text string, want expectation) hostileGuest {
		return hostileGuest{name: "text/" + name, wasm: signalling(1, codeOne, text).encode, want: want}
	}
	return []hostileGuest{
		{name: "healthy", wasm: healthy().encode, want: scores(len(testEntity))},
		{name: "slow", wasm: slow(500_000), want: scores(7)},
		{name: "simd", wasm: simdHeavy, want: scores(8)},
		{name: "stack/return from depth", wasm: recurseAndReturn, want: scores(3)},
		{name: "memory/grow at once", wasm: growAtOnce, want: scores(9)},
		{name: "wasi/sleep an hour", wasm: sleepAnHour, want: scores(5)},
		{name: "wasi/size of subscriptions overflows", wasm: overflowingSubscriptions(0x05555556), want: scores(6)},
		{name: "wasi/size of subscriptions overflows to zero", wasm: overflowingSubscriptions(1 << 28),
			want: scores(6)},
		{name: "wasi/clocks and random numbers", wasm: flipACoin, want: scores(coinScore)},
		large("wasi/too many random bytes",
			invalidArguments(wasiRandomGetImport, i32Const(0), i32Const(maxRandom+1)), scores(6)),
		large("wasi/too many buffers", invalidArguments(wasiWriteImport,
			i32Const(1), i32Const(64), i32Const(maxVectors+1), i32Const(0)), scores(6)),
		large("wasi/too many subscriptions", invalidArguments(wasiPollImport,
			i32Const(64), i32Const(64), i32Const(maxVectors+1), i32Const(0)), scores(6)),
		{name: "custom section/invalid debug info", wasm: invalidDebugInfo, want: scores(len(testEntity))},
		{name: "custom section/invalid names", wasm: invalidNames, want: scores(len(testEntity))},
		{name: "points/101", wasm: signalling(101, codeOne, "Alarming").encode, want: breaksRules("101 points")},
		{name: "points/-2147483648", wasm: signalling(-1<<31, codeOne, "Alarming").encode,
			want: breaksRules("-2147483648 points")},
		{name: "undeclared/code", wasm: signalling(1, "test:signal:other", "Undeclared").encode,
			want: breaksRules(`no signal code "test:signal:other"`)},
		{name: "undeclared/threat", wasm: threatening("malware"), want: breaksRules(`no threat "malware"`)},
		{name: "undeclared/threat that is a verdict", wasm: threatening("allow\x00\xff"),
			want: breaksRules("no threat")},
		{name: "signals/65", wasm: signallingRepeatedly(65), want: breaksRules("more than 64 signals")},
		{name: "signals/million", wasm: signallingRepeatedly(1_000_000), want: burnsOut()},
		large("text/10 MiB", signallingText(10<<20), breaksRules("control character U+0000")),
		text("empty", "", breaksRules("empty")),
		text("not UTF-8", "a\xff", breaksRules("not UTF-8")),
		text("right to left override", "evil\u202etxt.exe", breaksRules("invisible character")),
		text("like the host's", "ASSAY： Nothing found", breaksRules("the host's own")),
		text("script", "</script><script>alert(1)", scores(1)),
		text("nested brackets", nested, scores(1)),
		{name: "log/10 MiB", wasm: loggingBytes(10 << 20), want: traps("unreachable"), memoryMB: 64, extraMB: 192},
		{name: "log/format verbs", wasm: logging("%s%n%!d(MISSING)"), want: traps("unreachable")},
	}
}

func refusedGuests() []hostileGuest {
	changed := func(name string, change func(*guest), contains ...string) hostileGuest {
		return hostileGuest{name: name, wasm: healthyExcept(change), want: refusedAtOpen(contains...)}
	}
	starting := func(name string, wasm func() []byte, contains ...string) hostileGuest {
		return hostileGuest{name: "initialisation/" + name, wasm: wasm,
			want: refusedAtOpen(append(contains, "starting an instance")...)}
	}
	state := func(instruction string, code []byte) hostileGuest {
		return hostileGuest{name: "state/" + instruction, wasm: statefulBy(code),
			want: refusedAtOpen(instruction, "puts back after each call")}
	}
	return append(malformedGuests(), []hostileGuest{
		changed("memory/data outside", func(g *guest) { g.data = make([]byte, 64<<10) },
			"starting an instance", "out of bounds memory"),
		state("table.set", concat(i32Const(0), opNullFunc, op(0x26, 0))),
		state("table.grow", concat(opNullFunc, i32Const(1), opTableGrow, opDrop)),
		state("table.fill", concat(i32Const(0), opNullFunc, i32Const(1), opTableFill)),
		state("table.copy", concat(i32Const(0), i32Const(0), i32Const(1), op(0xfc, 14, 0, 0))),
		state("table.init", concat(i32Const(0), i32Const(0), i32Const(1), op(0xfc, 12, 0, 0))),
		state("elem.drop", op(0xfc, 13, 0)),
		state("data.drop", op(0xfc, 9, 0)),
		state("ref.func", concat(op(0xd2), uleb(fnScore), opDrop)),
		changed("state/mutable v128 global", func(g *guest) {
			g.globals = [][]byte{concat([]byte(tV128), op(1, 0xfd, 0x0c), make([]byte, 16), op(0x0b))}
		}, "mutable v128 global", "puts back after each call"),
		{name: "table/64", wasm: sixtyFourTables, want: refusedAtOpen("table section, offset", "64 tables")},
		starting("loop in start", loopInStart, "ran out"),
		starting("loop", healthy().initialising(endless()).encode, "ran out"),
		starting("fib", fibInInitialise, "ran out"),
		starting("trap", healthy().initialising(opUnreachable).encode, "unreachable"),
		starting("recursion", healthy().initialising(callFunc(fnScore+1)).encode),
		starting("recursion in start", recurseInStart),
		{name: "import/stdin", wasm: importing(wasiModule, "fd_read", tI32+tI32+tI32+tI32, tI32),
			want: refusedAtOpen(`"fd_read"`, "not offered")},
		{name: "import/unknown function", wasm: importing("env", "secret", "", ""),
			want: refusedAtOpen(`"secret" of module "env"`, "not offered")},
		{name: "import/socket", wasm: importing(wasiModule, "sock_accept", tI32+tI32+tI32, tI32),
			want: refusedAtOpen(`"sock_accept"`, "not offered")},
		{name: "import/file", want: refusedAtOpen(`"path_open"`, "not offered"),
			wasm: importing(wasiModule, "path_open", tI32+tI32+tI32+tI32+tI32+tI64+tI64+tI32+tI32, tI32)},
		{name: "import/unknown module", wasm: importing("assay2", "log", tI32+tI32+tI32, ""),
			want: refusedAtOpen(`module "assay2"`, "not offered")},
		{name: "import/wrong type", wasm: importing(hostModule, "log", tI32+tI32+tI64, ""),
			want: refusedAtOpen("assay.log", "(i32, i32, i64)")},
		changed("export/no score", func(g *guest) { g.functions[0].export = "score" }, `the function "assay_v1_score"`),
		changed("export/no memory", func(g *guest) { g.exports = nil }, `a memory named "memory"`),
		changed("export/memory is a global", func(g *guest) {
			g.globals = [][]byte{concat([]byte(tI32), op(0), i32Const(0), op(0x0b))}
			g.exports = [][]byte{exportEntry("memory", 3, 0)}
		}, `a memory named "memory"`),
		changed("export/score is a memory", func(g *guest) {
			g.functions[0].export = ""
			g.exports = append(g.exports, exportEntry(exportScore, 2, 0))
		}, `the function "assay_v1_score"`),
		{name: "export/score takes a pointer", wasm: scoreFunction(tI32, tI32, i32Const(0)),
			want: refusedAtOpen(`"assay_v1_score" as (i32) -> (i32)`)},
		{name: "export/score returns a float", want: refusedAtOpen(`"assay_v1_score" as () -> (f64)`),
			wasm: scoreFunction("", tF64, op(0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f))},
	}...)
}

func malformedGuests() []hostileGuest {
	guest := func(name string, wasm func() []byte, contains ...string) hostileGuest {
		return hostileGuest{name: name, wasm: wasm, want: refusedAtOpen(contains...)}
	}
	const atHeader, inCode, work = "header section, offset 0", "code section, offset", "units of work"
	return []hostileGuest{
		guest("compile bomb/4 billion locals", manyLocals, "code section, offset 23", "4294967295 locals"),
		guest("compile bomb/loop over 16,000 locals", phiStorm, inCode, "locals, over the limit of 1000"),
		guest("compile bomb/branches", branchStorm, inCode, work),
		guest("compile bomb/ifs", ifStorm, inCode, work),
		guest("compile bomb/loops", loopStorm, inCode, work),
		guest("compile bomb/branch table", tableStorm, inCode, work),
		guest("format/empty", file(""), atHeader, "empty"),
		{name: "format/100 MiB of zeros", wasm: zeros100MB, want: refusedAtOpen(atHeader, "over the limit"),
			extraMB: 200},
		{name: "custom section/giant names", wasm: giantNames, want: refusedAtOpen(atHeader, "over the limit"),
			extraMB: 500},
		guest("announced count/import", announcedImports, "import section, offset", "4294967295"),
	}
}
